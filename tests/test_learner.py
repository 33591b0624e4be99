"""Learner: learn, fit, classify; what it acknowledged outlives it; one bad item fails alone."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from streamfeat.workers.learning import Learner, fit_ms, load_ms

from streamfeat.client import Client
from streamfeat.errors import ConfigError, InvalidArgument
from streamfeat.featurelog import FeatureLog, Logged
from streamfeat.learn.rls import RLS
from streamfeat.model import Model
from streamfeat.payloads import Job
from streamfeat.wire.codec import decode, encode
from streamfeat.wire.messages import Array, Item, Message
from tests.cluster import cluster

BANK, OTHER = "a" * 64, "b" * 64
WORDS = ["one", "oh", "zero"]


def spoken(n: int, seed: int = 0) -> tuple[NDArray[np.uint16], list[str], list[str]]:
    """Features of three words by five speakers; word and speaker of each."""
    rng = np.random.default_rng(seed)
    means = np.random.default_rng(99).integers(50, 350, (3, 20))
    X = (means[np.arange(n) % 3] + rng.normal(0, 25, (n, 20))).clip(0).astype(np.uint16)
    return X, [WORDS[i % 3] for i in range(n)], [f"speaker-{i // 3 % 5}" for i in range(n)]


def items(X: NDArray[Any], first: int = 0, bank: str | None = BANK, **columns: Sequence[Any]) -> list[Item]:
    """One item a row as the broker leases it; `columns` give each its label, group or key."""
    made = []
    for i, row in enumerate(X):
        fields = {"id": 100 + i, "ttl_ms": 1000, "stream": "s", "seq": first + i, "bank": bank}
        fields |= {name: values[i] for name, values in columns.items()}
        made.append(Item({k: v for k, v in fields.items() if v is not None}, (Array.of(row),)))
    return made


def no_beat(_busy_ms: int) -> None:
    """Nobody listens."""


@pytest.fixture
def learner(tmp_path: Path) -> Iterator[Learner]:
    """A learner with nothing learned."""
    made = Learner(tmp_path)
    made.warm()
    yield made
    made.close()


def learn(learner: Learner, n: int = 60, name: str = "digits", *, grouped: bool = True) -> list[Item]:
    """Let it learn n items."""
    X, labels, groups = spoken(n)
    columns: dict[str, Any] = {"label": labels, "group": groups} if grouped else {"label": labels}
    results: list[Item] = learner.handle(f"learn:{name}", items(X, **columns), {}, no_beat)
    return results


def fit(learner: Learner, name: str = "digits", **options: Any) -> Item:
    """Fit and give the one result."""
    results: list[Item] = learner.handle(f"fit:{name}", [Item({"id": 1, "stream": "s", "seq": 0})], options, no_beat)
    return results[0]


def error_of(item: Item) -> tuple[str, str]:
    """Code and reason of a result that failed."""
    assert item.fields["ok"] is False
    return item.fields["error"]["code"], item.fields["error"]["reason"]


def travels(stage: str, results: list[Item]) -> None:
    """The results fit the wire's schema, with plain types only."""
    made = tuple(Item({**item.fields, "id": i, "compute_ms": 1.0}, item.arrays) for i, item in enumerate(results))
    back = decode(encode(Message("RESULT", {"stage": stage}, made)))
    assert [item.fields for item in back.items] == [item.fields for item in made]


def test_learn_fit_classify(learner: Learner) -> None:
    """Acknowledged, fitted with speakers held out, and answered as RLS in process answers, to the bit."""
    X, labels, groups = spoken(60)
    committed = learn(learner)
    assert [item.fields for item in committed] == [
        {"ok": True, "kind": "committed", "stream": "s", "seq": i, "duplicate": False} for i in range(60)
    ]
    done = fit(learner)
    alone = RLS("logo").fit(X, labels, groups)
    assert done.fields == {
        "ok": True,
        "kind": "fit",
        "lam": alone.lam_,
        "n_items": 60,
        "n_classes": 3,
        "accuracy": alone.held_out_.accuracy,
        "criterion": "logo",
    }
    np.testing.assert_array_equal(done.arrays[0].to_numpy(), alone.held_out_.recall.astype(np.float32))
    assert fit(learner, classes=True).fields["classes"] == alone.classes_
    test, truth, _ = spoken(30, seed=1)
    answers = learner.handle("classify:digits", items(test), {"classes": True}, no_beat)
    assert [item.fields["label"] for item in answers] == alone.predict(test)
    assert np.mean([item.fields["label"] == word for item, word in zip(answers, truth, strict=True)]) > 0.9
    for item, scores in zip(answers, alone.decision_function(test), strict=True):
        np.testing.assert_array_equal(item.arrays[0].to_numpy(), scores.astype(np.float32))
        assert item.fields["score"] == scores.max()
        assert item.fields["classes"] == ["oh", "one", "zero"]
    travels("learn:digits", committed)
    travels("fit:digits", [done])
    travels("classify:digits", answers)
    assert "classes" not in learner.handle("classify:digits", items(test[:1]), {}, no_beat)[0].fields


def test_without_groups_rows_are_held_out(learner: Learner) -> None:
    """One item without a speaker, or one speaker alone: leave-one-out."""
    learn(learner, grouped=False)
    assert fit(learner).fields["criterion"] == "loo"
    X, labels, _ = spoken(30)
    learner.handle("learn:one", items(X, label=labels, group=["ann"] * 30), {}, no_beat)
    assert fit(learner, "one").fields["criterion"] == "loo"
    assert error_of(fit(learner, "one", lam="logo"))[0] == "INVALID_ARGUMENT"


def test_fit_options(learner: Learner) -> None:
    """All but classes are those of RLS; others, and impossible values, are named."""
    learn(learner)
    assert fit(learner, lam=0.25, standardise="z-score", unit_norm=True).fields["lam"] == 0.25
    assert fit(learner, lam="loo", per_class=True).fields["criterion"] == "loo"
    more = fit(learner, lam="holdout", grid="gurls", measure="squared-error", balance=True, rank=3)
    assert more.fields["criterion"] == "holdout"
    options: list[dict[str, Any]] = [{"lam": -1.0}, {"lam": "auto"}, {"standardise": "yes"}, {"per_class": 1}]
    options += [{"grid": [1.0] * 101}, {"grid": 3}, {"measure": "auc"}, {"balance": 1}, {"rank": 0}, {"seed": "x"}]
    for bad in [*options, {"lambda": 1.0}]:
        assert error_of(fit(learner, **bad))[0] == "INVALID_ARGUMENT"


def test_nothing_to_hold_out_is_null(learner: Learner) -> None:
    """With one example a class there is no held-out accuracy: null on the wire, criterion "default"."""
    learn(learner, 3)
    done = fit(learner)
    assert (done.fields["accuracy"], done.fields["criterion"]) == (None, "default")
    travels("fit:digits", [done])


def test_what_was_learned_is_there_after_a_restart(tmp_path: Path) -> None:
    """A new learner on the same state classifies with the same model to the bit, and goes on learning."""
    test, _, _ = spoken(10, seed=1)
    first = Learner(tmp_path)
    first.warm()
    learn(first)
    fit(first)
    before = first.handle("classify:digits", items(test), {}, no_beat)
    first.close()
    second = Learner(tmp_path)
    second.warm()
    after = second.handle("classify:digits", items(test), {}, no_beat)
    assert [item.fields for item in after] == [item.fields for item in before]
    assert [bytes(item.arrays[0].data) for item in after] == [bytes(item.arrays[0].data) for item in before]
    assert [item.fields["duplicate"] for item in learn(second, 63)] == [True] * 60 + [False] * 3
    assert fit(second).fields["n_items"] == 63
    second.close()
    assert sorted(path.name for path in (tmp_path / "digits").glob("model-*")) == ["model-0001", "model-0002"]
    assert Model.open(tmp_path / "digits" / "model-0002").rls.n_items_ == 63


def test_one_bad_item_fails_alone(learner: Learner) -> None:
    """Another bank, width, dtype or label type, NaN, no label, no bank, no array: named; the others are committed."""
    X, labels, _ = spoken(9)
    batch = items(X, label=labels)
    wrong: dict[int, tuple[Item, str, str]] = {
        1: (items(X[:1], bank=OTHER, label=["one"])[0], "BANK_MISMATCH", OTHER),
        2: (items(X[:1, :7], label=["one"])[0], "INVALID_ARGUMENT", "20 columns"),
        3: (items(X[:1].astype("<f4"), label=["one"])[0], "INVALID_ARGUMENT", "dtype"),
        4: (items(X[:1], label=[1])[0], "INVALID_ARGUMENT", "all str"),
        5: (items(X[:1])[0], "INVALID_ARGUMENT", "needs a label"),
        6: (items(X[:1], bank=None, label=["one"])[0], "INVALID_ARGUMENT", "hash of its bank"),
        7: (Item({**batch[7].fields}), "INVALID_ARGUMENT", "one feature"),
    }
    for place, (item, _, _) in wrong.items():
        batch[place] = item
    results = learner.handle("learn:digits", batch, {}, no_beat)
    travels("learn:digits", results)
    for place, result in enumerate(results):
        if place in wrong:
            code, reason = error_of(result)
            assert code == wrong[place][1]
            assert wrong[place][2] in reason
        else:
            assert result.fields["kind"] == "committed"
    assert fit(learner).fields["n_items"] == 2

    learn(learner)
    fit(learner)
    batch = items(X)
    batch[3] = items(X[:1], bank=OTHER)[0]
    batch[5] = items(X[:1, :7])[0]
    results = learner.handle("classify:digits", batch, {}, no_beat)
    assert [error_of(results[place])[0] for place in (3, 5)] == ["BANK_MISMATCH", "INVALID_ARGUMENT"]
    assert sum(result.fields["ok"] for result in results) == 7


def test_what_is_missing_is_named(learner: Learner) -> None:
    """No model yet, nothing learned, one class only: what to do is in the message."""
    X, _, _ = spoken(3)
    code, reason = error_of(learner.handle("classify:digits", items(X[:1]), {}, no_beat)[0])
    assert (code, "fit it first" in reason) == ("NOT_FOUND", True)
    assert error_of(fit(learner))[0] == "NOT_FOUND"
    learner.handle("learn:digits", items(X, label=["one"] * 3), {}, no_beat)
    code, reason = error_of(fit(learner))
    assert (code, "two classes" in reason) == ("INVALID_ARGUMENT", True)
    for stage in ("insert:digits", "learn:../up", "learn:"):
        with pytest.raises(InvalidArgument, match=r"a learner serves|a name is"):
            learner.handle(stage, items(X, label=WORDS), {}, no_beat)


def test_a_fit_is_announced(learner: Learner) -> None:
    """Before a fit the handler says how long it may be silent, and that is more than it takes."""
    learn(learner)
    said: list[int] = []
    learner.handle("fit:digits", [Item({"id": 1})], {}, said.append)
    assert said[0] == load_ms(60, 20)  # before a single row is read
    assert said[1] >= 2000
    assert load_ms(20_000, 7000) > 10 * 500  # half a second measured, in memory
    big = Logged(np.empty((3000, 7000), "<u2"), ["x"] * 3000, [f"g{i % 6}" for i in range(3000)], np.arange(3000))
    assert 60_000 < fit_ms(big, 20) < 300_000


def test_one_owner_for_the_state(learner: Learner, tmp_path: Path) -> None:
    """A second learner on the same state is refused before it serves anything."""
    learn(learner)
    with pytest.raises(ConfigError, match="in use by process"):
        Learner(tmp_path).warm()


def test_a_killed_learner_has_all_it_acknowledged() -> None:
    """Real processes: the learner is killed in the middle of a stream and started again; every item is there once."""
    X, labels, groups = spoken(300)
    jobs = [Job(x, label=label, group=group) for x, label, group in zip(X, labels, groups, strict=True)]
    with cluster() as fleet:
        arguments = ("--connect", fleet.back, "--name", "learner", "--state", str(fleet.run_dir / "state"))
        fleet.start_broker()
        fleet.spawn("learner", "streamfeat.workers.learner", *arguments)
        fleet.wait_ready("learner")
        with Client(fleet.front) as client:
            n_acknowledged = 0
            for result in client.stream(jobs, route="learn:digits", bank=BANK):
                assert result.ok, result.error
                n_acknowledged += 1
                if n_acknowledged == 100:
                    fleet.signal("learner", signal.SIGKILL)
                    fleet.wait("learner")
                    fleet.spawn("learner", "streamfeat.workers.learner", *arguments)
            assert n_acknowledged == 300
            done = client.fit("digits")
            assert done["n_items"] == 300
            test, _, _ = spoken(20, seed=1)
            answers = [
                result.label for result in client.stream([Job(x) for x in test], route="classify:digits", bank=BANK)
            ]
        fleet.signal("learner", signal.SIGTERM)
        assert fleet.wait("learner") == 0
        with FeatureLog(fleet.run_dir / "state" / "digits" / "log.sqlite") as log:
            logged = log.load()
    order = np.lexsort(logged.X.T)
    np.testing.assert_array_equal(logged.X[order], X[np.lexsort(X.T)])
    assert answers == RLS("logo").fit(logged.X, logged.labels, logged.groups).predict(test)
