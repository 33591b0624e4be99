"""A live stream: the same windows however the chunks are cut, those of the whole recording; gaps; bad samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamfeat.audiostream import AudioStream, Gap, Window
from streamfeat.cuts import Cut, Sliding, Utterances
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.featuremap import FeatureMap
from streamfeat.frontends.waveform import resample

CUTS: dict[str, Cut] = {"sliding": Sliding(0.3, 0.1), "utterances": Utterances()}


def spoken(seed: int, rate_hz: int = 8000) -> NDArray[np.int16]:
    """Three bursts of noise with 0.4 s of near silence between: 1.8 s."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(0, level, round(seconds * rate_hz)) for seconds, level in [(0.2, 5000), (0.4, 3)] * 3]
    return np.concatenate(parts).astype("<i2")


def heard(stream: AudioStream, samples: NDArray[np.int16], sizes: list[int]) -> list[Window]:
    """All windows of samples that come in chunks of these sizes, again and again."""
    windows, at, n = [], 0, 0
    while at < samples.size:
        size = sizes[n % len(sizes)]
        windows += stream.push(samples[at : at + size])
        at, n = at + size, n + 1
    return windows + stream.close()


def same(a: list[Window], b: list[Window]) -> None:
    """Windows are equal, samples to the bit."""
    assert [(w.stream, w.seq, w.start_s, w.end_s) for w in a] == [(w.stream, w.seq, w.start_s, w.end_s) for w in b]
    for one, other in zip(a, b, strict=True):
        assert one.signal.rate_hz == other.signal.rate_hz
        np.testing.assert_array_equal(one.signal.samples, other.signal.samples)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("rate_hz", "to_hz"), [(8000, None), (8000, 20_000), (11_025, 8000)])
def test_chunks_leave_no_trace(cut: str, rate_hz: int, to_hz: int | None) -> None:
    """1, 160, 7,919 samples and all at once: the same windows, at least three."""
    x = spoken(1, rate_hz)
    whole, *others = (
        heard(AudioStream(rate_hz, to_hz=to_hz, cut=CUTS[cut]), x, [size]) for size in (x.size, 1, 160, 7919)
    )
    assert len(whole) >= 3
    for other in others:
        same(whole, other)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=8).filter(any),
    cut=st.sampled_from(sorted(CUTS)),
)
def test_any_chunks_give_the_windows_of_the_whole(seed: int, sizes: list[int], cut: str) -> None:
    """Empty chunks among them."""
    x = spoken(seed)
    one, other = (AudioStream(8000, to_hz=16_000, cut=CUTS[cut]) for _ in range(2))
    same(heard(one, x, [x.size]), heard(other, x, sizes))


@pytest.mark.parametrize("cut", CUTS)
def test_windows_are_those_of_the_whole_recording_resampled_at_once(cut: str) -> None:
    """No seam: each window is a slice of the resampled whole, where its times say."""
    x = spoken(2, 20_000)
    whole = resample(x.astype(np.float32) / np.float32(32768), 20_000, 8000)
    for window in heard(AudioStream(20_000, to_hz=8000, cut=CUTS[cut]), x, [160]):
        first, after = round(window.start_s * 8000), round(window.end_s * 8000)
        np.testing.assert_array_equal(window.signal.samples, whole[first:after])


def test_features_of_a_stream_are_those_of_the_file_cut_alike(audio_bank: Path) -> None:
    """Through the bank of digits-audio, to the bit."""
    x = spoken(3)
    feature_map = FeatureMap.open(audio_bank, verify=False)
    features = [
        feature_map.transform(w.signal for w in heard(AudioStream(8000, to_hz=8000), x, [size]))
        for size in (x.size, 7919)
    ]
    assert features[0].shape[0] == 3
    np.testing.assert_array_equal(features[0], features[1])


def test_a_window_is_an_item_of_the_stream() -> None:
    """Its job carries (stream, seq); numbers count up from 0 across gaps."""
    stream = AudioStream(8000, cut=Sliding(0.5, 0.5), name="door")
    windows = [*stream.push(spoken(4)), *stream.skip(800), *stream.push(spoken(4))]
    assert [(w.job().stream, w.job().seq) for w in windows] == [("door", n) for n in range(6)]


def test_a_gap_is_reported_and_no_window_reaches_across() -> None:
    """What was open ends before it, times go on after it, and both sides are cut as if they were alone."""
    x = spoken(5)
    stream = AudioStream(8000, to_hz=16_000)
    before = [*stream.push(x[:10_000]), *stream.skip(4000)]
    after = [*stream.push(x), *stream.close()]
    assert stream.gaps == [Gap(1.25, 1.75)]
    assert before[-1].end_s <= 1.25
    alone = heard(AudioStream(8000, to_hz=16_000), x, [x.size])
    assert [w.start_s for w in after] == pytest.approx([1.75 + w.start_s for w in alone])
    for one, other in zip(after, alone, strict=True):
        np.testing.assert_array_equal(one.signal.samples, other.signal.samples)


def test_a_window_comes_as_soon_as_it_is_over() -> None:
    """The word ends at 0.2 s; 0.25 s of hangover and a block later it is there."""
    x = spoken(6)
    stream = AudioStream(8000)
    assert stream.push(x[: round(0.44 * 8000)]) == []
    assert len(stream.push(x[round(0.44 * 8000) : round(0.47 * 8000)])) == 1


def test_what_is_kept_of_a_long_silence_is_short() -> None:
    """An hour of it must not fill the memory: no more than the lead is held."""
    stream = AudioStream(8000)
    for _ in range(50):
        stream.push(np.zeros(8000, "<i2"))
    assert stream._piece.kept.size <= 0.11 * 8000


def test_bad_chunks_and_settings_are_refused() -> None:
    """With the place in the stream; a closed stream takes nothing."""
    stream = AudioStream(8000, name="door")
    stream.push(np.zeros(8000, np.int16))
    with pytest.raises(InvalidArgument, match=r"door: chunk at 1\.000 s: non-finite sample at 1"):
        stream.push(np.array([0, np.nan], np.float32))
    with pytest.raises(InvalidArgument, match="mono"):
        stream.push(np.zeros((4, 2), np.float32))
    with pytest.raises(InvalidArgument, match="n_samples"):
        stream.skip(-1)
    assert stream.close() == stream.close() == []
    with pytest.raises(InvalidArgument, match="closed"):
        stream.push(np.zeros(1, np.int16))
    with pytest.raises(InvalidArgument, match="rate"):
        AudioStream(0)
    with pytest.raises(ConfigError, match="to_hz"):
        AudioStream(8000, to_hz=1)
