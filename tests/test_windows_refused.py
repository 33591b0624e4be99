"""Windows: what does not go with patches is refused by name, when it is read or when the bank is built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamfeat.bank import materialise
from streamfeat.baselines import augment
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.featuremap import FeatureMap
from streamfeat.kernel_error import kernel_error
from tests.test_bank import pictures
from tests.test_windows import POOLINGS, SOFT, WINDOW, bank_of, spec_of

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"form": "dense"}, "form = 'operators', got 'dense'"),
    ({"window": {"kind": "whole"}}, "cells lie over patches"),
    ({"window": {**WINDOW, "size": 3}}, "no parameter 'size'"),
    ({"window": {"kind": "patches", "height": 4}}, "needs 'width'"),
    ({"window": {**WINDOW, "height": 1, "width": 1}}, "at least two numbers, got 1 x 1"),
    ({"window": {**WINDOW, "stride_rows": 0}}, "strides must be at least 1, got 0"),
    ({"window": {**WINDOW, "pad": 4}}, "pad must be .*, got 4"),
    ({"window": {**WINDOW, "contrast": 0}}, "contrast must be above 0.*, got 0"),
    ({"pooling": {"kind": "nystrom", "kernel": {"kind": "linear"}}}, "'nystrom' needs norms of patches"),
    ({"pooling": {"kind": "max", "kernel": {"kind": "rbf", "sigma": 1}}}, "'max' needs norms of patches"),
    ({"pooling": {"kind": "fourier", "sigma": 1, "gain": 1}}, "sigma or gain, not both"),
    ({"pooling": {"kind": "fourier", "gain": 0}}, "gain must be above 0"),
    ({"pooling": {**POOLINGS["cdf"], "cells": SOFT}}, "overlap = 0, got overlap = 0.5"),
    ({"pooling": {**POOLINGS["fourier"], "cells": {"rows": 0, "columns": 1}}}, "got 0 and 1"),
    ({"pooling": {**POOLINGS["fourier"], "cells": {"rows": 1, "columns": 1, "overlap": -1}}}, "overlap must be"),
    ({"pooling": {"kind": "mean", "kernel": {"kind": "linear"}, "cells": SOFT}}, "cells must be one of whole"),
    ({"templates": {"source": "whitened-data", "m": 3, "floor": 0}}, "floor must be above 0"),
]


@pytest.mark.parametrize(("changes", "told"), REFUSED, ids=[told for _, told in REFUSED])
def test_a_spec_that_does_not_go_with_patches_is_refused(changes: dict[str, Any], told: str) -> None:
    """By name, when it is read."""
    with pytest.raises(ConfigError, match=told):
        spec_of(**changes)


RINGS = {"kind": "polar", "height": 4, "width": 12, "rings": 2, "angles": 8, "inner": 1, "outer": 4}


LARGE = {
    "front_end": [{"stage": "pixels", "height": 600, "width": 900}],
    "window": {"kind": "whole"},
    "pooling": {"kind": "fourier", "gain": 1},
}


BUILT: list[tuple[dict[str, Any], str]] = [
    ({"pooling": {**POOLINGS["fourier"], "cells": {"rows": 7, "columns": 2}}}, "7 x 2 cells .* has 6 x 11"),
    ({"window": {**WINDOW, "height": 20}}, "20 x 3 do not fit into 13 x 11"),
    ({"window": RINGS}, "4 x 12 do not fit into 13 x 11"),
    ({**LARGE, "templates": {"source": "gaussian", "m": 10**6}}, "got m x .* = 1000000 x 1 x 540000"),
]


@pytest.mark.parametrize(("changes", "told"), BUILT, ids=[told for _, told in BUILT])
def test_what_does_not_fit_the_front_end_is_refused_at_build(changes: dict[str, Any], told: str) -> None:
    """A patch larger than the plane, more cells than positions, no plane at all."""
    with pytest.raises(ConfigError, match=told):
        bank_of(**{"templates": {"source": "gaussian", "m": 5}, **changes})


def test_what_needs_a_moved_template_refuses_patches() -> None:
    """The dense form, exact kernels and copies of the training set."""
    fmap = FeatureMap(bank_of({"kind": "fourier", "sigma": 0.5}, templates={"source": "fourier", "m": 5}))
    with pytest.raises(ConfigError, match="patches"):
        materialise(fmap.bank)
    with pytest.raises(InvalidArgument, match="no patches"):
        kernel_error(fmap, pictures(3, side=20))
    with pytest.raises(InvalidArgument, match="has patches"):
        augment(fmap.bank, np.zeros((1, 143), np.float32), [0], 2, np.random.default_rng(0))
