"""What may enter a learner or an index: features, labels, groups; checked once, here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import InvalidArgument

Label = str | int
"""A class: an int or a text. It comes back as it was given; 1 and "1" never meet in one learner."""


LARGEST = 1e15
"""Features lie within +- this: their squares and sums stay finite in float32 too."""


def check_features(X: ArrayLike, width: int | None = None) -> NDArray[Any]:
    """The rows, as they are, once they are known to be finite numbers of one width.

    Parameters
    ----------
    X : array_like (n, D)
        Integers or floats; nothing is converted.
    width : int, optional
        D, where the caller already knows it.

    Raises
    ------
    InvalidArgument
        Not two-dimensional, not numbers, another width, or NaN, infinity or over 1e15, with its row and column.
    """
    rows = np.asarray(X)
    if rows.ndim != 2:
        raise InvalidArgument(f"features must have shape (n, D), got {rows.shape}; one feature is feature[None, :]")
    if rows.dtype.kind not in "uif":
        raise InvalidArgument(f"features must be integers or floats, got dtype {rows.dtype}")
    if width is not None and rows.shape[1] != width:
        raise InvalidArgument(f"features must have {width} columns, as those before, got {rows.shape[1]}")
    if rows.size and not (rows.min() >= -LARGEST and rows.max() <= LARGEST):
        row, column = (int(i) for i in np.argwhere(~(np.abs(rows.astype(np.float64)) <= LARGEST))[0])
        what = "feature over 1e15" if np.isfinite(rows[row, column]) else "non-finite feature"
        raise InvalidArgument(f"{what} at row {row}, column {column}: {rows[row, column]}; leave that row out")
    return rows


def check_label(label: object, what: str = "label") -> Label:
    """The label (or group) as a plain int or str; numpy's own are unpacked.

    Raises
    ------
    InvalidArgument
        bool, float, None, an empty text, or an int over 64 bits.
    """
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, bool) or not isinstance(label, str | int) or label == "":
        raise InvalidArgument(
            f"a {what} must be an int or a text that is not empty, got {label!r}; write it as one of them"
        )
    if isinstance(label, int) and not -(2**63) <= label < 2**63:
        raise InvalidArgument(f"an int {what} must fit 64 bits, got {label}; write it as text")
    return label


def check_labels(labels: Sequence[object] | NDArray[Any], n: int, like: Label | None = None) -> list[Label]:
    """n labels of one type, which is that of `like` where it is given.

    Raises
    ------
    InvalidArgument
        Another count, a value that is no label, or int and text together.
    """
    if len(labels) != n:
        raise InvalidArgument(f"{n} features need {n} labels, got {len(labels)}")
    checked = [check_label(label) for label in labels]
    for label in checked:
        like = label if like is None else like
        if isinstance(label, str) != isinstance(like, str):
            raise InvalidArgument(f"labels must be all ints or all texts, got {like!r} and {label!r}; convert one kind")
    return checked


def group_numbers(groups: Sequence[object] | NDArray[Any], n: int) -> tuple[NDArray[np.intp], list[Label]]:
    """Groups (speakers, subjects) as 0, 1, ... in order of appearance, and their names.

    Returns
    -------
    numbers : ndarray of intp (n,)
    names : list
        The name of group i is names[i].
    """
    if len(groups) != n:
        raise InvalidArgument(f"{n} features need {n} groups, got {len(groups)}")
    if isinstance(groups, np.ndarray) and groups.dtype.kind in "iuU" and groups.ndim == 1:
        # of one type: a name is looked at once, however many rows it has
        kinds, first, places = np.unique(groups, return_index=True, return_inverse=True)
        order = np.argsort(first)
        return np.argsort(order)[places], [check_label(kind, "group") for kind in kinds[order]]
    index: dict[Label, int] = {}
    numbers = [index.setdefault(check_label(group, "group"), len(index)) for group in groups]
    return np.asarray(numbers, dtype=np.intp), list(index)


def row_mask(mask: ArrayLike | None, n: int, name: str) -> NDArray[np.bool_]:
    """A mask of n booleans; all rows where none is given."""
    if mask is None:
        return np.ones(n, dtype=np.bool_)
    checked = np.asarray(mask)
    if checked.dtype != np.bool_ or checked.shape != (n,):
        raise InvalidArgument(f"{name} must be {n} booleans, got {checked.dtype} of shape {checked.shape}")
    return checked


def check_flag(flag: Any, name: str) -> bool:
    """true or false, and nothing that only counts as it."""
    if not isinstance(flag, bool):
        raise InvalidArgument(f"{name} must be true or false, got {flag!r}")
    return flag


def check_over_zero(value: object, name: str) -> float:
    """A finite number over 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < float(value) < np.inf:
        raise InvalidArgument(f"{name} must be a number over 0, got {value!r}")
    return float(value)


def check_count(value: Any, name: str) -> int:
    """An int over 0."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidArgument(f"{name} must be an int over 0, got {value!r}")
    return int(value)


def check_weights(weights: ArrayLike, n: int) -> NDArray[np.float64]:
    """n finite numbers over 0, as float64.

    Raises
    ------
    InvalidArgument
        Another count, or a weight that is not over 0: leave that row out instead.
    """
    checked = np.asarray(weights)
    if checked.shape != (n,) or checked.dtype.kind not in "uif":
        raise InvalidArgument(f"{n} features need {n} weights, got {checked.dtype} of shape {checked.shape}")
    wrong = np.flatnonzero(~((checked > 0) & (checked <= LARGEST)))
    if len(wrong):
        raise InvalidArgument(f"weights must be over 0, got {checked[wrong[0]]} at row {wrong[0]}; leave that row out")
    return checked.astype(np.float64)


def check_targets(targets: ArrayLike, n: int, width: int | None = None) -> NDArray[np.float64]:
    """Targets (n,) or (n, t) as float64 (n, t).

    Raises
    ------
    InvalidArgument
        Another count, not numbers, NaN, or another t than `width`.
    """
    given = np.asarray(targets)
    if given.ndim not in (1, 2) or len(given) != n or given.dtype.kind not in "uif" or 0 in given.shape[1:]:
        raise InvalidArgument(f"{n} features need targets (n,) or (n, t), got {given.dtype} of shape {given.shape}")
    columns = given.reshape(n, -1) if n else given.reshape(0, width or 1)
    if width is not None and columns.shape[1] != width:
        raise InvalidArgument(f"targets must have {width} columns, as those before, got {columns.shape[1]}")
    wrong = np.argwhere(~(np.abs(columns.astype(np.float64)) <= LARGEST))
    if len(wrong):
        row, column = wrong[0]
        raise InvalidArgument(f"target {columns[row, column]} at row {row}, column {column}; leave that row out")
    return columns.astype(np.float64)
