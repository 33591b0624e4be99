"""CDF pooling: how many of a template's projections lie at or below each threshold."""

from __future__ import annotations

import numpy as np
from numba import float32, int64, types, uint16
from numpy.typing import NDArray

from streamfeat.kernels import LANES, Floats, frozen, kernel, pair

Counts = NDArray[np.uint16]

_ZERO = np.float32(0)


@kernel(types.void(frozen(float32, 2), frozen(float32, 2), uint16[:, ::1]))
def count_below(P: Floats, thresholds: Floats, out: Counts) -> None:
    """out[t, k] = #{g : P[g, t] <= thresholds[k, t]}, compared in float32, ties included.

    Comparing with every threshold beats a search for the right bin: it needs no branches, no order of the
    thresholds, and eight compares are added for each touch of a counter.

    Parameters
    ----------
    P : (G, LANES) float32, G <= 65535
    thresholds : (n_thresholds, LANES) float32
    out : (n, n_thresholds) uint16, n <= LANES templates
    """
    G = P.shape[0]
    counts = np.empty(LANES, np.int32)
    for k in range(thresholds.shape[0]):
        counts[:] = 0
        for g in range(0, G - 7, 8):
            for t in range(LANES):
                tau = thresholds[k, t]
                counts[t] += (
                    np.int32(P[g, t] <= tau)
                    + np.int32(P[g + 1, t] <= tau)
                    + np.int32(P[g + 2, t] <= tau)
                    + np.int32(P[g + 3, t] <= tau)
                    + np.int32(P[g + 4, t] <= tau)
                    + np.int32(P[g + 5, t] <= tau)
                    + np.int32(P[g + 6, t] <= tau)
                    + np.int32(P[g + 7, t] <= tau)
                )
        for g in range(G - G % 8, G):
            for t in range(LANES):
                counts[t] += np.int32(P[g, t] <= thresholds[k, t])
        for t in range(out.shape[0]):
            out[t, k] = counts[t]


@kernel(types.void(frozen(float32, 2), pair(int64), frozen(float32, 1), float32, uint16[:, ::1]))
def count_steps(Y: Floats, lanes: tuple[int, int], slopes: Floats, offset: float, bins: Counts) -> None:
    """bins[t, b] += how many lanes of row t lie in bin b of thresholds at even steps, of which there are B - 1.

    The bin is ceil(slope y + offset), cut off at both ends; with thresholds on both sides of zero and alike, 0 lies
    exactly at its threshold. Other projections may fall on the other side of a threshold that is nearer than rounding,
    2^-23 (B - 1) steps. 0.45 ns a projection, 0.8 where all lie in one bin.

    Parameters
    ----------
    Y : (>= n, L) float32
    lanes : first, number
    slopes : (n,) float32
        1 / (step between thresholds), times the gain that makes y a projection.
    offset : float32
        (B - 2) / 2.
    bins : (n, B) uint16
    """
    first, n = lanes
    top = np.float32(bins.shape[1] - 1)
    places = np.empty(n, np.uint32)
    for t in range(bins.shape[0]):
        slope, y, found = slopes[t], Y[t, first : first + n], bins[t]
        for l in range(n):  # noqa: E741 - a lane
            place = np.ceil(slope * y[l] + offset)
            # What is not a number is below no threshold.
            place = place if place < top else top
            places[l] = np.uint32(np.int32(place if place > _ZERO else _ZERO))
        for l in range(n):  # noqa: E741 - a lane
            found[places[l]] += np.uint16(1)


@kernel(types.void(frozen(float32, 2), pair(int64), frozen(float32, 1), frozen(float32, 2), uint16[:, ::1]))
def count_between(Y: Floats, lanes: tuple[int, int], gains: Floats, thresholds: Floats, bins: Counts) -> None:
    """bins[t, b] += how many lanes of row t have gain y above b of the thresholds, compared in float32.

    Parameters
    ----------
    Y : (>= n, L) float32
    lanes : first, number
    gains : (n,) float32
    thresholds : (n, B - 1) float32, in any order
    bins : (n, B) uint16
    """
    first, n = lanes
    top = thresholds.shape[1]
    whole = top - top % 4
    projected, above = np.empty(n, np.float32), np.empty(n, np.int32)
    for t in range(bins.shape[0]):
        gain, y, tau, found = gains[t], Y[t, first : first + n], thresholds[t], bins[t]
        for l in range(n):  # noqa: E741 - a lane
            projected[l] = gain * y[l]
        above[:] = top
        for k in range(0, whole, 4):
            tau_0, tau_1, tau_2, tau_3 = tau[k], tau[k + 1], tau[k + 2], tau[k + 3]
            for l in range(n):  # noqa: E741 - a lane
                p = projected[l]
                above[l] -= np.int32(p <= tau_0) + np.int32(p <= tau_1) + np.int32(p <= tau_2) + np.int32(p <= tau_3)
        for k in range(whole, top):
            for l in range(n):  # noqa: E741 - a lane
                above[l] -= np.int32(projected[l] <= tau[k])
        for l in range(n):  # noqa: E741 - a lane
            found[np.uint32(above[l])] += np.uint16(1)


@kernel(types.void(frozen(uint16, 2), uint16[:, ::1]))
def cumulate(bins: Counts, out: Counts) -> None:
    """out[t, k] = bins[t, 0] + ... + bins[t, k]: counts at or below each threshold.

    Parameters
    ----------
    bins : (>= n, n_thresholds + 1) uint16
    out : (n, n_thresholds) uint16
    """
    for t in range(out.shape[0]):
        count = np.uint16(0)
        for k in range(out.shape[1]):
            count += bins[t, k]
            out[t, k] = count
