"""The bank spec: what is accepted, and what refusals say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamfeat.bankspec import BankSpec, canonical_json, presets
from streamfeat.errors import ConfigError


def small(**changes: Any) -> dict[str, Any]:
    """A spec of a 4 x 4 picture; `changes` replace or, with None, remove top-level keys."""
    spec = {
        "name": "small",
        "front_end": [{"stage": "pixels", "height": 4, "width": 4}],
        "templates": {"source": "gaussian", "m": 8},
        "pooling": {"kind": "cdf", "thresholds": "sigma", "n_bins": 5},
        **changes,
    }
    return {key: value for key, value in spec.items() if value is not None}


def test_a_spec_survives_the_way_through_a_dict() -> None:
    """as_dict writes every default out and from_dict gives the same spec again."""
    spec = BankSpec.from_dict(small())
    again = BankSpec.from_dict(spec.as_dict())
    assert again == spec
    assert spec.as_dict()["pooling"]["reach"] == 3.0
    assert spec.as_dict()["window"] == {"kind": "whole"}


def test_toml_text_and_file_say_the_same(tmp_path: Path) -> None:
    """One TOML, read from text or from a file."""
    text = """
name = "small"
templates = {source = "gaussian", m = 8}
pooling = {kind = "cdf", thresholds = "sigma", n_bins = 5}
[[front_end]]
stage = "pixels"
height = 4
width = 4
"""
    file = tmp_path / "small.toml"
    file.write_text(text)
    assert BankSpec.from_toml(text) == BankSpec.from_toml(file) == BankSpec.from_dict(small())


def test_equal_numbers_have_one_text() -> None:
    """8 and 8.0 are the same m, 1 and 1.0 the same epsilon: a bank's hash must not depend on how they were typed."""
    one = BankSpec.from_dict(small(templates={"source": "gaussian", "m": 8, "epsilon": 1}))
    other = BankSpec.from_dict(small(templates={"source": "gaussian", "m": 8.0, "epsilon": 1.0}))
    assert canonical_json(one.as_dict()) == canonical_json(other.as_dict())


def test_every_preset_is_a_spec() -> None:
    """What ships loads, and its plain twin has no group."""
    assert "digits-image" in presets()
    for name in presets():
        spec = BankSpec.preset(name)
        assert spec.name == name
        assert all(stream.group == () for stream in spec.plain().streams)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "Bad Name"}, ["name", "'Bad Name'"]),
        ({"pooling": None}, ["needs", "'pooling'"]),
        ({"pooling": {"kind": "median"}}, ["pooling.kind", "'cdf', 'fourier'", "'median'"]),
        ({"pooling": {"kind": "cdf", "thresholds": "sigma"}}, ["pooling", "'n_bins'"]),
        ({"pooling": {"kind": "cdf", "thresholds": "paper", "n_bins": 5, "reach": 2}}, ["pooling", "reach", "2"]),
        ({"pooling": {"kind": "cdf", "thresholds": "sigma", "n_bins": 5, "sigma": 2}}, ["pooling", "'sigma'", "known"]),
        ({"pooling": {"kind": "cdf", "thresholds": "sigma", "n_bins": 0}}, ["pooling", "n_bins", "0"]),
        (
            {"pooling": {"kind": "cdf", "thresholds": "sigma", "n_bins": 5, "cells": "3x3"}},
            ["cells", "whole", "'3x3'"],
        ),
        ({"pooling": {"kind": "cdf", "thresholds": "sigma", "n_bins": 5, "bins": 5}}, ["pooling", "'bins'", "n_bins"]),
        ({"pooling": {"kind": "fourier", "sigma": 1}}, ["templates.source", "'fourier'", "'gaussian'"]),
        ({"templates": {"source": "noise", "m": 8}}, ["templates.source", "'noise'"]),
        ({"templates": {"source": "gaussian", "m": 0}}, ["templates", "m must", "0"]),
        ({"templates": {"source": "gaussian", "m": "many"}}, ["templates.m", "integer", "'many'"]),
        ({"window": {"kind": "tiles"}}, ["window.kind", "'whole'", "'patches'", "'tiles'"]),
        ({"window": {"kind": "whole", "stride": 2}}, ["window.kind", "'stride'"]),
        ({"layer2": {"kind": "rff"}}, ["layer2.kind", "'none'", "'fourier'", "'rff'"]),
        ({"layer2": {"kind": "none", "m": 3}}, ["layer2.kind", "'m'"]),
        ({"layer2": {"kind": "fourier", "m": 3}}, ["layer2", "'sigma'"]),
        ({"layer2": {"kind": "fourier", "m": 0, "sigma": 1}}, ["layer2", "m must", "0"]),
        ({"layer2": {"kind": "fourier", "m": 3, "sigma": "mean"}}, ["layer2", "median", "'mean'"]),
        ({"layer2": {"kind": "fourier", "m": 3, "sigma": 0}}, ["layer2", "sigma", "0.0"]),
        ({"templates": {"source": "gaussian", "m": 8, "epsilon": 0}}, ["epsilon", "0.0"]),
        ({"templates": {"source": "gaussian", "m": 8, "kernel": "laplacian"}}, ["gaussian", "'kernel'", "known"]),
        ({"templates": {"source": "landmarks", "m": 8, "choose": "best"}}, ["choose", "k-means++", "'best'"]),
        ({"form": "sparse"}, ["form", "'operators', 'dense'", "'sparse'"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"colour": True}, ["'colour'", "known", "front_end"]),
        ({"group": [{"factor": "waveform_pitch", "law": "grid", "low": 0, "high": 1, "n": 2}]}, ["dense", "'data'"]),
        ({"front_end": []}, ["front_end"]),
        ({"seed": float("nan")}, ["seed", "finite", "nan"]),
        ({"front_end": [{"stage": "pixels", "height": 4, "width": float("inf")}]}, ["front_end.0.width", "inf"]),
        ({"name": Path("x")}, ["texts"]),
    ],
)
def test_refusals_name_the_key_and_what_came(changes: dict[str, Any], words: list[str]) -> None:
    """Each message has the key, what is allowed and what came."""
    with pytest.raises(ConfigError) as caught:
        BankSpec.from_dict(small(**changes))
    for word in words:
        assert word.lower() in str(caught.value).lower(), str(caught.value)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """A missing file, broken TOML and an unknown preset are told by name."""
    with pytest.raises(ConfigError, match=r"gone\.toml"):
        BankSpec.from_toml(tmp_path / "gone.toml")
    with pytest.raises(ConfigError, match="TOML"):
        BankSpec.from_toml("name = ")
    with pytest.raises(ConfigError, match=r"TOML.*recursion"):
        BankSpec.from_toml("name = " + "[" * 5000)
    with pytest.raises(ConfigError, match=r"'nothing'.*digits-image"):
        BankSpec.preset("nothing")


@pytest.mark.parametrize("changes", [{"streams": [{}] * 5000}, {"name": "x" * 5000}, {"seed": {"a" * 99: "b" * 999}}])
def test_a_refusal_shows_no_more_than_fits_a_line(changes: dict[str, Any]) -> None:
    """Of a long value its ends, or its first parts."""
    with pytest.raises(ConfigError, match="got") as caught:
        BankSpec.from_dict(small(**changes))
    assert len(str(caught.value)) < 400
