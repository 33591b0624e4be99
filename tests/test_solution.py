"""Solution: what is saved comes back, also from before there was as much to save."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from streamfeat.learn.rls import RLS
from tests.test_rls import problem


@pytest.mark.parametrize(
    "options",
    [
        {"lam": "holdout", "grid": "gurls", "measure": "squared-error"},
        {"lam": "loo", "grid": [0.1, 1.0], "balance": True, "rank": 4, "seed": 7},
        {"lam": 0.1, "standardise": "none"},
    ],
)
def test_options_and_choice_come_back(options: dict[str, Any]) -> None:
    """All options, how lambda was chosen, and scores to the bit, through JSON."""
    X, codes = problem(30, 8)
    rls = RLS(**options).fit(X, codes)
    fields, arrays = rls.state()
    back = RLS.from_state(json.loads(json.dumps(fields)), arrays)
    np.testing.assert_array_equal(back.decision_function(X), rls.decision_function(X))
    assert back.state()[0] == fields
    assert back.held_out_.squared_error == rls.held_out_.squared_error
    np.testing.assert_array_equal(back.held_out_.recall, rls.held_out_.recall)
    # refitted with the options that came back: the same model
    np.testing.assert_array_equal(back.fit(X, codes).coef_, rls.coef_)


def test_a_model_of_before_is_read() -> None:
    """Without grid, measure, balance, rank, seed, squared error and recall, and with one lambda for all classes."""
    X, codes = problem(30, 8)
    rls = RLS("loo").fit(X, codes)
    fields, arrays = rls.state()
    settings = {name: fields["settings"][name] for name in ("lam", "standardise", "unit_norm", "per_class")}
    held_out = {name: fields["held_out"][name] for name in ("criterion", "accuracy")}
    few = {name: array for name, array in arrays.items() if name != "recall"}
    few["lam"] = np.asarray(rls.lam_)
    back = RLS.from_state({**fields, "settings": settings, "held_out": held_out}, few)
    np.testing.assert_array_equal(back.decision_function(X), rls.decision_function(X))
    assert back.lam_ == rls.lam_
    assert np.isnan(back.held_out_.recall).all()
