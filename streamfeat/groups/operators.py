"""Linear actions as sparse operators, and their adjoints.

An operator R moves a template: gt = R t, each of its d numbers a weighted sum of a few numbers of t. The bank keeps the
adjoint R^T of the very same weights and applies it to the input: <x, R t> = <R^T x, t> to rounding. (The inverse
movement, rotating x back, would interpolate elsewhere and be equal only roughly.)
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamfeat.errors import ConfigError
from streamfeat.groups.axes import Axes
from streamfeat.groups.inputs import InputMoves

Border = Literal["zero", "wrap"]

SNAP = 1e-9
"""A coordinate this near a grid point is that point: quarter turns and whole steps then copy exactly."""


class Operator(NamedTuple):
    """One action on vectors of d numbers: (R t)[out] += weight * t[source], entry by entry.

    `out` and `source` are intp, `weight` is float32, all (nnz,).
    """

    out: NDArray[np.intp]
    source: NDArray[np.intp]
    weight: NDArray[np.float32]
    d: int

    def forward(self, t: NDArray[Any]) -> NDArray[np.float64]:
        """R t for one vector (d,)."""
        return _sum_at(self.out, self.weight * t[self.source], self.d)

    def adjoint(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """R^T x for one vector (d,)."""
        return _sum_at(self.source, self.weight * x[self.out], self.d)


def _sum_at(place: NDArray[np.intp], values: NDArray[Any], d: int) -> NDArray[np.float64]:
    return np.asarray(np.bincount(place, values, d), np.float64)


def gather(axes: Axes, y: ArrayLike, x: ArrayLike, border: Border = "zero") -> Operator:
    """The operator that reads its input at other places: (R t)[r, c] = t(y[r, c], x[r, c]), bilinear.

    Parameters
    ----------
    axes : Axes
        Their plane is (h, w); channels are moved alike.
    y, x : array_like, broadcast to (h, w)
        Where each point of the output reads, in steps of the grid.
    border : "zero" or "wrap"
        What lies outside: nothing, or the plane again.
    """
    h, w = axes.plane
    at_y, at_x = (_snapped(np.broadcast_to(np.asarray(c, np.float64), (h, w)).ravel()) for c in (y, x))
    top, left = np.floor(at_y), np.floor(at_x)
    down, right = at_y - top, at_x - left
    outs, sources, weights = [], [], []
    for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1)):
        weight = (down if dy else 1 - down) * (right if dx else 1 - right)
        row, column = top + dy, left + dx
        if border == "wrap":
            row, column = row % h, column % w
        keep = (weight > 0) & (row >= 0) & (row < h) & (column >= 0) & (column < w)
        outs.append(np.flatnonzero(keep))
        sources.append((row[keep] * w + column[keep]).astype(np.intp))
        weights.append(weight[keep].astype(np.float32))
    out, source = (_all_channels(np.concatenate(points), axes.n_channels) for points in (outs, sources))
    return Operator(out, source, np.repeat(np.concatenate(weights), axes.n_channels), axes.d)


def copies(axes: Axes, places: NDArray[np.intp]) -> Operator:
    """The operator that puts numbers elsewhere: point i of the plane is a copy of point places[i], in C order."""
    source = _all_channels(places.ravel(), axes.n_channels)
    return Operator(np.arange(axes.d), source, np.ones(axes.d, np.float32), axes.d)


def compose(operators: Sequence[Operator]) -> Operator:
    """The product R_1 R_2 ... R_k as one operator: R_k moves a template first."""
    from scipy.sparse import coo_array  # half a second that only building a bank needs

    d = operators[0].d
    matrices = [coo_array((op.weight, (op.out, op.source)), shape=(d, d)).tocsr() for op in operators]
    product = functools.reduce(operator.matmul, matrices).tocoo()
    return Operator(product.row.astype(np.intp), product.col.astype(np.intp), product.data, d)


def _all_channels(points: NDArray[np.intp], n_channels: int) -> NDArray[np.intp]:
    """Indices of every channel of every point of the plane."""
    return (points[:, None] * n_channels + np.arange(n_channels)).ravel()


def _snapped(coordinate: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = np.round(coordinate)
    return np.where(np.abs(coordinate - whole) < SNAP, whole, coordinate)


@dataclass(frozen=True, eq=False)
class OperatorStack:
    """The adjoints of one factor's n elements, as n square CSR matrices in one set of arrays.

    Attributes
    ----------
    indptr : (n, d + 1) int32
        Row r of adjoint i has its entries at indptr[i, r] to indptr[i, r + 1] of the two arrays that follow.
    indices : (nnz,) int32
    data : (nnz,) float32
    parameters : (n, p) float64
        What makes each element, in the units of `names`.
    names : tuple of str, length p
    spec : mapping
        The canonical factor spec it was made from.
    """

    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    data: NDArray[np.float32]
    parameters: NDArray[np.float64]
    names: tuple[str, ...]
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """How many elements."""
        return len(self.indptr)

    @property
    def d(self) -> int:
        """Length of the vectors."""
        return int(self.indptr.shape[1]) - 1

    @cached_property
    def places(self) -> NDArray[np.uint32] | None:
        """Where each adjoint copies its numbers from, (n, d), d for nothing; None unless all only copy.

        Whole shifts, flips, quarter turns and permutations do: at most one entry a row, each a one.
        """
        if not (self.data == 1).all() or (np.diff(self.indptr, axis=1) > 1).any():
            return None
        places = np.append(self.indices, np.int32(self.d))[np.minimum(self.indptr[:, :-1], len(self.indices))]
        places[self.indptr[:, 1:] == self.indptr[:, :-1]] = self.d
        return places.astype(np.uint32)

    def adjoint(self, i: int) -> Any:
        """The adjoint of element i as a scipy CSR array (d, d); its transpose is the forward action."""
        from scipy.sparse import csr_array  # half a second that only building a bank needs

        ends = self.indptr[i]
        entries = slice(ends[0], ends[-1])
        return csr_array((self.data[entries], self.indices[entries], ends - ends[0]), shape=(self.d, self.d))

    def operator(self, i: int) -> Operator:
        """Element i, entry by entry."""
        ends = self.indptr[i]
        entries = slice(ends[0], ends[-1])
        source = np.repeat(np.arange(self.d), np.diff(ends))
        return Operator(self.indices[entries].astype(np.intp), source, self.data[entries], self.d)

    @property
    def linear(self) -> bool:
        """Templates have an orbit."""
        return True

    def act(self, X: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        """Row r n + i of `out` is the adjoint of element i times row r of X; both may be wider than d."""
        from streamfeat.kernels.warp import apply_operators, copy_places  # half a second of numba

        if self.places is None:
            apply_operators(self.indptr, self.indices, self.data, X, out)
        else:
            copy_places(self.places, X, out)

    def forward(self, T: NDArray[np.float32]) -> NDArray[np.float32]:
        """Every element on every template: out[j, i] = R_i t_j, (m, d) -> (m, n, d)."""
        out = np.empty((len(T), self.n, self.d), np.float32)
        for i in range(self.n):
            out[:, i] = (self.adjoint(i).T @ T.T).T
        return out

    def defects(self) -> NDArray[np.float64]:
        """||R^T R - I||_F / sqrt(d) of each element, (n,); see `unitarity_defect`."""
        from scipy.sparse import eye_array

        identity = eye_array(self.d, format="csr")
        defects = []
        for i in range(self.n):
            adjoint = self.adjoint(i).astype(np.float64)
            defects.append(np.sqrt(((adjoint @ adjoint.T - identity).data ** 2).sum() / self.d))
        return np.array(defects)


def stack(
    operators: Sequence[Operator],
    parameters: NDArray[np.float64],
    names: tuple[str, ...],
    spec: Mapping[str, Any],
) -> OperatorStack:
    """The adjoints of the operators, one under the other.

    Raises
    ------
    ConfigError
        More than 2^31 entries.
    """
    nnz = np.array([op.weight.size for op in operators])
    if nnz.sum() >= 2**31:
        raise ConfigError(f"a factor of {len(nnz)} elements with {nnz.sum()} entries; at most 2^31: use fewer elements")
    orders = [np.lexsort((op.out, op.source)) for op in operators]
    rows = [np.cumsum(np.bincount(op.source, minlength=op.d)) for op in operators]
    starts = np.cumsum(nnz) - nnz
    return OperatorStack(
        indptr=np.stack([np.insert(ends, 0, 0) + start for ends, start in zip(rows, starts, strict=True)]).astype(
            np.int32
        ),
        indices=np.concatenate([op.out[o] for op, o in zip(operators, orders, strict=True)]).astype(np.int32),
        data=np.concatenate([op.weight[o] for op, o in zip(operators, orders, strict=True)]),
        parameters=parameters,
        names=names,
        spec=spec,
    )


Elements = OperatorStack | InputMoves
"""The elements of one factor that acts on vectors: by matrices, or by a rule."""


def apply_forward(factor: Elements, T: NDArray[np.float32]) -> NDArray[np.float32]:
    """Every element of one factor on every template.

    Parameters
    ----------
    T : (m, d) float32

    Returns
    -------
    (m, n, d) float32
        out[j, i] = R_i t_j; copies of t_j for a factor that depends on the input and so has no orbit.
    """
    return factor.forward(T)


def apply_group(factors: Sequence[Elements], T: NDArray[np.float32]) -> NDArray[np.float32]:
    """Every element g = f_1 f_2 ... f_k of a product on every template; the order of `element_parameters`.

    Parameters
    ----------
    T : (m, d) float32

    Returns
    -------
    (m, G, d) float32
        out[j, (i_1 ... i_k)] = R_1,i_1 ( ... (R_k,i_k t_j)), the last factor changing fastest.
    """
    m, d = T.shape
    orbit = T[:, None]
    for factor in reversed(factors):
        moved = apply_forward(factor, orbit.reshape(-1, d)).reshape(m, -1, factor.n, d)
        orbit = moved.swapaxes(1, 2).reshape(m, -1, d)
    return np.ascontiguousarray(orbit)


def unitarity_defect(factor: Elements) -> NDArray[np.float64]:
    """How far each element is from keeping inner products: ||R^T R - I||_F / sqrt(d), (n,).

    0 for whole circular shifts, flips, quarter turns and permutations; sqrt(k / d) for a shift that drops k of d
    numbers. (The spectral norm would be 1 as soon as one number is dropped.)
    """
    return factor.defects()
