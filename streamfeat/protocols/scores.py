"""Hits as figures: a mean and its deviation a column, and what they were made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.protocols.classify import Hits
from streamfeat.protocols.plan import Plan, Rows

DIGITS = 4


def scores_of(hits: Hits, plan: Plan) -> dict[str, Any]:
    """The figures of one method.

    Returns
    -------
    dict
        "accuracy", "sd", "sd_over", "per_seed", "per_speaker" (with speakers), "loss" (with troubled columns),
        "n_test", "confusion" ({"labels", "counts": a row a label, a column an answer}, over seeds), each by column.
        Means are over speakers, if there are any, then over seeds. "sd" is over seeds where there are several
        ("sd_over": "seeds"), else the binomial standard error of the items ("items").
    """
    speakers = None if plan.speakers is None else np.array(plan.speakers)
    per_seed: dict[str, dict[str, float]] = {}
    per_speaker: dict[str, dict[str, float]] = {}
    n_test: dict[str, int] = {}
    for column in plan.columns:
        by_seed = hits.of[column]
        joined = {seed: _joined(parts) for seed, parts in by_seed.items()}
        n_test[column] = len(np.unique(np.concatenate([rows for rows, _ in joined.values()])))
        if speakers is None:
            per_seed[column] = {str(seed): float(right.mean()) for seed, (_, right) in joined.items()}
            continue
        each = {seed: _by_speaker(speakers[rows], right) for seed, (rows, right) in joined.items()}
        per_seed[column] = {str(seed): float(np.mean(list(some.values()))) for seed, some in each.items()}
        names = sorted({name for some in each.values() for name in some})
        per_speaker[column] = {name: float(np.mean([some[name] for some in each.values()])) for name in names}
    accuracy = {column: float(np.mean(list(some.values()))) for column, some in per_seed.items()}
    several = all(len(some) > 1 for some in per_seed.values())
    sd = {column: sd_of(list(some.values()), n_test[column]) for column, some in per_seed.items()}
    report: dict[str, Any] = {"accuracy": accuracy, "sd": sd, "sd_over": "seeds" if several else "items"}
    confusion = {column: _confusion(hits.answers[column]) for column in plan.columns}
    report |= {"per_seed": per_seed, "n_test": n_test, "confusion": confusion}
    if speakers is not None:
        report["per_speaker"] = per_speaker
    if plan.clean:
        pairs = [(column, clean) for column, clean in plan.clean.items() if column in accuracy]
        report["loss"] = {column: accuracy[clean] - accuracy[column] for column, clean in pairs}
    return report


def rounded(value: Any) -> Any:
    """The same with numbers as they are shown: to four digits after the point."""
    if isinstance(value, dict):
        return {key: rounded(some) for key, some in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value


def _confusion(answers: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    labels = sorted({label for pair in answers for label in pair})
    return {"labels": labels, "counts": [[answers.get((label, said), 0) for said in labels] for label in labels]}


def _joined(parts: list[tuple[Rows, NDArray[np.bool_]]]) -> tuple[Rows, NDArray[np.bool_]]:
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([right for _, right in parts])


def _by_speaker(names: NDArray[np.str_], right: NDArray[np.bool_]) -> dict[str, float]:
    return {str(name): float(right[names == name].mean()) for name in np.unique(names)}


def sd_of(values: list[float], n_items: int) -> float:
    """Deviation of several values, the binomial standard error of a single one."""
    if len(values) > 1:
        return float(np.std(values, ddof=1))
    return float(np.sqrt(values[0] * (1.0 - values[0]) / n_items))
