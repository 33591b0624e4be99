"""Where an endless waveform is cut: sliding windows, or utterances by their energy.

A cut is told the samples as they come and answers with spans, (first sample, sample after the last). What it answers
depends on the samples alone, never on the pieces they came in: energies are taken over frames that lie on a fixed grid.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from streamfeat.errors import ConfigError

Array = NDArray[np.float32]
Span = tuple[int, int]

FRAME_S = 0.01
"""Energies are taken over frames of this length."""


class Cut(Protocol):
    """How a stream is cut; `start` gives the cutter of one unbroken piece of it."""

    def start(self, rate_hz: int) -> Cutter:
        """A cutter at the first sample."""


class Cutter(Protocol):
    """Cuts one unbroken piece."""

    @property
    def needed(self) -> int:
        """The first sample that a span to come may hold; all before it may be forgotten."""

    def take(self, x: Array) -> list[Span]:
        """The spans that are certain once these samples have come."""

    def end(self) -> list[Span]:
        """The spans that are left when no more will come."""


@dataclass(frozen=True)
class Sliding:
    """Windows of one length at equal steps; what is left over at the end is no window.

    Parameters
    ----------
    length_s, hop_s : float
        Rounded to samples, at least one.
    """

    length_s: float = 1.0
    hop_s: float = 0.5

    def __post_init__(self) -> None:
        if not (0 < self.length_s <= 600 and 0 < self.hop_s <= 600):
            raise ConfigError(
                f"length_s and hop_s must be above 0 and at most 600, got {self.length_s!r} and {self.hop_s!r}"
            )

    def start(self, rate_hz: int) -> Cutter:
        """A cutter at the first sample."""
        return _Slider(max(1, round(self.length_s * rate_hz)), max(1, round(self.hop_s * rate_hz)))


@dataclass
class _Slider:
    length: int
    hop: int
    needed: int = 0
    n_seen: int = 0

    def take(self, x: Array) -> list[Span]:
        self.n_seen += x.size
        spans = []
        while self.needed + self.length <= self.n_seen:
            spans.append((self.needed, self.needed + self.length))
            self.needed += self.hop
        return spans

    def end(self) -> list[Span]:
        return []


@dataclass(frozen=True)
class Utterances:
    """What is louder than the background, with the pauses in it that are shorter than the hangover.

    A frame of 10 ms is loud when its level is above `floor_db` and more than `margin_db` above the quietest of the last
    `memory_s` (of which nothing is known at the beginning: there `floor_db` alone decides). An utterance begins
    `lead_s` before its first loud frame and ends `lead_s` after its last one, as soon as `hangover_s` were quiet.

    Parameters
    ----------
    floor_db : float
        Level, relative to full scale, below which everything is silence.
    margin_db : float
        How far speech stands out of the background.
    memory_s : float
        How far back the background is looked for.
    hangover_s : float
        The longest pause within an utterance; a word has stops of up to 0.15 s.
    lead_s : float
        What is kept on both sides; at most the hangover.
    shortest_s, longest_s : float
        With less that is loud it was a click, and no utterance; a longer one is cut there.
    """

    floor_db: float = -45.0
    margin_db: float = 10.0
    memory_s: float = 2.0
    hangover_s: float = 0.25
    lead_s: float = 0.1
    shortest_s: float = 0.05
    longest_s: float = 10.0

    def __post_init__(self) -> None:
        if not (-120 <= self.floor_db < 0 < self.margin_db <= 60):
            raise ConfigError(
                f"floor_db must be -120 to 0 and margin_db 0 to 60, got {self.floor_db:g} and {self.margin_db:g}"
            )
        if not (FRAME_S <= self.hangover_s <= self.memory_s <= 60 and 0 <= self.lead_s <= self.hangover_s):
            raise ConfigError(
                "needed: lead_s <= hangover_s <= memory_s, the hangover at least 0.01 s and the memory at most 60 s, "
                f"got {self.lead_s:g}, {self.hangover_s:g}, {self.memory_s:g}"
            )
        if not 0 < self.shortest_s < self.longest_s <= 600:
            raise ConfigError(
                f"needed: 0 < shortest_s < longest_s <= 600, got {self.shortest_s:g} and {self.longest_s:g}"
            )

    def start(self, rate_hz: int) -> Cutter:
        """A cutter at the first sample."""
        return _EndPointer(self, max(1, round(FRAME_S * rate_hz)))


@dataclass
class _EndPointer:
    """Frames so far; of the utterance that is open: where it begins, its last loud frame, and how many were loud."""

    rule: Utterances
    frame: int
    n_frames: int = 0
    begin: int | None = None
    last_loud: int = 0
    n_loud: int = 0
    free: int = 0
    """The sample after the last utterance: the next begins no earlier."""
    rest: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    quietest: deque[tuple[int, float]] = field(default_factory=deque)
    """(frame, energy), rising: the first is the minimum of the memory."""

    @property
    def needed(self) -> int:
        lead = max(self.free, self.n_frames * self.frame - self._samples(self.rule.lead_s))
        return lead if self.begin is None else self.begin

    def take(self, x: Array) -> list[Span]:
        x = np.concatenate((self.rest, x))
        whole = x.size // self.frame
        self.rest = x[whole * self.frame :].copy()
        spans = (self._frame(x[i * self.frame : (i + 1) * self.frame]) for i in range(whole))
        return [span for span in spans if span is not None]

    def end(self) -> list[Span]:
        last = self._frame(self.rest) if self.rest.size else None
        n_samples = (self.n_frames - bool(self.rest.size)) * self.frame + self.rest.size
        spans = [last, self._close()]
        return [(first, min(after, n_samples)) for first, after in (span for span in spans if span is not None)]

    def _frame(self, x: Array) -> Span | None:
        """One frame further; the utterance that is over with it."""
        loud = self._is_loud(float(np.square(x, dtype=np.float64).mean()))
        at = self.n_frames
        self.n_frames += 1
        if loud:
            if self.begin is None:
                self.begin = max(self.free, at * self.frame - self._samples(self.rule.lead_s))
                self.n_loud = 0
            self.last_loud = at
            self.n_loud += 1
        if self.begin is None:
            return None
        pause = (self.n_frames - 1 - self.last_loud) * self.frame
        length = self.n_frames * self.frame - self.begin
        over = pause >= self._samples(self.rule.hangover_s) or length >= self._samples(self.rule.longest_s)
        return self._close() if over else None

    def _close(self) -> Span | None:
        if self.begin is None:
            return None
        after = (self.last_loud + 1) * self.frame + self._samples(self.rule.lead_s)
        begin, after = self.begin, min(after, self.n_frames * self.frame)
        self.begin = None
        if self.n_loud * self.frame < self._samples(self.rule.shortest_s):
            return None
        self.free = after
        return begin, after

    def _is_loud(self, energy: float) -> bool:
        """Whether it stands out, before it counts as background itself."""
        oldest = self.n_frames - math.ceil(self.rule.memory_s / FRAME_S)
        known = oldest >= 0
        while self.quietest and self.quietest[0][0] < oldest:
            self.quietest.popleft()
        background = self.quietest[0][1] if known and self.quietest else 0.0
        while self.quietest and self.quietest[-1][1] >= energy:
            self.quietest.pop()
        self.quietest.append((self.n_frames, energy))
        floor: float = 10.0 ** (self.rule.floor_db / 10)
        margin: float = 10.0 ** (self.rule.margin_db / 10)
        return energy > max(floor, margin * background)

    def _samples(self, seconds: float) -> int:
        return round(seconds / FRAME_S) * self.frame
