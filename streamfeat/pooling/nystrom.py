"""Nystrom pooling (Raj et al. 2017, section 3): kernel values at landmarks, averaged over the group and whitened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError
from streamfeat.kernels.statistics import combine
from streamfeat.pooling.kernel import BaseKernel
from streamfeat.pooling.material import Array, Material, Pass, Size
from streamfeat.pooling.statistics import pool_powers

ROWS_AT_ONCE = 2048
"""Moved landmarks that meet as many others at a time: 34 MB of kernel values."""


@dataclass(frozen=True)
class Nystrom:
    """psi_Nys(x) = K_ZZ^(-1/2) [mean_g k(x, g z_1) ... mean_g k(x, g z_m)] (Raj et al. 2017, section 3).

    Unitary g and a kernel that they keep make k(x, gz) = k(g^-1 x, z), the paper's form. K_ZZ is one of

    gram = "base": k(z_i, z_j). psi psi' is then mean_g phi(g^-1 x) projected on the span of the landmarks' phi.
    gram = "orbit": mean over g, g' of k(g z_i, g' z_j), (m |G|)^2 values at build. psi psi' is then phi(x) projected on
    the span of the landmarks' orbit means; for all of a group that is k_G projected on the landmarks.

    Eigenvalues of K_ZZ up to floor times the largest are left out: a pseudo-inverse. Kernel values are float32, right
    to about 1e-7; what remains of that in psi is 1e-7 / sqrt(floor) at most.
    """

    kind: ClassVar[str] = "nystrom"
    dtype: ClassVar[str] = "<f4"
    takes: ClassVar[str] = "vectors"
    needs_signals: ClassVar[bool] = False

    kernel: BaseKernel
    gram: Literal["base", "orbit"] = "base"
    floor: float = 1e-6
    cells: Literal["whole"] = "whole"

    def __post_init__(self) -> None:
        if not 0 < self.floor < 1:
            raise ConfigError(f"floor must be above 0 and below 1, got {self.floor!r}")

    def n_features(self, m: int) -> int:
        """Columns of a feature."""
        return m

    def build(self, material: Material) -> dict[str, Array]:
        """`whitening` (m, m), K_ZZ^(-1/2), and what the kernel needs."""
        if self.gram == "orbit" and not material.moves_templates:
            raise ConfigError(
                "pooling.gram = 'orbit' averages over moved landmarks, and a factor of the group depends on the input "
                "and moves none; use gram = 'base'"
            )
        Z = material.templates()
        K = self.kernel.gram(Z, Z) if self.gram == "base" else orbit_gram(self.kernel, material)
        return {"whitening": inverse_sqrt(K, self.floor).astype(np.float32), **self.kernel.build(material)}

    def pool(self, some: Pass, out: Array) -> None:
        """Column j is row j of K_ZZ^(-1/2) times the means, in float64."""
        means = np.empty((len(out), out.shape[1], 1), np.float64)
        pool_powers(self.kernel, some, means)
        for i in range(len(out)):
            combine(means[i, :, 0], some.arrays["whitening"], out[i])

    def weight(self, _size: Size) -> float:
        """Features are Phi already: <Phi(x), Phi(z)> = v(x)' K_ZZ^-1 v(z), v the means at the landmarks."""
        return 1.0


def inverse_sqrt(K: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """K^(-1/2) of a positive semidefinite matrix on the eigenvectors above floor times the largest eigenvalue."""
    eigenvalues, U = np.linalg.eigh((K + K.T) / 2)
    kept = eigenvalues > floor * max(float(eigenvalues[-1]), np.finfo(np.float64).tiny)
    V = U[:, kept]
    return np.asarray((V / np.sqrt(eigenvalues[kept])) @ V.T, np.float64)


def orbit_gram(kernel: BaseKernel, material: Material) -> NDArray[np.float64]:
    """mean over g, g' of k(g z_i, g' z_j), (m, m)."""
    m, G = material.size.m, material.size.n_group
    step = max(1, ROWS_AT_ONCE // G)
    chunks = [range(t, min(t + step, m)) for t in range(0, m, step)]
    K = np.empty((m, m))
    for a, left in enumerate(chunks):
        A = material.orbits(left).reshape(len(left) * G, -1)
        for right in chunks[a:]:
            B = material.orbits(right).reshape(len(right) * G, -1)
            part = kernel.gram(A, B).reshape(len(left), G, len(right), G).mean(axis=(1, 3))
            K[left.start : left.stop, right.start : right.stop] = part
            K[right.start : right.stop, left.start : left.stop] = part.T
    return K
