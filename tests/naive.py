"""Slow twins: what the fast code computes, one number at a time, as its formula reads."""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# groups: where each number of a moved vector comes from, one at a time


def read_plane(t: NDArray[Any], y: float, x: float, border: str = "zero") -> float:
    """The value of t (h, w) at (y, x), bilinear; outside is zero, or the plane again."""
    h, w = t.shape
    y, x = (float(round(c)) if abs(c - round(c)) < 1e-9 else c for c in (y, x))
    total = 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            weight = max(0.0, 1 - abs(y - row)) * max(0.0, 1 - abs(x - column))
            if border == "wrap":
                total += weight * float(t[row % h, column % w])
            elif 0 <= row < h and 0 <= column < w:
                total += weight * float(t[row, column])
    return total


def move_plane(
    t: NDArray[Any], source: Callable[[int, int], tuple[float, float]], border: str = "zero"
) -> NDArray[np.float64]:
    """The plane whose point (r, c) is t at source(r, c)."""
    h, w = t.shape
    return np.array([[read_plane(t, *source(r, c), border) for c in range(w)] for r in range(h)])


def rotation(t: NDArray[Any], angle_rad: float) -> NDArray[np.float64]:
    """t turned counter-clockwise: the point at z (up = imaginary) comes from z exp(-i angle)."""
    h, w = t.shape
    middle = complex((w - 1) / 2, -(h - 1) / 2)

    def source(r: int, c: int) -> tuple[float, float]:
        z = (complex(c, -r) - middle) * cmath.exp(-1j * angle_rad) + middle
        return -z.imag, z.real

    return move_plane(t, source)


def translation(t: NDArray[Any], dy: float, dx: float, border: str = "zero") -> NDArray[np.float64]:
    """t moved down and right."""
    return move_plane(t, lambda r, c: (r - dy, c - dx), border)


def scaling(t: NDArray[Any], scale: float) -> NDArray[np.float64]:
    """t enlarged about its middle."""
    h, w = t.shape
    return move_plane(
        t, lambda r, c: ((h - 1) / 2 + (r - (h - 1) / 2) / scale, (w - 1) / 2 + (c - (w - 1) / 2) / scale)
    )


def pitch(t: NDArray[Any], band_hz: Sequence[float], cents: float) -> NDArray[np.float64]:
    """t (band, frame) with each band read at its frequency over 2^(cents / 1200), the index linear in log f."""

    def index_of(hz: float) -> float:
        i = 0
        while i < len(band_hz) - 2 and hz >= band_hz[i + 1]:
            i += 1
        return i + math.log(hz / band_hz[i]) / math.log(band_hz[i + 1] / band_hz[i])

    return move_plane(t, lambda r, c: (index_of(band_hz[r] / 2 ** (cents / 1200)), float(c)))


def tempo(t: NDArray[Any], rate: float) -> NDArray[np.float64]:
    """t (band, frame) played `rate` times as fast about its middle frame."""
    middle = (t.shape[1] - 1) / 2
    return move_plane(t, lambda r, c: (float(r), middle + rate * (c - middle)))


def time_shift(t: NDArray[Any], frames: float, border: str = "zero") -> NDArray[np.float64]:
    """t (band, frame) moved later."""
    return move_plane(t, lambda r, c: (float(r), c - frames), border)


def cyclic_shifts(t: NDArray[Any]) -> NDArray[Any]:
    """Every round shift of a vector, step after step."""
    d = len(t)
    return np.array([[t[(i - k) % d] for i in range(d)] for k in range(d)])


def permutation(t: NDArray[Any], places: Sequence[int], on: str) -> NDArray[Any]:
    """t (h, w) whose row, column or entry i is number places[i] of before."""
    h, w = t.shape
    if on == "entries":
        return np.array([t[divmod(place, w)] for place in places]).reshape(h, w)
    rows = places if on in ("rows", "rows_and_columns") else range(h)
    columns = places if on in ("columns", "rows_and_columns") else range(w)
    return np.array([[t[r, c] for c in columns] for r in rows])


def noisy_norm(C: NDArray[Any], noise: Sequence[float]) -> NDArray[Any]:
    """C with rows and columns sorted by row norm plus noise, falling; noise i is for the i-th largest norm."""
    norms = [math.sqrt(sum(float(v) ** 2 for v in row)) for row in C]
    falling = sorted(range(len(C)), key=lambda i: -norms[i])
    noisy = {i: norms[i] + noise[rank] for rank, i in enumerate(falling)}
    order = sorted(falling, key=lambda i: -noisy[i])
    return np.array([[C[i, j] for j in order] for i in order])


def sample_shift(t: NDArray[Any], samples: float) -> NDArray[np.float64]:
    """t moved later and round its end: each frequency turned, summed one by one."""
    d = len(t)
    out = np.zeros(d)
    for k in range(d):
        frequency = k if 2 * k <= d else k - d
        c = sum(float(t[j]) * cmath.exp(-2j * math.pi * k * j / d) for j in range(d)) / d
        for j in range(d):
            out[j] += (c * cmath.exp(2j * math.pi * frequency * (j - samples) / d)).real
    return out


# front ends: canonical time and canonical pose, one number at a time


def arclength(x: NDArray[Any], n: int, *, points: int, smooth: int, power: float, floor: float) -> NDArray[np.float64]:
    """x (bands, frames) read at n equal steps of the length of its own path."""

    def read(rows: list[list[float]], t: float) -> list[float]:
        k = min(int(t), len(rows[0]) - 2) if len(rows[0]) > 1 else 0
        return [row[k] + (t - k) * (row[min(k + 1, len(row) - 1)] - row[k]) for row in rows]

    rows = [[float(v) for v in row] for row in x]
    if points:
        columns = [read(rows, (len(rows[0]) - 1) * i / (points - 1)) for i in range(points)]
        rows = [list(row) for row in zip(*columns, strict=True)]
    frames = len(rows[0])
    largest = max(map(max, rows))
    seen = []
    for k in range(frames):
        reach = min(smooth // 2, k, frames - 1 - k)
        means = [math.fsum(row[k - reach : k + reach + 1]) / (2 * reach + 1) for row in rows]
        seen.append([max(v / largest, floor) ** power for v in means])
    path = [0.0]
    for before, after in itertools.pairwise(seen):
        path.append(path[-1] + math.dist(before, after))
    out = []
    for i in range(n):
        target = path[-1] if i == n - 1 else path[-1] * i / (n - 1)  # path * 5 / 5 may fall short of it
        k = max((k for k in range(frames - 1) if path[k] <= target), default=0)
        step = path[k + 1] - path[k]
        out.append(read(rows, k + min((target - path[k]) / step, 1.0) if step > 0 else k + 1.0))
    return np.array(out).T


def delta(x: NDArray[Any]) -> NDArray[np.float64]:
    """The next frame less the one before; beyond the ends the last and the first again."""
    last = x.shape[1] - 1
    return np.array([[float(row[min(k + 1, last)]) - float(row[max(k - 1, 0)]) for k in range(last + 1)] for row in x])


def pose_map(
    x: NDArray[Any], exponent: float, target: tuple[float, float], floor: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Matrix A (2, 2) and offset b: pixel p of the posed picture comes from A p + b."""
    pixels = [(r, c, float(v)) for (r, c), v in np.ndenumerate(x)]
    mass = math.fsum(v for _, _, v in pixels)
    cy, cx = (math.fsum(v * at[i] for *at, v in pixels) / mass for i in (0, 1))
    vyy = math.fsum(v * (r - cy) ** 2 for r, _, v in pixels) / mass
    vxy = math.fsum(v * (r - cy) * (c - cx) for r, c, v in pixels) / mass
    vxx = math.fsum(v * (c - cx) ** 2 for _, c, v in pixels) / mass
    shear = vxy / max(vyy, floor**2)
    s_y = (max(math.sqrt(vyy), floor) / target[0]) ** exponent
    s_x = (math.sqrt(max(vxx - shear * vxy, floor**2)) / target[1]) ** exponent
    A = np.array([[s_y, 0.0], [shear * s_y, s_x]])
    return A, np.array([cy, cx]) - A @ (np.array(x.shape) - 1) / 2


def pose(x: NDArray[Any], exponent: float, target: tuple[float, float], floor: float) -> NDArray[np.float64]:
    """The picture whose pixel p is x at A p + b."""
    A, b = pose_map(x, exponent, target, floor)
    return move_plane(x, lambda r, c: (A[0, 0] * r + b[0], A[1, 0] * r + A[1, 1] * c + b[1]))


# kernels: one number at a time, in float64 where the kernel keeps float32


def project(X: NDArray[Any], block: NDArray[Any]) -> NDArray[np.float64]:
    """<row, template> for rows (R, d) and a block (d, lanes)."""
    out = np.zeros((len(X), block.shape[1]))
    for r, row in enumerate(X):
        for t in range(block.shape[1]):
            out[r, t] = sum(float(a) * float(b) for a, b in zip(row, block[:, t], strict=True))
    return out


def count_below(P: NDArray[np.float32], thresholds: NDArray[np.float32]) -> NDArray[np.int64]:
    """#{g : P[g, t] <= thresholds[k, t]}, (lanes, n_thresholds)."""
    out = np.zeros((P.shape[1], len(thresholds)), np.int64)
    for t in range(P.shape[1]):
        for k, tau in enumerate(thresholds[:, t]):
            for p in P[:, t]:
                out[t, k] += bool(p <= tau)
    return out


def mean_cos_sin(P: NDArray[np.float32], weight: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """weight * mean over g of cos and of sin."""
    wide = P.astype(np.float64)
    return weight * np.cos(wide).sum(axis=0) / len(P), weight * np.sin(wide).sum(axis=0) / len(P)


def apply_operators(
    indptr: NDArray[np.int32], indices: NDArray[np.int32], data: NDArray[np.float32], X: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Row r n + i is operator i, as a full matrix, times row r."""
    n, d = len(indptr), indptr.shape[1] - 1
    rows = []
    for x in X:
        for i in range(n):
            R = np.zeros((d, d))
            for k in range(d):
                for j in range(indptr[i, k], indptr[i, k + 1]):
                    R[k, indices[j]] += data[j]
            rows.append(R @ x[:d].astype(np.float64))
    return np.array(rows)


def cdf_feature(orbits: NDArray[Any], thresholds: NDArray[np.float32], x: NDArray[Any]) -> NDArray[np.int64]:
    """Counts of one item from every gt (m, G, d) and thresholds (m, K): the definition, in float64."""
    P = np.asarray(orbits, np.float64) @ np.asarray(x, np.float64)
    return np.asarray((P[:, :, None] <= thresholds[:, None, :]).sum(axis=1), np.int64)


# pooling: kernel values and their statistics over the group, layer 2 and structured templates


def kernel_value(kernel: dict[str, Any], x: NDArray[Any], z: NDArray[Any]) -> float:
    """k(x, z) of a base kernel's table, in float64."""
    x, z = np.asarray(x, np.float64), np.asarray(z, np.float64)
    if kernel["kind"] == "rbf":
        return math.exp(-sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) / (2 * kernel["sigma"] ** 2))
    product = math.fsum(a * b for a, b in zip(x, z, strict=True))
    return float((product + kernel.get("offset", 1)) ** kernel["degree"]) if kernel["kind"] == "polynomial" else product


def orbit_values(kernel: dict[str, Any], orbits: NDArray[Any], x: NDArray[Any]) -> NDArray[np.float64]:
    """k(x, g t) for every template and element, (m, G)."""
    return np.array([[kernel_value(kernel, x, gt) for gt in orbit] for orbit in orbits])


def power_means(V: NDArray[Any], k: int) -> NDArray[np.float64]:
    """mean over g of V[g, t]^j, j = 1..k, (lanes, k)."""
    return np.array([[math.fsum(float(v) ** j for v in column) / len(V) for j in range(1, k + 1)] for column in V.T])


def quantiles(V: NDArray[Any], n: int) -> NDArray[np.float64]:
    """From the smallest value of each column to the largest, linear between two; n = 1 the median: (lanes, n)."""
    out = np.zeros((V.shape[1], n))
    for t, column in enumerate(V.T):
        ordered = sorted(map(float, column))
        for j in range(n):
            place = (j / (n - 1) if n > 1 else 0.5) * (len(ordered) - 1)
            low = min(int(place + 1e-12), len(ordered) - 1)
            high = min(low + 1, len(ordered) - 1)
            out[t, j] = ordered[low] + (place - low) * (ordered[high] - ordered[low])
    return out


def fourier_feature(W: NDArray[Any], x: NDArray[Any]) -> NDArray[np.float64]:
    """Plain random Fourier features: m cosines of <w, x>, then m sines, over sqrt(m)."""
    angles = [math.fsum(float(a) * float(b) for a, b in zip(w, x, strict=True)) for w in W]
    return np.array([*map(math.cos, angles), *map(math.sin, angles)]) / math.sqrt(len(W))


def hadamard(p: int) -> NDArray[np.float64]:
    """Sylvester's matrix: H[i, j] = (-1)^(number of bits that i and j share)."""
    return np.array([[(-1.0) ** (i & j).bit_count() for j in range(p)] for i in range(p)])


# windows: one patch at a time, and cells position by position


def patches(plane: NDArray[Any], size: tuple[int, int], steps: tuple[int, int], pad: int) -> NDArray[np.float64]:
    """Every patch of a plane, in colours or not, minus its mean, (rows, columns, d); zeros round the plane."""
    wide = np.pad(plane.astype(np.float64), [(pad, pad)] * 2 + [(0, 0)] * (plane.ndim - 2))
    rows = range(0, wide.shape[0] - size[0] + 1, steps[0])
    columns = range(0, wide.shape[1] - size[1] + 1, steps[1])
    cut = [[wide[r : r + size[0], c : c + size[1]].ravel() for c in columns] for r in rows]
    return np.array([[v - math.fsum(v) / len(v) for v in line] for line in cut])


def cell_weight(k: int, n: int, p: int, n_positions: int, overlap: float) -> float:
    """Of position p in cell k of n along an axis, before a cell's weights are made to sum to 1."""
    length = n_positions / n
    if overlap == 0:
        return float(k * length <= p + 1e-9 < (k + 1) * length)
    return math.exp(-(((p + 0.5 - (k + 0.5) * length) / (overlap * length)) ** 2) / 2)


def cell_weights(rows: int, columns: int, grid: tuple[int, int], overlap: float) -> NDArray[np.float64]:
    """The weights of all positions in each cell, (rows * columns, *grid), each cell's summing to 1."""
    cells = []
    for i, j in itertools.product(range(rows), range(columns)):
        down = [cell_weight(i, rows, r, grid[0], overlap) for r in range(grid[0])]
        across = [cell_weight(j, columns, c, grid[1], overlap) for c in range(grid[1])]
        cells.append(np.array([[a * b for b in across] for a in down]) / (math.fsum(down) * math.fsum(across)))
    return np.array(cells)


# exact: kernels as their sums read, one pair of group elements at a time


def orbit_sum(
    orbit_x: NDArray[Any], orbit_z: NDArray[Any], of: Callable[[float], float], q: Sequence[float], q_z: Sequence[float]
) -> float:
    """Sum of q_i q_j f(||x_i - z_j||^2) over two orbits (r, d) and (s, d)."""
    return sum(
        a * b * of(sum((float(u) - float(v)) ** 2 for u, v in zip(x, z, strict=True)))
        for a, x in zip(q, orbit_x, strict=True)
        for b, z in zip(q_z, orbit_z, strict=True)
    )


def permanent(E: NDArray[Any]) -> float:
    """Sum over all permutations of the products of a matrix' entries."""
    n = len(E)
    return sum(math.prod(float(E[i, p[i]]) for i in range(n)) for p in itertools.permutations(range(n)))


def integral_of_products(a: Sequence[float], b: Sequence[float], s: float) -> float:
    """The integral over -s..s of F_a F_b: the steps between all places where one of the two rises."""
    places = sorted({-s, s, *(min(max(v, -s), s) for v in (*a, *b))})
    total = 0.0
    for low, high in itertools.pairwise(places):
        middle = (low + high) / 2
        total += (high - low) * sum(v <= middle for v in a) / len(a) * sum(v <= middle for v in b) / len(b)
    return total


def orbit_distance(orbit_x: NDArray[Any], orbit_z: NDArray[Any]) -> float:
    """D(x, z) = E |gx - g'z| over both orbits."""
    return float(np.mean([[math.dist(a, b) for b in orbit_z] for a in orbit_x]))


def energy_distance(orbit_x: NDArray[Any], orbit_z: NDArray[Any]) -> float:
    """2 D(x, z) - D(x, x) - D(z, z)."""
    between = 2 * orbit_distance(orbit_x, orbit_z)
    return between - orbit_distance(orbit_x, orbit_x) - orbit_distance(orbit_z, orbit_z)
