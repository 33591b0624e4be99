"""How the error of local group-invariant random features falls with m and r (Raj et al. 2017, figure 1).

Coulomb matrices of molecules, rows sorted by norm; the group orders the seven heavy atoms, under the law of a noisy
sort; a Gaussian kernel. That law on 5,040 orders can be summed, so the kernel is exact. Templates are Gaussian
frequencies, or rows of random Hadamard products. Theorem 3.1 promises 1 / sqrt(m) and 1 / sqrt(r).

A uniform law would show less than the theorem allows: under Haar's measure one average over g' is constant, the
estimate is a degenerate U-statistic, and its error falls as 1 / r.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamfeat.bank import build_bank
from streamfeat.bankspec import BankSpec
from streamfeat.exact.bounds import debiased
from streamfeat.exact.orbits import base_mean, distance, gaussian, orbit_mean
from streamfeat.featuremap import FeatureMap
from streamfeat.kernel_error import relative_error
from streamfeat.reports.pictures import Panel
from streamfeat.reproduce.experiment import Experiment, Findings, Run, claim, rounded, row
from streamfeat.reproduce.molecules import SIDE, NoisyOrder, atom_operators, coulomb_matrices, matrices_file, move_atoms
from streamfeat.threads import one_blas_thread

Floats = NDArray[np.float64]

SOURCES = {"gaussian": "fourier", "structured": "hadamard"}
"""Name in the report -> template source in a bank spec."""
ERRORS = ("spectral", "frobenius", "debiased_frobenius")
METRIC = "relative Frobenius error"
RATE_TOLERANCE = 0.15
"""Of a slope: a few draws of group elements move one by 0.06, and what is left of the other error by as much."""

SIGMA = 1.0
"""Width of the kernel, in median distances of the molecules. Templates and elements then err alike at the largest of
both, so that neither hides how the other's error falls."""
NOISE = 0.2
"""Width of the noise, in the spread of the heavy atoms' row norms: some 400 orders are likely at seven atoms."""
MOST_BLOCKS = 10
"""The first templates of a bank are a smaller one, and so are the next: errors at small m are means over as many."""


@dataclass(frozen=True)
class Extent:
    """How much is run: errors against m at the largest r, and against r at the largest m."""

    ms: tuple[int, ...] = (10, 30, 100, 300, 1000, 3000, 10000)
    rs: tuple[int, ...] = (4, 12, 40, 120, 400, 1200, 4000)
    n_draws: tuple[int, ...] = (20, 20, 20, 20, 10, 5, 3)
    """Independent banks for each r."""
    n_items: int = 12
    n_heavy: int = 7


FAST = Extent(ms=(16, 64, 256, 1024, 4096), rs=(4, 16, 64, 256, 1024), n_draws=(12, 12, 12, 6, 3), n_items=8)


@dataclass(frozen=True)
class Problem:
    """What is estimated: molecules, the law of the orders, and the kernel."""

    matrices: Floats
    law: NoisyOrder
    sigma: float
    source: str

    @classmethod
    def of(cls, extent: Extent, file: Path | None) -> Problem:
        """The same molecules for the same extent and file of matrices; without one they are made up."""
        C, source = coulomb_matrices(extent.n_items, extent.n_heavy, file, np.random.default_rng(0))
        norms = np.linalg.norm(C, axis=2).mean(axis=0)[: extent.n_heavy]
        flat = C.reshape(len(C), -1)
        apart = base_mean(flat, flat, distance)
        sigma = SIGMA * float(np.median(apart[np.triu_indices(len(C), 1)]))
        return cls(C, NoisyOrder(norms / (NOISE * float(np.ptp(norms)))), sigma, source)

    @property
    def flat(self) -> Floats:
        """The matrices as vectors, (n, 529)."""
        return self.matrices.reshape(len(self.matrices), -1)

    def exact(self) -> Floats:
        """k_{q,G}: every order g^-1 g' with its probability, on one side."""
        orders, p = self.law.differences()
        # one molecule at a time: all orders of all of them are 256 MB
        columns = (
            orbit_mean(self.flat[:, None], move_atoms(C[None], orders), gaussian(self.sigma), q=[1.0], q_z=p)
            for C in self.matrices
        )
        return np.hstack(list(columns))

    def base(self) -> Floats:
        """k(x, z)."""
        return base_mean(self.flat, self.flat, gaussian(self.sigma))

    def feature_map(self, templates: str, m: int, r: int, draw: int) -> FeatureMap:
        """A bank of m frequencies under r orders drawn from the law."""
        spec = BankSpec.from_dict(
            {
                "name": f"molecules-{templates}",
                "seed": draw,
                "front_end": [{"stage": "array", "rows": SIDE, "columns": SIDE}, {"stage": "norm", "kind": "none"}],
                "templates": {"source": SOURCES[templates], "m": m},
                "group": [{"factor": "user"}],
                "pooling": {"kind": "fourier", "sigma": self.sigma},
                "renormalise": False,
            }
        )
        orders = self.law.sample(r, np.random.default_rng([draw, r]))
        return FeatureMap(build_bank(spec, operators=[atom_operators(orders)]))


def measure_kernel_error(run: Run) -> Findings:
    """Spectral and Frobenius errors, relative, with and without debiasing, beside the theorem's rate.

    A row has all of {"templates": "gaussian" or "structured", "m", "r", "spectral", "frobenius",
    "debiased_frobenius"}, means over draws; its "mean" and "sd" are of the Frobenius error. "slopes" are {"templates",
    "against": "m" or "r", "frobenius", "debiased_frobenius"}: of log error against log m or log r, the theorem's is
    -0.5.
    """
    extent = FAST if run.fast else Extent()
    file = matrices_file(run.data)
    if file is not None:
        run.read(file)
    problem = Problem.of(extent, file)
    run.begin({"data": problem.source, "files": run.hashes, "sigma": problem.sigma, **vars(extent)})
    _measure(run, extent, problem)
    rows = [
        _row(run, extent, templates, m, r)
        for templates in SOURCES
        for m, r in dict.fromkeys([*((m, extent.rs[-1]) for m in extent.ms), *((extent.ms[-1], r) for r in extent.rs)])
    ]
    found = [slope for templates in SOURCES for slope in slopes(rows, templates, extent.ms[-1], extent.rs[-1])]
    return Findings(
        rows,
        _claims(found),
        [
            f"molecules: {problem.source}; {extent.n_heavy} heavy atoms each, whose orders are the group, so that the "
            "exact kernel is a finite sum; the paper moves all 23 and has no exact kernel",
            "structured templates are not in the paper",
        ],
        [
            Panel(f"error against m, r = {extent.rs[-1]}", METRIC, "m", "xy", {"r": extent.rs[-1]}, -0.5),
            Panel(f"error against r, m = {extent.ms[-1]}", METRIC, "r", "xy", {"m": extent.ms[-1]}, -0.5),
        ],
        {"slopes": found, "data": problem.source, "sigma": problem.sigma},
    )


def _measure(run: Run, extent: Extent, problem: Problem) -> None:
    """Every bank's errors, into the run's parts."""
    exact, base = problem.exact(), problem.base()
    # dear parts first: two at a time end together
    parts = [
        (templates, r, draw)
        for r, n_draws in sorted(zip(extent.rs, extent.n_draws, strict=True), reverse=True)
        for templates in SOURCES
        for draw in range(n_draws)
    ]

    def work(part: tuple[str, int, int]) -> dict[str, list[float]]:
        ms = extent.ms if part[1] == extent.rs[-1] else extent.ms[-1:]
        return {str(m): errors for m, errors in _errors(problem, exact, base, part, ms)}

    pool = ThreadPoolExecutor(2)
    try:
        with one_blas_thread(), run.progress(run.name, len(parts)) as advance:
            waiting = [(part, None if run.kept(_name(part)) else pool.submit(work, part)) for part in parts]
            for part, future in waiting:
                if future is not None:
                    run.keep(_name(part), future.result())
                advance(1)
    finally:
        # stopped by hand: what has not begun does not begin
        pool.shutdown(cancel_futures=True)


def _claims(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Theorem 3.1's rates, by the slopes of the Gaussian templates that it is about."""
    claims = []
    for against, what in (("m", "templates"), ("r", "group elements")):
        slope = next(s for s in found if s["templates"] == "gaussian" and s["against"] == against)["frobenius"]
        text = (
            f"The error of the estimated kernel falls as 1 / sqrt({against}) with the number of {what} (theorem 3.1)."
        )
        claims.append(
            claim(text, abs(slope + 0.5) < RATE_TOLERANCE, f"slope of log error against log {against} {slope}")
        )
    return claims


def slopes(rows: list[dict[str, Any]], templates: str, m: int, r: int) -> list[dict[str, Any]]:
    """Slopes of log error against log m at the largest r, and against log r at the largest m, by least squares."""
    fitted = []
    for against, held, value in (("m", "r", r), ("r", "m", m)):
        some = _curve(rows, templates, against, held, value)
        x = np.log([one[against] for one in some])
        slope = {key: round(float(np.polyfit(x, np.log([one[key] for one in some]), 1)[0]), 3) for key in ERRORS}
        fitted.append({"templates": templates, "against": against, **slope})
    return fitted


def _curve(rows: list[dict[str, Any]], templates: str, against: str, held: str, value: int) -> list[dict[str, Any]]:
    """The rows of one kind of templates with one number held, in order of the other."""
    some = [one for one in rows if one["templates"] == templates and one[held] == value]
    return sorted(some, key=lambda one: int(one[against]))


def _errors(
    problem: Problem, exact: Floats, base: Floats, part: tuple[str, int, int], ms: tuple[int, ...]
) -> Iterator[tuple[int, list[float]]]:
    """For each m, the `ERRORS` of one bank of the largest m, or of its first blocks of m templates in the mean."""
    templates, r, draw = part
    most = max(ms)
    fmap = problem.feature_map(templates, most, r, draw)
    pairs = fmap.of_vectors(problem.flat.astype(np.float32)).astype(np.float64).reshape(len(exact), 2, most)
    for m in ms:
        errors = []
        for block in range(min(MOST_BLOCKS, most // m)):
            Phi = pairs[:, :, block * m : (block + 1) * m].reshape(len(exact), -1) * np.sqrt(most / m)
            estimate = Phi @ Phi.T
            better = debiased(estimate, base, r)
            errors.append(
                [
                    relative_error(estimate, exact, 2),
                    relative_error(estimate, exact, "fro"),
                    relative_error(better, exact, "fro"),
                ]
            )
        yield m, np.mean(errors, axis=0).tolist()


def _row(run: Run, extent: Extent, templates: str, m: int, r: int) -> dict[str, Any]:
    n_draws = extent.n_draws[extent.rs.index(r)]
    errors = np.array([run.kept(_name((templates, r, draw)))[str(m)] for draw in range(n_draws)])
    values = {key: rounded(value) for key, value in zip(ERRORS, errors.mean(axis=0), strict=True)}
    spread = row(templates, METRIC, errors[:, ERRORS.index("frobenius")].tolist(), m=m, r=r)
    return {**spread, "templates": templates, **values, "draws": n_draws}


def _name(part: tuple[str, int, int]) -> str:
    return " ".join(map(str, part))


KERNEL_ERROR = Experiment(
    "kernel-error",
    "Gram matrix of local group-invariant random features against the exact kernel on Coulomb matrices; the group "
    "orders seven heavy atoms under the law of a noisy sort. Means over independent banks.",
    measure_kernel_error,
)
