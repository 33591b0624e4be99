"""A live waveform: PCM in chunks of any size, out come windows, each with its place in the stream.

    stream = AudioStream(44_100, to_hz=8000)
    for chunk in chunks:
        for window in stream.push(chunk):
            ...
    stream.close()

The chunks leave no trace: the same samples give the same windows to the bit, however they were cut up, and those are
the windows of the whole recording, resampled at once. The workers know nothing of streams: a window is an item like
any other, (stream, seq) its identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from streamfeat.cuts import Array, Cut, Cutter, Span, Utterances
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.payloads import Job
from streamfeat.signals.signal import Signal, check_rate

BLOCK_S = 0.01
"""Samples are worked on in blocks of at least this: a chunk of one sample costs no more than it must."""


@dataclass(frozen=True)
class Window:
    """A piece of a stream: number `seq` of it, from `start_s` to `end_s` of the stream's time."""

    stream: str
    seq: int
    start_s: float
    end_s: float
    signal: Signal = field(repr=False)

    def job(self) -> Job:
        """What a client sends."""
        return Job(self.signal, stream=self.stream, seq=self.seq, tag=self)


@dataclass(frozen=True)
class Gap:
    """Samples that were lost: none of the windows reaches across."""

    start_s: float
    end_s: float


@dataclass
class _Piece:
    """An unbroken piece of the stream: its resampler, its cutter, and the samples that may still be needed."""

    start_s: float
    resampler: soxr.ResampleStream | None
    cutter: Cutter
    kept: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    first: int = 0
    """Number of the first sample kept."""

    def take(self, x: Array, last: bool) -> list[tuple[Span, Array]]:
        """Spans and their samples."""
        if self.resampler is not None:
            x = self.resampler.resample_chunk(x, last=last)
        spans = self.cutter.take(x)
        self.kept = np.concatenate((self.kept, x))
        if last:
            spans += self.cutter.end()
        found = [(span, self.kept[span[0] - self.first : span[1] - self.first].copy()) for span in spans]
        done = min(max(0, self.cutter.needed - self.first), self.kept.size)
        self.kept, self.first = self.kept[done:], self.first + done
        return found


class AudioStream:
    """PCM chunks in, windows out.

    Parameters
    ----------
    rate_hz : int
        Of the samples that come.
    to_hz : int, optional
        Of the windows (soxr, quality HQ, no seams between chunks); None: as they come.
    cut : Cut
        `Utterances` or `Sliding`.
    name : str
        Of the stream: the windows' identity is (name, seq).

    Attributes
    ----------
    gaps : list of Gap
        Where samples were lost, as far as `skip` was told.

    Examples
    --------
    >>> stream = AudioStream(8000, cut=Sliding(0.5, 0.5))
    >>> [(w.seq, w.start_s, w.end_s) for w in stream.push(np.zeros(9000, np.int16))]
    [(0, 0.0, 0.5), (1, 0.5, 1.0)]
    """

    def __init__(self, rate_hz: int, *, to_hz: int | None = None, cut: Cut | None = None, name: str = "audio") -> None:
        check_rate(rate_hz, f"{name}: ")
        if to_hz is not None and not 100 <= to_hz <= 768_000:
            raise ConfigError(f"to_hz must be 100 to 768000, got {to_hz!r}")
        self.rate_hz = rate_hz
        self.to_hz = to_hz or rate_hz
        self.cut = cut or Utterances()
        self.name = name
        self.gaps: list[Gap] = []
        self._n_in = 0
        self._seq = 0
        self._waiting: list[Array] = []
        self._n_waiting = 0
        self._closed = False
        self._piece = self._begin()

    @property
    def heard_s(self) -> float:
        """How much has come, lost samples included."""
        return self._n_in / self.rate_hz

    def push(self, samples: NDArray[Any]) -> list[Window]:
        """Take a chunk, and give the windows that are complete with it.

        Parameters
        ----------
        samples : ndarray, shape (n,)
            int16, or float at full scale 1.0; n may be 0.

        Raises
        ------
        InvalidArgument
            Another shape or dtype; NaN or infinity, with its place in the stream; the stream was closed.
        """
        if self._closed:
            raise InvalidArgument(f"{self.name}: the stream was closed; begin another")
        if not samples.size:
            return []
        try:
            x = Signal("audio", samples, rate_hz=self.rate_hz).unit_scale()
        except InvalidArgument as error:
            raise InvalidArgument(f"{self.name}: chunk at {self.heard_s:.3f} s: {error}") from None
        self._n_in += x.size
        self._waiting.append(x)
        self._n_waiting += x.size
        return self._work() if self._n_waiting >= BLOCK_S * self.rate_hz else []

    def skip(self, n_samples: int) -> list[Window]:
        """Say that samples are missing here: what was open ends, and the time goes on after them.

        Returns
        -------
        list of Window
            Those that end with the gap.
        """
        if n_samples < 0:
            raise InvalidArgument(f"{self.name}: n_samples must be 0 or more, got {n_samples!r}")
        windows = self._work(last=True)
        start_s = self.heard_s
        self._n_in += n_samples
        self.gaps.append(Gap(start_s, self.heard_s))
        self._piece = self._begin()
        return windows

    def close(self) -> list[Window]:
        """End the stream: the windows that end with it. Closing twice is harmless."""
        windows = [] if self._closed else self._work(last=True)
        self._closed = True
        return windows

    def _begin(self) -> _Piece:
        resampler = None
        if self.to_hz != self.rate_hz:
            resampler = soxr.ResampleStream(self.rate_hz, self.to_hz, 1, dtype="float32", quality="HQ")
        return _Piece(self.heard_s, resampler, self.cut.start(self.to_hz))

    def _work(self, last: bool = False) -> list[Window]:
        x = np.concatenate([*self._waiting, np.zeros(0, np.float32)])
        self._waiting, self._n_waiting = [], 0
        return [self._window(span, samples) for span, samples in self._piece.take(x, last)]

    def _window(self, span: Span, samples: Array) -> Window:
        start_s, end_s = (round(self._piece.start_s + at / self.to_hz, 6) for at in span)
        name = f"{self.name} {start_s:.3f}-{end_s:.3f} s"
        window = Window(self.name, self._seq, start_s, end_s, Signal("audio", samples, rate_hz=self.to_hz, name=name))
        self._seq += 1
        return window
