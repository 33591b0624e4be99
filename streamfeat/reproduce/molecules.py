"""Coulomb matrices: real molecules where there are some, made-up ones where not; and the orders of their atoms."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.groups.operators import Operator, OperatorStack, stack
from streamfeat.protocols.data import arrays_in, data_folder, need

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

SIDE = 23
"""Rows of a matrix; molecules of fewer atoms are filled up with zeros."""
FILE = Path("qm7") / "qm7_coulomb.npz"
HYDROGEN = 0.5
"""Its diagonal entry, Z^2.4 / 2; heavier atoms have more."""
BOHR = 1.8897
HEAVY = (6.0, 6.0, 6.0, 6.0, 6.0, 7.0, 8.0)
"""Charges that made-up molecules choose from: carbon mostly."""


def coulomb_matrices(n: int, n_heavy: int, file: Path | None, rng: np.random.Generator) -> tuple[Floats, str]:
    """n matrices (n, 23, 23) of molecules of n_heavy atoms besides hydrogen, rows by falling norm; and where from.

    Parameters
    ----------
    file : Path, optional
        An .npz with `X` (N, 23, 23); without it molecules are made up.

    Raises
    ------
    ConfigError
        There are too few of them in the file, or it holds no such matrices.
    """
    if file is None:
        return np.stack([_by_norm(_made_up(n_heavy, rng)) for _ in range(n)]), "made-up molecules"
    X = arrays_in(file, {"X": 3})[0].astype(np.float64)
    if X.shape[1:] != (SIDE, SIDE):
        raise ConfigError(f"{file}: needs an array 'X' of shape (N, {SIDE}, {SIDE}), got {X.shape}")
    fit = np.flatnonzero((np.diagonal(X, axis1=1, axis2=2) > HYDROGEN + 0.1).sum(axis=1) == n_heavy)
    if len(fit) < n:
        raise ConfigError(f"{file}: needs {n} molecules of {n_heavy} atoms besides hydrogen, got {len(fit)}")
    return np.stack([_by_norm(X[i]) for i in rng.choice(fit, n, replace=False)]), f"{n} of {file.name}"


def matrices_file(data: Path | None) -> Path | None:
    """The file of Coulomb matrices: `data` itself, one in that folder or in the usual ones; None where none is there.

    Raises
    ------
    ConfigError
        `data` was named and holds no such file.
    """
    if data is None:
        try:
            return need(data_folder(None), str(FILE), "Coulomb matrices")
        except ConfigError:
            return None
    for place in (data, data / FILE, data / FILE.name):
        if place.is_file():
            return place
    raise ConfigError(f"{data}: no Coulomb matrices there; name an .npz with 'X', or the folder that holds {FILE}")


def coulomb_matrix(Z: Floats, R: Floats) -> Floats:
    """C_ii = Z_i^2.4 / 2, C_ij = Z_i Z_j / |R_i - R_j| (Rupp et al. 2012; Raj et al. 2017, section 5), zero padded.

    Parameters
    ----------
    Z : (n,) charges
    R : (n, 3) places in bohr
    """
    n = len(Z)
    C = np.zeros((SIDE, SIDE))
    apart = np.linalg.norm(R[:, None] - R, axis=2)
    np.fill_diagonal(apart, 1.0)
    C[:n, :n] = Z[:, None] * Z / apart
    C[np.arange(n), np.arange(n)] = Z**2.4 / 2
    return C


@dataclass(frozen=True)
class NoisyOrder:
    """A law on the orders of the first n atoms: sorted by row norm plus noise, as Montavon et al. 2012 sample them.

    The noise is Gumbel's of width beta, so that the law is Plackett and Luce's and known: the next atom is i with
    probability exp(norm_i / beta) over the sum of those that are left. Norms are those of all molecules in the mean, so
    that q does not depend on the input (Raj et al. 2017, equation 2). Atom i of g C is atom p_i of C.
    """

    strength: Floats
    """norm / beta, (n,)."""

    def sample(self, r: int, rng: np.random.Generator) -> Ints:
        """r orders, independent, (r, n)."""
        return np.argsort(-(self.strength + rng.gumbel(size=(r, len(self.strength)))), axis=1)

    def every(self) -> tuple[Ints, Floats]:
        """All n! orders in the alphabet's order, and q of each."""
        orders = np.array(list(itertools.permutations(range(len(self.strength)))), np.intp)
        weight = np.exp(self.strength - self.strength.max())[orders]
        left = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1]
        return orders, np.prod(weight / left, axis=1)

    def differences(self) -> tuple[Ints, Floats]:
        """All orders h, and the probability that g^-1 g' = h for g, g' drawn from q: sum over g of q(g) q(g h).

        k(gx, g'z) = k(x, g^-1 g' z), so one sum over these gives k_{q,G} (Raj et al. 2017, equation 3).
        """
        orders, q = self.every()
        n = len(self.strength)
        place = np.zeros(n**n, np.intp)
        powers = n ** np.arange(n)
        place[orders @ powers] = np.arange(len(orders))
        # atom i of g (h C) is atom h_{g_i} of C
        p = sum(weight * q[place[orders[:, g] @ powers]] for g, weight in zip(orders, q, strict=True))
        return orders, np.asarray(p)


def move_atoms(C: Floats, orders: Ints) -> Floats:
    """Every matrix with its first atoms in every order, (N, 23, 23) and (r, n) -> (N, r, 529)."""
    whole = _whole(orders)
    return np.ascontiguousarray(C[:, whole[:, :, None], whole[:, None, :]]).reshape(len(C), len(orders), -1)


def atom_operators(orders: Ints) -> OperatorStack:
    """The operators whose adjoints put the atoms of the input in these orders."""
    d, one = SIDE * SIDE, np.ones(SIDE * SIDE, np.float32)
    at = np.arange(d)
    read = (_whole(orders)[:, :, None] * SIDE + _whole(orders)[:, None, :]).reshape(len(orders), d)
    operators = [Operator(row, at, one, d) for row in read]
    return stack(operators, orders.astype(np.float64), tuple(f"from_{i}" for i in range(orders.shape[1])), {})


def _whole(orders: Ints) -> Ints:
    rest = np.arange(orders.shape[1], SIDE)
    return np.hstack([orders, np.broadcast_to(rest, (len(orders), len(rest)))])


def _by_norm(C: Floats) -> Floats:
    order = np.argsort(-np.linalg.norm(C, axis=1), kind="stable")
    return np.asarray(C[order][:, order])


def _made_up(n_heavy: int, rng: np.random.Generator) -> Floats:
    """A chain of heavy atoms 1.5 Angstrom apart that keeps 1.2 from itself, with hydrogens 1.1 from it, 0.9 apart."""
    n = int(rng.integers(n_heavy + 4, SIDE + 1))
    places = np.zeros((1, 3))
    while len(places) < n:
        heavy = len(places) < n_heavy
        bond, keeps, held = (1.5, 1.2, places[-1]) if heavy else (1.1, 0.9, places[rng.integers(n_heavy)])
        step = rng.standard_normal(3)
        place = held + bond * step / np.linalg.norm(step)
        if np.linalg.norm(places - place, axis=1).min() >= keeps:
            places = np.vstack([places, place])
    Z = np.append(rng.choice(HEAVY, n_heavy), np.ones(n - n_heavy))
    return coulomb_matrix(Z, places * BOHR)
