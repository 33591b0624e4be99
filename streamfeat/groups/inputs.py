"""Factors that act on the input by a rule instead of a stored matrix.

`noisy_norm` has to: where it puts the rows depends on the input. `sample_shift` is linear, but its matrices are full,
and a Fourier transform applies them in O(d log d). Both are computed anew for each input, from the parameters that the
bank holds and nothing else, so that one item's feature depends on the item and the bank alone.

A factor of this kind says what its parameters are (`space`), refuses those of no element (`check`), and gives

    adjoints(axes, parameters, x)   g* x for each element, (d,) -> (n, d)
    forward(axes, parameters, t)    g t for each element, (d,) -> (n, d)
    defects(axes, parameters)       ||g* g - I||_F / sqrt(d) of each element, (n,)

`linear` says whether <x, g t> = <g* x, t> for a g t that does not depend on x. If not there is no orbit of templates,
`forward` gives t itself, and a bank has no dense form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.groups.axes import Axes
from streamfeat.groups.space import Space

Parameters = NDArray[np.float64]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class NoisyNorm:
    """Factor "noisy_norm": rows and columns of a square matrix sorted by row norm plus noise, falling.

    The sampling of Montavon et al. 2012 for Coulomb matrices: with law gaussian, n draws of the noise stand for the
    likely orders of a molecule's atoms, instead of the n! there are (Raj et al. 2017 use it for QM7). The noise is
    drawn when the bank is built and is the same for every input; its unit is that of the vector's numbers, so close
    the front end with norm kind = "none" or "fixed". The element of noise 0, the identity, is the plain sort.

    Noise i goes to the row of the i-th largest norm. In law that is noise for each row, and it makes the feature
    the same to the bit for C and P C P', where no two rows of C have the same norm.
    """

    linear: ClassVar[bool] = False

    def space(self, axes: Axes) -> Space:
        axes.need("row", "column", by="noisy_norm")
        n = axes.shape[0]
        if axes.shape != (n, n):
            raise ConfigError(f"noisy_norm needs square matrices, the front end gives {axes.shape}")
        return Space(tuple(f"noise_{i}" for i in range(n)), (0.0,) * n)

    def check(self, *noise: float) -> None:
        """Any noise will do."""

    def adjoints(self, axes: Axes, parameters: Parameters, x: Vectors) -> Vectors:
        C = x.reshape(axes.shape)
        # The squares are sorted, so that a row's norm does not depend on the order of its columns by rounding.
        norms = np.sqrt(np.sort(C.astype(np.float64) ** 2, axis=1).sum(axis=1))
        falling = np.argsort(-norms, kind="stable")
        order = falling[np.argsort(-(norms[falling] + parameters), axis=1, kind="stable")]
        return C[order[:, :, None], order[:, None, :]].reshape(len(parameters), -1)

    def forward(self, axes: Axes, parameters: Parameters, t: Vectors) -> Vectors:  # noqa: ARG002
        return np.broadcast_to(t, (len(parameters), len(t)))

    def defects(self, axes: Axes, parameters: Parameters) -> NDArray[np.float64]:  # noqa: ARG002
        return np.zeros(len(parameters))  # whatever the input, a permutation


@dataclass(frozen=True, slots=True)
class SampleShift:
    """Factor "sample_shift": a waveform moved later, round its end, by any fraction of a sample.

    Whole numbers are copies; others multiply the spectrum by exp(-2 pi i k s / d), which moves what lies below half
    the rate exactly. At half the rate itself (d even) only the cosine part can move: the one number by which it is
    not unitary, sin^2(pi s) / sqrt(d).
    """

    linear: ClassVar[bool] = True

    def space(self, axes: Axes) -> Space:
        axes.need("sample", by="sample_shift")
        return Space(("samples",), (0.0,))

    def check(self, samples: float) -> None:
        if not abs(samples) <= 1e9:  # also NaN; the phase keeps nine digits of the fraction
            raise InvalidArgument(f"a sample_shift must be within +-1e9 samples, got {samples}")

    def adjoints(self, axes: Axes, parameters: Parameters, x: Vectors) -> Vectors:
        return self.forward(axes, -parameters, x)

    def forward(self, axes: Axes, parameters: Parameters, t: Vectors) -> Vectors:
        d, shifts = axes.d, np.mod(parameters[:, 0], axes.d)
        out = np.empty((len(shifts), d), np.float32)
        spectrum = np.fft.rfft(t.astype(np.float64))
        turns = -2j * np.pi * np.arange(len(spectrum)) / d
        for row, shift in zip(out, shifts, strict=True):
            whole = shift.is_integer()
            row[:] = np.roll(t, int(shift)) if whole else np.fft.irfft(spectrum * np.exp(turns * shift), d)
        return out

    def defects(self, axes: Axes, parameters: Parameters) -> NDArray[np.float64]:
        fraction = parameters[:, 0] % 1
        if axes.d % 2 == 1:
            return np.zeros(len(fraction))
        defects: NDArray[np.float64] = np.sin(np.pi * fraction) ** 2 / np.sqrt(axes.d)
        return defects


InputFactor = NoisyNorm | SampleShift


@dataclass(frozen=True, eq=False)
class InputMoves:
    """The elements of one factor that acts on inputs by a rule.

    Attributes
    ----------
    factor : NoisyNorm or SampleShift
    axes : Axes
    parameters : (n, p) float64
    names : tuple of str, length p
    spec : mapping
        The canonical factor spec.
    """

    factor: InputFactor
    axes: Axes
    parameters: Parameters
    names: tuple[str, ...]
    spec: Mapping[str, Any]

    @property
    def n(self) -> int:
        """How many elements."""
        return len(self.parameters)

    @property
    def d(self) -> int:
        """Length of the vectors."""
        return self.axes.d

    @property
    def linear(self) -> bool:
        """Whether templates have an orbit."""
        return self.factor.linear

    def act(self, X: Vectors, out: Vectors) -> None:
        """Row r n + i of `out` is g_i* of row r of X; both may be wider than d."""
        for r, x in enumerate(X[:, : self.d]):
            out[r * self.n : (r + 1) * self.n, : self.d] = self.factor.adjoints(self.axes, self.parameters, x)

    def forward(self, T: Vectors) -> Vectors:
        """g_i t_j, (m, d) -> (m, n, d); copies of t_j where the factor is not linear."""
        return np.stack([self.factor.forward(self.axes, self.parameters, t) for t in T])

    def defects(self) -> NDArray[np.float64]:
        """How far each element is from keeping inner products, (n,)."""
        return self.factor.defects(self.axes, self.parameters)
