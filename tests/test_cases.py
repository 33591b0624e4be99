"""The awkward files of others, all of them: through the library, `streamfeat check` and a live fleet alike.

They lie in `../shared`; what they stand for is made by our own generators in the tests of each reader.
"""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamfeat.client import Client, Job
from streamfeat.errors import InvalidArgument
from streamfeat.inspection import check_file
from streamfeat.learn.checks import check_labels
from streamfeat.learn.recursive import RecursiveRegressor
from streamfeat.learn.regression import RLSRegressor
from streamfeat.signals import read_audio, read_image
from tests.files import manifest_cases, shared
from tests.terminal import Terminal

KINDS = ("wav", "sphere", "image", "idx")

NAMED = {
    "sphere_shorten.wav": r"sample_coding .*shorten",
    "sphere_truncated.wav": r"2000 .*1200",
    "sphere_crlf_damaged.wav": "CR LF",
    "sphere_no_rate.wav": "sample_rate",
    "sphere_bad_checksum.wav": r"sample_checksum .*8009.* 8008",
    "truncated_data.wav": r"1600 .*900",
    "mp3_in_riff.wav": r"0x0055 \(MPEG layer 3\)",
    "html_error_page.wav": "<html>",
    "truncated.jpg": "cut short",
    "truncated.png": "cut short",
    "png_100000x100000.png": r"10000000000 pixels.*limit",
    "png_9000x9000_1bit.png": r"81000000 pixels.*limit",
    "png_1x20000000.png": r"side .*limit",
    "images-idx3-ubyte_cut": r"3920 .*3820",
    "labels-idx1-ubyte_four": "4 labels for the 5 images of images-idx3-ubyte",
}
"""What the reason of each refusal holds."""

DECODED_OR_REFUSED = {
    "derived_float32_nan_inf_over1.wav": "non-finite sample at 100",
    "derived_truncated_data.wav": r"6914 .*3456",
    "derived_zero_channels.wav": "0 channels",
    "desphere_shorten_gate.sph": "shorten",
    "hound_fuzz_crash-24728523.wav": "fmt chunk says 655360 bytes",
    "scipy_44100Hz-le-1ch-4bytes-early-eof.wav": r"17640 .*944",
    "pillow_bmp_b_reallybig.bmp": r"6000000000000 pixels",
    "pillow_bmp_b_shortfile.bmp": "cut short",
    "pillow_decompression_bomb.ico": "4294836225 pixels",
    "pillow_oom-225817ca0f8c663be7ab4b9e717b02c661e66834.tif": "not a picture",
    "pillow_png_decompression_dos.png": "too large",
    "pillow_unknown_compression_method.png": "not a picture",
}
"""Files of `data/awkward` that are refused, and what the reason holds; all others are read."""


def files(*kinds: str) -> list[dict[str, Any]]:
    """The cases of these kinds, or a skip."""
    shared("cases", "files")
    return [case for kind in kinds for case in manifest_cases(kind)]


def hold_to(case: dict[str, Any], found: dict[str, Any]) -> None:
    """The verdict is the one expected: values within the tolerance, or a reason that names what is wrong."""
    if case["file"] in NAMED:
        assert found["outcome"] == "reject", found
        assert case["outcome"] == "reject" or case.get("also_ok")
        assert re.search(NAMED[case["file"]], found["reason"]), found["reason"]
        return
    assert found["outcome"] == "accept", found
    assert (found["shape"], found["rate_hz"]) == (case["shape"], case.get("sr"))
    # the manifest has nine decimals
    np.testing.assert_allclose(found["head"], case["head"], rtol=0, atol=case["tol"] + 1e-9)
    np.testing.assert_allclose(found["sum"], case["total"], rtol=0, atol=1e-6 + math.prod(case["shape"]) * case["tol"])


def test_every_file_through_the_library() -> None:
    """Outcome, values and reason of each; one with a pair gives the same values as that."""
    for case in files(*KINDS):
        path = shared("cases", "files", case["file"])
        found = check_file(path)
        hold_to(case, found.as_dict(values=True))
        if "pair" in case and found.accepted:
            twin = check_file(path.with_name(case["pair"]))
            assert found.stored is not None
            assert twin.stored is not None
            np.testing.assert_array_equal(found.stored * found.scale, twin.stored * twin.scale)


def test_every_file_through_the_command(cli: Terminal) -> None:
    """The same, each file a JSON line, in the order given."""
    cases = files(*KINDS)
    ran = cli("check", *(shared("cases", "files", case["file"]) for case in cases), "--values", "--json")
    assert ran.status == 3
    for case, line in zip(cases, ran.out.splitlines(), strict=True):
        hold_to(case, json.loads(line))


def test_every_file_of_others(cli: Terminal) -> None:
    """Odd, broken and hostile files of other projects: shapes and rates as expected, or refused by name."""
    folder = shared("data", "awkward")
    rows = list(csv.DictReader((folder / "manifest.csv").read_text().splitlines()))
    ran = cli("check", *(folder / row["file"] for row in rows), "--json")
    for row, line in zip(rows, ran.out.splitlines(), strict=True):
        found, name = json.loads(line), Path(row["file"]).name
        if name in DECODED_OR_REFUSED:
            assert found["outcome"] == "reject", found
            assert re.search(DECODED_OR_REFUSED[name], found["reason"]), found
            continue
        assert found["outcome"] == "accept", found
        exact = re.fullmatch(r"([0-9]+)x([0-9]+)@([0-9]+)", row["expected_shape"])
        if exact:
            n_frames, n_channels, rate_hz = map(int, exact.groups())
            assert found["shape"] == ([n_frames] if n_channels == 1 else [n_frames, n_channels]), found
            assert found["rate_hz"] == rate_hz


def test_every_file_through_a_fleet(served: Terminal) -> None:
    """What is read gives a finite feature, or is told to be too short; what is refused never gets there."""
    n_answered = 0
    with Client(served.front) as client:
        for kind, bank in (("wav", "digits-audio"), ("sphere", "digits-audio"), ("image", "digits-image")):
            read = read_image if kind == "image" else read_audio
            cases = [case for case in files(kind) if case["file"] not in NAMED]
            jobs = [Job(read(shared("cases", "files", case["file"])), name=case["file"]) for case in cases]
            for result in client.stream(jobs, bank=bank, ordered=True):
                if result.error is not None:
                    assert result.error.code in ("INVALID_ARGUMENT", "ITEM_FAILED")
                    assert str(result.error).startswith(result.job.name)
                    continue
                assert np.isfinite(result.feature).all()
                n_answered += 1
    assert n_answered >= 20


def test_labels_of_every_type() -> None:
    """Mixed types are refused by name; each of the types we take comes back as it was given."""
    given = json.loads(shared("cases", "files", "label_types.json").read_text())["given"]
    with pytest.raises(InvalidArgument, match="label"):
        check_labels(given, len(given))
    for label in given:
        if type(label) in (str, int) and label != "":
            assert check_labels([label], 1) == [label]
        else:
            with pytest.raises(InvalidArgument):
                check_labels([label], 1)


def test_regression_cases() -> None:
    """Ridge with penalty 0.1 in all: at once, row by row, in any order, repeated columns, rows five times over."""
    cases = {case["name"]: case for case in json.loads(shared("cases", "files", "rls_cases.json").read_text())}
    first = cases["repeated columns"]
    X, Y = np.array(first["X"]), np.array(first["Y"])
    batch = RLSRegressor(first["lambda"] / len(X), standardise="none").fit(X, Y)  # ours is a row's
    np.testing.assert_allclose(batch.coef_, first["weights_after_all"], atol=first["tol"])
    order = np.random.default_rng(0).permutation(len(X))
    stream = RecursiveRegressor(first["lambda"], intercept=False)
    for row in order:
        stream.partial_fit(X[row : row + 1], Y[row : row + 1])
    np.testing.assert_allclose(stream.coef_, first["weights_after_all"], atol=first["tol"])
    five = cases["rows five times"]
    again = RecursiveRegressor(five["lambda"], intercept=False).partial_fit(np.tile(X, (5, 1)), np.tile(Y, (5, 1)))
    np.testing.assert_allclose(again.coef_, five["weights_after_all"], atol=five["tol"])
    for bad in (cases["one NaN row in the middle"]["row"], cases["one row wrong width"]["bad_row"]):
        before = stream.coef_.copy()
        with pytest.raises(InvalidArgument):
            stream.partial_fit(np.array([bad], float), Y[:1])
        np.testing.assert_array_equal(stream.coef_, before)


def test_nearly_no_penalty() -> None:
    """Repeated columns at 1e-8: finite, the weights of equal columns equal, predictions those of least squares."""
    first = json.loads(shared("cases", "files", "rls_cases.json").read_text())[0]
    X, Y = np.array(first["X"]), np.array(first["Y"])
    fitted = RLSRegressor(1e-8 / len(X), standardise="none").fit(X, Y)
    np.testing.assert_allclose(fitted.coef_[0], fitted.coef_[2], atol=1e-3)
    np.testing.assert_allclose(fitted.predict(X), X @ np.linalg.lstsq(X, Y, rcond=None)[0], atol=1e-4)
