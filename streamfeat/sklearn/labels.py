"""Labels of any kind that scikit-learn takes, as the numbers that our learners take, and rows as they take them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from streamfeat.errors import InvalidArgument

Array = NDArray[Any]


def checked(estimator: Any, X: Any, y: Any, *, reset: bool, multi_output: bool = False) -> tuple[Array, Array]:
    """Rows and targets as scikit-learn checks them; float32 and integers stay what they are."""
    X, y = validate_data(estimator, X, y, reset=reset, multi_output=multi_output, y_numeric=multi_output)
    return numbers(X), y


def checked_rows(estimator: Any, X: Any) -> Array:
    """The same of rows alone, which must be as wide as those before."""
    return numbers(validate_data(estimator, X, reset=False))


def numbers(X: Array) -> Array:
    """True and false are 1 and 0."""
    return X.astype(np.uint8) if X.dtype.kind == "b" else X


def coded(y: Array, columns: Array, classes: Any = None) -> tuple[NDArray[np.intp], Array]:
    """The number of each label (n,), and the labels by number: those of before, then the new ones.

    Raises
    ------
    InvalidArgument
        A label that is not among `classes`, where they are given.
    """
    check_classification_targets(y)
    late = np.setdiff1d(y, columns)
    if classes is not None and (unknown := np.setdiff1d(late, np.asarray(classes))).size:
        raise InvalidArgument(f"label {unknown[0]!r} is not among the classes {list(classes)!r}; name it there")
    columns = np.concatenate([columns, late]) if len(columns) else late
    order = np.argsort(columns)
    return order[np.searchsorted(columns, y, sorter=order)], columns
