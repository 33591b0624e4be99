"""Where a waveform is cut: the rules of `Sliding` and `Utterances`, on sounds whose levels are known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.cuts import Cut, Sliding, Utterances
from streamfeat.errors import ConfigError

RATE = 1000
"""A frame of 10 ms has 10 samples."""


def level(*parts: tuple[float, float]) -> NDArray[np.float32]:
    """A square wave of these (seconds, amplitude), one after the other."""
    amplitude = np.concatenate([np.full(round(seconds * RATE), a) for seconds, a in parts])
    return (amplitude * np.where(np.arange(amplitude.size) % 2, 1, -1)).astype(np.float32)


def spans(cut: Cut, x: NDArray[np.float32]) -> list[tuple[int, int]]:
    """All spans of a sound that comes at once."""
    cutter = cut.start(RATE)
    return [*cutter.take(x), *cutter.end()]


def test_sliding_windows_lie_at_equal_steps() -> None:
    """Overlapping, touching and with holes between; what is left over is no window."""
    x = level((1.0, 0.5))
    assert spans(Sliding(0.4, 0.2), x) == [(0, 400), (200, 600), (400, 800), (600, 1000)]
    assert spans(Sliding(0.3, 0.3), x) == [(0, 300), (300, 600), (600, 900)]
    assert spans(Sliding(0.1, 0.5), x) == [(0, 100), (500, 600)]
    assert spans(Sliding(1.1, 0.1), x) == []


def test_an_utterance_is_what_is_loud_with_its_lead_on_both_sides() -> None:
    """Two words and a second between them: each with 0.1 s before and after, the first cut off by the beginning."""
    x = level((0.3, 0.5), (1.0, 0), (0.2, 0.1), (0.5, 0))
    assert spans(Utterances(), x) == [(0, 400), (1200, 1600)]


def test_a_pause_shorter_than_the_hangover_parts_nothing() -> None:
    """0.24 s of silence are a stop within a word; 0.25 s end it, and the next begins after the first."""
    assert spans(Utterances(), level((0.2, 0.5), (0.24, 0), (0.2, 0.5), (0.5, 0))) == [(0, 740)]
    near = level((0.2, 0.5), (0.25, 0), (0.2, 0.5), (0.5, 0))
    assert spans(Utterances(lead_s=0.2), near) == [(0, 400), (400, 850)]


def test_a_click_is_no_utterance_and_a_long_one_is_cut() -> None:
    """Less than 0.05 s loud: nothing. Longer than the longest: in parts that touch."""
    assert spans(Utterances(), level((0.5, 0), (0.04, 0.9), (0.5, 0))) == []
    assert spans(Utterances(longest_s=1.0, memory_s=5), level((2.5, 0.5))) == [(0, 1000), (1000, 2000), (2000, 2500)]


def test_noise_that_was_there_for_a_while_is_background() -> None:
    """Noise 20 dB above the floor is heard at first; once it fills the memory, only what is 10 dB above it is."""
    noise, word = 0.05, 0.5
    x = level((4.0, noise), (0.3, word), (1.0, noise))
    heard = spans(Utterances(), x)
    assert heard[-1] == (3900, 4400)
    assert all(after <= 2100 for _, after in heard[:-1])


def test_an_utterance_that_is_open_at_the_end_ends_with_it() -> None:
    """The last frame may be cut short."""
    assert spans(Utterances(), level((0.5, 0), (0.123, 0.5))) == [(400, 623)]


def test_what_may_still_be_needed_is_kept_and_no_more() -> None:
    """In silence the lead alone; within an utterance from its beginning."""
    cutter = Utterances().start(RATE)
    cutter.take(level((3.0, 0)))
    assert cutter.needed == 2900
    cutter.take(level((0.5, 0.5)))
    assert cutter.needed == 2900


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Sliding, {"length_s": 0}),
        (Sliding, {"hop_s": float("nan")}),
        (Utterances, {"floor_db": 3}),
        (Utterances, {"lead_s": 0.3}),
        (Utterances, {"hangover_s": 5}),
        (Utterances, {"shortest_s": 11}),
    ],
)
def test_rules_that_contradict_themselves_are_refused(kind: type[Cut], wrong: dict[str, float]) -> None:
    """Before anything is heard."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        kind(**wrong)
