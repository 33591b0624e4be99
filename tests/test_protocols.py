"""The protocols laid out: who trains, who is asked, and what nobody who is asked may touch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.protocols import digits, speech
from streamfeat.protocols.classify import classify
from streamfeat.protocols.clock import ms_alone, ms_per_item
from streamfeat.protocols.data import arrays_in, data_folder, need
from streamfeat.protocols.fitted import Fitted, Task
from streamfeat.protocols.methods import METHODS, method_of
from streamfeat.protocols.pixels import fit_augment
from streamfeat.protocols.plan import Plan, Source
from streamfeat.protocols.scores import scores_of
from streamfeat.protocols.sounds import fit_scattering, frames_of
from streamfeat.protocols.table import featurise
from streamfeat.protocols.trouble import BABBLE, TROUBLES, WHITE, troubled
from streamfeat.signals.signal import Signal
from tests.files import shared, wav16
from tests.protocol_data import AUDIO_SPEC, IMAGE_SPEC, RATE_HZ, TAKES, picture_data, speech_data, word


@contextmanager
def silent(_description: str, _total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar that nobody sees."""
    yield lambda _n: None


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Speech data."""
    return speech_data(tmp_path_factory.mktemp("speech"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Picture data."""
    return picture_data(tmp_path_factory.mktemp("pictures"))


def source(data: Path, given: Path | None = None, n_seeds: int = 2) -> Source:
    """Where a plan takes its items from."""
    return Source(data, given, n_seeds, silent)


def take_of(plan: Plan, row: int) -> int:
    """The take in a recording's name."""
    return int(plan.read(row).name.partition(".")[0].rpartition("_")[2])


# ------------------------------------------------------------------------------------------------------------- speech


def test_no_speaker_is_asked_who_was_trained_on(spoken: Path) -> None:
    """In every trial of fsdd-loso, troubled columns too, and each speaker is asked."""
    plan = speech.plan_fsdd(source(spoken))
    assert plan.speakers is not None
    asked = set()
    for trial in plan.trials:
        taught = {plan.speakers[row] for row in trial.train}
        for rows in trial.tests.values():
            held = {plan.speakers[row] for row in rows}
            assert len(held) == 1
            assert not held & taught
            asked |= held
        assert len(taught) == 3
    assert asked == {"ann", "bob", "cy", "dee"}


def test_fsdd_trains_and_asks_the_takes_its_columns_name(spoken: Path) -> None:
    """Two takes: five pairs on 40-49, the pair 0-1 alone on 10-39; ten takes: 0-9 on both."""
    plan = speech.plan_fsdd(source(spoken))
    seen: dict[str, list[tuple[set[int], set[int]]]] = {}
    for trial in plan.trials:
        for column, rows in trial.tests.items():
            if column not in plan.clean:
                taught, asked = ({take_of(plan, row) for row in some} for some in (trial.train, rows))
                seen.setdefault(column, []).append((taught, asked))
    pairs = [{first, first + 1} for first in range(0, 10, 2)]
    assert seen == {
        "2 takes, test 40-49": [(pair, {40, 41}) for pair in pairs] * 4,
        "2 takes, test 10-39": [({0, 1}, {10})] * 4,
        "10 takes, test 40-49": [(set(range(10)), {40, 41})] * 4,
        "10 takes, test 10-39": [(set(range(10)), {10})] * 4,
    }


def test_templates_of_both_speech_protocols_are_arabic_training_speakers(spoken: Path) -> None:
    """Nobody who is asked is in a bank."""
    for plan in (speech.plan_fsdd(source(spoken)), speech.plan_arabic(source(spoken))):
        names = {signal.name.rpartition("/")[2].split("_")[1] for signal in plan.templates()}
        assert names == {"s01", "s02", "s03"}


def test_arabic_trains_on_rounds_and_asks_the_other_speakers(spoken: Path) -> None:
    """Rounds 1-2 or all there are; the validation speaker's every recording is asked."""
    plan = speech.plan_arabic(source(spoken))
    assert plan.speakers is not None
    rounds = {}
    for trial in plan.trials:
        [(column, rows)] = trial.tests.items()
        assert {plan.speakers[row] for row in rows} == {"s04"}
        assert len(rows) == 12
        assert "s04" not in {plan.speakers[row] for row in trial.train}
        rounds[column] = {take_of(plan, row) for row in trial.train}
    assert rounds == {"rounds 1-2": {1, 2}, "rounds 1-8": {1, 2, 3, 4}}


def test_given_recordings_are_asked_of_who_never_heard_their_speaker(spoken: Path, tmp_path: Path) -> None:
    """A new speaker of a model of all four; "bob", who is in the training data, of the three others."""
    for speaker in ("bob", "eve"):
        for digit in (0, 1):
            (tmp_path / f"{digit}_{speaker}_7.wav").write_bytes(wav16(word(digit, speaker, 77), RATE_HZ))
    plan = speech.plan_fsdd(source(spoken, tmp_path))
    assert plan.speakers is not None
    models = {}
    for trial in plan.trials:
        for column, rows in trial.tests.items():
            if column == "10 takes, given items":
                [asked] = {plan.speakers[row] for row in rows}
                models[asked] = {plan.speakers[row] for row in trial.train}
                assert len(trial.train) == len(models[asked]) * 10 * 3
    assert models == {"eve": {"ann", "bob", "cy", "dee"}, "bob": {"ann", "cy", "dee"}}
    assert set(plan.columns) == {"2 takes, given items", "10 takes, given items", *plan.clean}


def test_a_training_speaker_who_is_given_leaves_the_bank(spoken: Path, tmp_path: Path) -> None:
    """Held out of the model and of its templates."""
    (tmp_path / "0_s02_1.wav").write_bytes(wav16(word(0, "s02", 55), RATE_HZ))
    for plan in (speech.plan_fsdd(source(spoken, tmp_path)), speech.plan_arabic(source(spoken, tmp_path))):
        assert {s.name.rpartition("/")[2].split("_")[1] for s in plan.templates()} == {"s01", "s03"}


def test_a_folder_per_class_is_asked_too(spoken: Path, tmp_path: Path) -> None:
    """Speakers that no name tells are nobody the training has heard."""
    for digit in (0, 2):
        (tmp_path / str(digit)).mkdir()
        (tmp_path / str(digit) / "a.wav").write_bytes(wav16(word(digit, "eve", 1), RATE_HZ))
    plan = speech.plan_arabic(source(spoken, tmp_path))
    assert [len(trial.train) for trial in plan.trials] == [3 * 3 * 2, 3 * 3 * 4]
    assert [plan.labels[row] for row in plan.trials[0].tests["rounds 1-2, given items"]] == ["0", "2"]


def test_a_label_nobody_taught_is_refused(spoken: Path, tmp_path: Path) -> None:
    """By name, with those there are."""
    (tmp_path / "seven").mkdir()
    (tmp_path / "seven" / "a.wav").write_bytes(wav16(word(1, "eve", 1), RATE_HZ))
    with pytest.raises(InvalidArgument, match=r"'seven'; the labels are 0, 1, 2"):
        speech.plan_arabic(source(spoken, tmp_path))


# ------------------------------------------------------------------------------------------------------------ trouble


def test_trouble_comes_to_test_items_alone(spoken: Path) -> None:
    """Troubled columns ask the same items as their clean one; no model trains on a troubled item."""
    plan = speech.plan_fsdd(source(spoken))
    assert set(plan.clean) == {f"10 takes, {name}" for name in TROUBLES}
    n_clean = 3 * 4 * len(TAKES)
    for trial in plan.trials:
        assert trial.train.max() < n_clean
        for column, clean in plan.clean.items():
            if column in trial.tests:
                names = [plan.read(int(row)).name.partition(" (")[0] for row in trial.tests[column]]
                assert names == [plan.read(int(row)).name for row in trial.tests[clean]]
                assert [plan.labels[row] for row in trial.tests[column]] == [
                    plan.labels[row] for row in trial.tests[clean]
                ]


def test_babble_is_of_the_speakers_that_the_model_was_trained_on(spoken: Path) -> None:
    """Takes 0-9 of all but the one who is asked: computed again from these, and the report says so."""
    plan = speech.plan_fsdd(source(spoken))
    assert plan.speakers is not None
    assert any("babble" in note for note in plan.notes)
    own = [row for row in range(3 * 4 * len(TAKES)) if take_of(plan, row) < 10]
    asked = {row: trial.train for trial in plan.trials for row in trial.tests.get(f"10 takes, {BABBLE}", ())}
    assert len(asked) == 4 * 3 * 2
    clean = {plan.read(row).name: row for row in range(3 * 4 * len(TAKES))}
    for row in list(asked)[::5]:
        noisy = plan.read(row)
        first = clean[noisy.name.partition(" (")[0]]
        voices = [plan.read(other) for other in own if plan.speakers[other] != plan.speakers[first]]
        np.testing.assert_array_equal(noisy.samples, troubled(plan.read(first), BABBLE, voices, first).samples)
        assert {s.name for s in voices} == {plan.read(int(other)).name for other in asked[row]}


# ------------------------------------------------------------------------------------------------------------ figures


def test_features_are_the_same_in_threads(written: Path) -> None:
    """Bit for bit and in order, whatever the number of threads."""
    plan = digits.plan_mnist(source(written))
    fitted = method_of("preset", speech=False).fit(Task(BankSpec.from_toml(IMAGE_SPEC), plan.templates, "shift-turn"))
    rows = np.arange(150)
    one, three = (featurise(fitted, plan.read, rows, lambda _n: None, n).X for n in (1, 3))
    np.testing.assert_array_equal(one, three)
    np.testing.assert_array_equal(one, fitted.transform([plan.read(row) for row in range(150)]))


def test_figures_are_means_over_speakers_then_seeds(spoken: Path) -> None:
    """Computed again from the hits; one figure a seed; the seeds are different banks."""
    plan = speech.plan_fsdd(source(spoken))
    hits = classify(
        plan, method_of("preset", speech=True), BankSpec.from_toml(AUDIO_SPEC), range(2), progress=silent, n_threads=2
    )
    report = scores_of(hits, plan)
    column = "2 takes, test 40-49"
    assert plan.speakers is not None
    by_seed = []
    for seed in range(2):
        right: dict[str, list[bool]] = {}
        for rows, hit in hits.of[column][seed]:
            for row, value in zip(rows, hit, strict=True):
                right.setdefault(plan.speakers[row], []).append(bool(value))
        assert {len(some) for some in right.values()} == {5 * 3 * 2}
        by_seed.append(float(np.mean([np.mean(some) for some in right.values()])))
    assert report["per_seed"][column] == {"0": pytest.approx(by_seed[0]), "1": pytest.approx(by_seed[1])}
    assert report["accuracy"][column] == pytest.approx(np.mean(by_seed))
    assert report["sd"][column] == pytest.approx(np.std(by_seed, ddof=1))
    assert report["n_test"][column] == 4 * 3 * 2
    assert set(report["per_speaker"][column]) == {"ann", "bob", "cy", "dee"}
    confusion = report["confusion"][column]
    assert confusion["labels"] == ["0", "1", "2"]
    n_right = sum(int(hit.sum()) for some in hits.of[column].values() for _, hit in some)
    assert np.trace(confusion["counts"]) == n_right
    # each of 4 speakers says each digit twice, 5 draws of the training takes, 2 banks
    assert np.sum(confusion["counts"], axis=1).tolist() == [4 * 2 * 5 * 2] * 3
    # tones 700 Hz apart: anything that hears at all tells them apart
    assert report["accuracy"]["10 takes, test 40-49"] > 0.9
    loss = report["accuracy"]["10 takes, test 40-49"] - report["accuracy"][f"10 takes, {WHITE}"]
    assert report["loss"][f"10 takes, {WHITE}"] == pytest.approx(loss)


def ten_labels(data: Path, n_seeds: int = 1) -> Plan:
    """mnist-few with ten labels a class alone, on the first test digits."""
    plan = digits.plan_mnist_few(source(data, n_seeds=n_seeds))
    column = "10 labels, first 2000"
    trials = (trial for trial in plan.trials if column in trial.tests)
    return replace(plan, trials=tuple(replace(t, tests={column: t.tests[column]}) for t in trials))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_learns_or_says_what_to_install(name: str, spoken: Path, written: Path) -> None:
    """On easy items; a package that is not here is named."""
    tried = 0
    for is_speech, spec in ((True, AUDIO_SPEC), (False, IMAGE_SPEC)):
        try:
            method = method_of(name, is_speech)
        except ConfigError:
            continue
        tried += 1
        plan = speech.plan_arabic(source(spoken)) if is_speech else ten_labels(written)
        try:
            hits = classify(plan, method, BankSpec.from_toml(spec), (0,), progress=silent, n_threads=1)
        except ConfigError as error:
            assert "pip install" in str(error)  # noqa: PT017 - one of two outcomes
            continue
        figures = scores_of(hits, plan)
        # pixels of bars set down anywhere are learned least well: .65 here, chance .33
        assert all(value > 0.5 for value in figures["accuracy"].values()), figures
    assert tried


def test_a_method_of_the_other_kind_is_refused() -> None:
    """With the names there are."""
    with pytest.raises(ConfigError, match="one of preset, plain, raw, mfcc"):
        method_of("kymatio", speech=True)


def test_one_label_a_class_takes_the_default_lambda_centred() -> None:
    """Leave-one-out has nothing to hold out."""
    rls = method_of("preset", speech=False).learner("loo", one_a_class=True)
    assert rls.lam == "default"
    assert rls.recipe.standardise == "centre"
    assert method_of("preset", speech=False).learner("loo", one_a_class=False).recipe.standardise == "none"


def test_a_moved_copy_does_not_answer_for_its_source(written: Path) -> None:
    """Copies of one picture leave together when lambda is chosen: 27 of each, the first digit's own among them."""
    plan = digits.plan_mnist_few(source(written, n_seeds=1))
    fitted = fit_augment(Task(BankSpec.from_toml(IMAGE_SPEC), plan.templates, plan.moves))
    assert fitted.copies is not None
    some = [plan.read(row) for row in range(3)]
    moved = fitted.copies(some)
    assert moved.shape == (3, 27, 4000)
    np.testing.assert_allclose(moved[:, 13], fitted.transform(some), atol=1e-5)  # no shift, no turn: float32


def test_adaptive_pooling_cuts_time_as_it_is_defined() -> None:
    """Stretch i of n: from floor(i L / n) to ceil((i + 1) L / n), overlapping where L is no multiple."""
    spectrum = np.arange(7, dtype=np.float32)[None]
    expected = [np.mean(range(int(np.floor(i * 7 / 4)), int(np.ceil((i + 1) * 7 / 4)))) for i in range(4)]
    np.testing.assert_allclose(frames_of(spectrum, 4)[0], expected)


def test_the_clock_gives_each_method_its_turn() -> None:
    """Methods take turns within every round; the slower one is the slower one."""
    turns: list[str] = []

    def method(name: str, work: int) -> Fitted:
        def transform(_signals: Any) -> NDArray[Any]:
            turns.append(name)
            return np.linalg.matrix_power(np.eye(work) * 0.5, 3)

        return Fitted(transform)

    signals = [Signal("image", np.zeros((2, 2), np.uint8))] * 4
    ms = ms_per_item({"small": method("small", 2), "large": method("large", 300)}, signals, n_rounds=3)
    assert turns == ["small", "large"] * 4
    assert 0 < ms["small"] < ms["large"]
    turns.clear()
    alone = ms_alone({"small": method("small", 2), "large": method("large", 2)}, signals, n_rounds=2)
    assert turns == ["small", "large"] * 8
    assert [len(some) for some in alone.values()] == [8, 8]


# --------------------------------------------------------------------------------------------------------------- data


def test_missing_data_tell_where_was_looked(tmp_path: Path) -> None:
    """The folder that was said, or the file in it, and the option that names another."""
    with pytest.raises(
        ConfigError, match=r"nowhere: no such folder; .* --train-data \(evaluate\), --data \(reproduce\)"
    ):
        data_folder(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"mnist.npz: not there, needed is MNIST"):
        need(tmp_path, "mnist/mnist.npz", "MNIST")
    speech_data(tmp_path)
    (tmp_path / "arabic_digits" / "arabic_digits_train.zip").unlink()
    plan = speech.plan_fsdd(source(tmp_path))
    with pytest.raises(ConfigError, match="which templates are taken from"):
        plan.templates()


def test_damaged_data_are_told_by_name(tmp_path: Path) -> None:
    """Cut short, garbage, empty, of other arrays, shapes and lengths, not finite: never taken for a bug of ours."""
    file = tmp_path / "some.npz"
    wanted = {"x": 3, "y": 1}
    x, y = np.zeros((4, 2, 2)), np.arange(4)
    np.savez(file, x=x, y=y)
    whole = file.read_bytes()
    assert [array.shape for array in arrays_in(file, wanted)] == [(4, 2, 2), (4,)]
    for content in (whole[: len(whole) // 2], b"garbage" * 99, b""):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"some.npz: cannot be read .*; copy it again"):
            arrays_in(file, wanted)
    for arrays, said in (
        ({"x": x}, "needs the arrays x, y; y is not there"),
        ({"x": x.reshape(4, 4), "y": y}, r"x must have 3 axes, .* got \(4, 4\)"),
        ({"x": x, "y": y[:3]}, "x, y must be of as many items each, got 4, 3"),
        ({"x": x[:0], "y": y[:0]}, r"x must have .* got \(0, 2, 2\)"),
        ({"x": x * np.nan, "y": y}, "x has numbers that are not finite"),
    ):
        np.savez(file, **arrays)
        with pytest.raises(ConfigError, match=f"some.npz: {said}"):
            arrays_in(file, wanted)


def test_real_digits_give_the_figures_that_are_known() -> None:
    """Pixels, ten labels a class, seeds 0 to 4: .678 with deviation .023 measured elsewhere, on the first 2,000."""
    plan = ten_labels(shared("data"), n_seeds=5)
    [first] = plan.columns
    hits = classify(
        plan, method_of("pixels", speech=False), BankSpec.from_toml(IMAGE_SPEC), None, progress=silent, n_threads=1
    )
    # the same draws; lambda's grid differs
    assert scores_of(hits, plan)["accuracy"][first] == pytest.approx(0.678, abs=0.02)


@pytest.mark.skipif(find_spec("kymatio") is None, reason="kymatio comes with the extra peers (scripts/peers)")
def test_scattering_hears_all_of_a_word_at_any_rate() -> None:
    """0.9 s of chirp at 16 kHz give what they give at 8 kHz, to what resampling takes; its end is heard."""
    fitted = fit_scattering(Task(BankSpec.preset("digits-audio"), list, "shift-turn"))

    def chirp(rate_hz: int, end_s: float = 0.9) -> Signal:
        t = np.arange(round(end_s * rate_hz)) / rate_hz
        return Signal("audio", np.sin(2 * np.pi * (300 + 800 * t) * t).astype(np.float32), rate_hz, "chirp")

    slow, fast, half = fitted.transform([chirp(8000), chirp(16000), chirp(16000, 0.5)])
    assert np.abs(slow - fast).mean() < 0.1 * np.abs(slow - half).mean()
