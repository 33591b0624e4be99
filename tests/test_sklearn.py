"""streamfeat.sklearn: scikit-learn's own contract, and the answers of our own learners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars
import pytest
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamfeat
from streamfeat import KNN, RLS, BankSpec, FeatureMap, KernelRegressor, KernelRLS, Signal
from streamfeat import RLSRegressor as Regressor
from streamfeat.baselines import BASELINES, fit_baseline
from streamfeat.errors import InvalidArgument
from streamfeat.learn import orbitkernel, orbitsvm, whitening
from streamfeat.sklearn import (
    MMIF,
    InvariantFeatures,
    KernelRLSClassifier,
    KernelRLSRegressor,
    KNNClassifier,
    OrbitKernel,
    OrbitSVM,
    RLSClassifier,
    RLSRegressor,
    WithinOrbitWhitening,
)

FRONT: dict[str, dict[str, Any]] = {
    "array": {"stage": "array"},
    "image": {"stage": "pixels", "height": 10, "width": 10},
    "audio": {"stage": "resample", "rate_hz": 8000},
}


def spec(kind: str, **stage: Any) -> BankSpec:
    """A small bank without need of data: of vectors, of pictures turned by 90 degrees, or of recordings."""
    front = [{**FRONT[kind], **stage}]
    return BankSpec.from_dict(
        {
            "name": f"small-{kind}",
            "front_end": front + ([{"stage": "fixed_length", "n": 400}] if kind == "audio" else []),
            "templates": {"source": "gaussian", "m": 6},
            "group": [{"factor": "rotation", "law": "grid", "low": -90, "high": 180, "n": 4}] * (kind == "image"),
            "pooling": {"kind": "cdf", "thresholds": "sigma", "n_bins": 4},
        }
    )


EXPECTED = {
    "RLSClassifier loo": {
        "check_sample_weight_equivalence_on_dense_data": "a weighted row is held out whole, of copies one at a time"
    },
    "RLSClassifier default": {"check_fit_score_takes_y": "fit keeps no sums: partial_fit goes on from partial_fit"},
    "InvariantFeatures nystrom": {"check_fit2d_1sample": "as many landmarks as templates take as many rows"},
    "KNNClassifier 3": {"check_classifiers_train": "of equal votes the nearer wins, which shares do not show"},
}
for name in ("RLSRegressor", "KernelRLSClassifier", "KernelRLSRegressor"):
    EXPECTED[f"{name} loo"] = EXPECTED["RLSClassifier loo"]
EXPECTED["RLSRegressor default"] = EXPECTED["RLSClassifier default"]
"""What of the contract does not fit, and why."""


def expected_failures(estimator: Any) -> dict[str, str]:
    """Those of an estimator with its main parameter."""
    name, parameters = type(estimator).__name__, estimator.get_params()
    return EXPECTED.get(f"{name} {parameters.get('lam', parameters.get('k', parameters.get('baseline')))}", {})


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        RLSClassifier(),
        RLSClassifier("default"),
        RLSRegressor(),
        RLSRegressor("default"),
        KNNClassifier(),
        KNNClassifier(3),
        KernelRLSClassifier(sigma=1.0),
        KernelRLSClassifier(0.1, kernel="linear"),
        KernelRLSRegressor(sigma=[0.3, 3.0]),
        OrbitSVM(C=1.0),
        OrbitSVM("rbf"),
        OrbitKernel(),
        OrbitKernel("cdf", kernel="rbf", sigma=1.0),
        MMIF(5),
        WithinOrbitWhitening(),
        MMIF(5, pooling="mean", kernel="rbf", sigma=1.0),
        InvariantFeatures(spec("array")),
        InvariantFeatures(spec("array"), baseline="rff", sigma=1.0),
        InvariantFeatures(spec("array"), baseline="nystrom", sigma=1.0),
        InvariantFeatures(spec("array"), baseline="gicdf"),
        InvariantFeatures(spec("array"), baseline="raw"),
    ],
    expected_failed_checks=expected_failures,
)
def test_the_contract_of_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    """Every check of its own suite, but those in EXPECTED."""
    check(estimator)


def pictures(n: int = 40) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    """Bars and blobs, with noise, and what they are called."""
    rng = np.random.default_rng(n)
    X = 0.3 * rng.uniform(size=(n, 10, 10)).astype(np.float32)
    X[::2, 2:8, 4:6] += 1.0
    X[1::2, 3:7, 3:7] += 1.0
    return X, np.array(["bar", "blob"] * (n // 2))


def test_features_are_those_of_the_feature_map() -> None:
    """Pictures as an array, as Signals, as a list, in any number of threads: Phi of the same bank, to the bit."""
    X, _ = pictures(150)
    signals = [Signal("image", x) for x in X]
    fmap = FeatureMap.fit(spec("image"))
    expected = fmap.dense(fmap.transform(signals))
    for given, n_jobs in ((X, None), (signals, 3), (list(X), -1)):
        transformer = InvariantFeatures(spec("image"), n_jobs).fit(given)
        found = transformer.transform(given)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected)
        assert transformer.feature_map_.bank_hash == fmap.bank_hash
    names = transformer.get_feature_names_out()
    assert (len(names), names[0]) == (expected.shape[1], "invariantfeatures0")


@pytest.mark.parametrize("baseline", sorted(BASELINES))
def test_baselines_are_our_own(baseline: str) -> None:
    """Each by its name, as a parameter that a search can set; the same numbers, to the bit."""
    X = np.eye(4, dtype=np.float32)[np.random.default_rng(0).integers(0, 4, (20, 5))]
    fitted = clone(InvariantFeatures(spec("array"))).set_params(baseline=baseline).fit(X)
    signals = [Signal("array", x) for x in X]
    own = fit_baseline(baseline, spec("array", rows=5, columns=4), signals)
    np.testing.assert_array_equal(fitted.transform(X), own.dense(own.transform(signals)))
    assert len(fitted.get_feature_names_out()) == own.n_features


def test_a_bank_is_built_from_unlabelled_signals_of_fit() -> None:
    """A preset whose templates are data takes them from X; colours are seen as such."""
    X = np.random.default_rng(0).uniform(size=(40, 32, 32, 3)).astype(np.float32)
    one, other = (InvariantFeatures("colour").fit(x).feature_map_.bank_hash for x in (X, X[::-1] ** 2))
    assert one != other


def test_recordings_are_arrays_at_a_rate_or_signals() -> None:
    """Both give the same features; without a rate arrays are refused, and so are pictures."""
    X = np.random.default_rng(0).standard_normal((5, 500)).astype(np.float32)
    at_rate = InvariantFeatures(spec("audio"), rate_hz=8000).fit(X)
    signals = [Signal("audio", x, 8000) for x in X]
    np.testing.assert_array_equal(
        at_rate.transform(X), InvariantFeatures(spec("audio")).fit(signals).transform(signals)
    )
    rateless = "do not say their rate.*rate_hz=8000"
    for given, said in ((X, rateless), (X[None], "recordings, \\(N, samples\\)"), ([], "got none")):
        with pytest.raises(InvalidArgument, match=said):
            InvariantFeatures(spec("audio")).fit(given)


def test_another_width_is_refused_with_both_numbers() -> None:
    """By features and learners, fitted or streamed."""
    X, y = np.random.default_rng(0).standard_normal((20, 4)), [0, 1] * 10
    learners = (
        RLSClassifier(),
        RLSRegressor(),
        KernelRLSClassifier(),
        KernelRLSRegressor(),
        KNNClassifier(),
        OrbitSVM(),
    )
    for estimator in (
        *learners,
        InvariantFeatures(spec("array")),
        OrbitKernel(),
        MMIF(2, n_classes=None, n_positive=1),
    ):
        fitted = estimator.fit(X, y)
        with pytest.raises(ValueError, match=r"(?s)3.*4"):
            (fitted.transform if hasattr(fitted, "transform") else fitted.predict)(X[:, :3])
    with pytest.raises(ValueError, match=r"(?s)\(7,\).*\(4,\)|\(4,\).*\(7,\)"):
        InvariantFeatures(spec("array", rows=4)).fit(np.ones((5, 7)))


def test_predictions_are_those_of_our_own_learners() -> None:
    """Labels of any kind, float32 rows as they are: the same scores, to the bit."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 5)).astype(np.float32)
    y = np.array([0.0, 2.0, -1.0])[rng.integers(0, 3, 60)]
    words = [str(label) for label in y]
    own, ours = RLS().fit(X, words), RLSClassifier().fit(X, y)
    assert ours.classes_.tolist() == sorted(set(y.tolist()))
    assert [str(label) for label in ours.predict(X)] == own.predict(X)
    order = [own.classes_.index(str(label)) for label in ours.classes_]
    np.testing.assert_allclose(ours.decision_function(X), own.decision_function(X)[:, order], rtol=1e-12)
    np.testing.assert_array_equal(RLSRegressor().fit(X, y).predict(X), Regressor().fit(X, y).predict(X))
    np.testing.assert_array_equal(KernelRLSRegressor().fit(X, y).predict(X), KernelRegressor().fit(X, y).predict(X))
    for theirs, learner in ((KNNClassifier(3), KNN(3)), (KernelRLSClassifier(), KernelRLS())):
        assert [str(label) for label in theirs.fit(X, y).predict(X)] == learner.fit(X, words).predict(X)


@pytest.mark.parametrize("estimator", [RLSClassifier(0.1), KNNClassifier(), RLSRegressor(0.1)])
def test_parts_give_what_the_whole_gives(estimator: Any) -> None:
    """partial_fit, with a class that comes late: the answers of one fit."""
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((60, 5)), np.repeat([5, 9, 1], 20)
    whole, streamed = clone(estimator).fit(X, y), clone(estimator)
    for part in (slice(0, 40), slice(40, 60)):
        streamed.partial_fit(X[part], y[part])
    np.testing.assert_allclose(streamed.predict(X), whole.predict(X), rtol=1e-9)
    if isinstance(estimator, RLSClassifier):
        np.testing.assert_allclose(streamed.decision_function(X), whole.decision_function(X), atol=1e-10)
    if not isinstance(estimator, RLSRegressor):
        assert streamed.classes_.tolist() == [1, 5, 9]
        with pytest.raises(InvalidArgument, match="not among the classes"):
            streamed.partial_fit(X[:1], [7], classes=[1, 5, 9])


def test_a_lambda_that_holds_rows_out_has_no_partial_fit() -> None:
    """As scikit-learn asks: the method is not there; the reason is behind its error."""
    assert hasattr(RLSClassifier("default"), "partial_fit")
    assert not hasattr(RLSClassifier("loo"), "partial_fit")


def test_pipelines_searches_and_frames() -> None:
    """Cloned and searched; a quarter turn changes no answer; tables whose columns have names."""
    X, y = pictures()
    pipeline = make_pipeline(InvariantFeatures(spec("image")), RLSClassifier())
    search = GridSearchCV(pipeline, {"rlsclassifier__lam": ["loo", 1e-3]}, cv=2).fit(X, y)
    assert search.best_score_ == 1.0
    assert search.predict(np.rot90(X, axes=(1, 2))).tolist() == y.tolist()
    assert cross_val_score(clone(pipeline), X, y, groups=np.arange(40) // 10, cv=LeaveOneGroupOut()).tolist() == [1] * 4
    table = clone(pipeline[0]).set_output(transform="polars").fit(X).transform(X)
    assert isinstance(table, polars.DataFrame)
    assert table.columns[0] == "invariantfeatures0"


def test_groups_are_routed_as_metadata() -> None:
    """A cross-validation over speakers hands them to the splitter and to the lambda that leaves each speaker out."""
    X, y = pictures()
    groups = np.arange(40) // 8
    with sklearn.config_context(enable_metadata_routing=True):
        learner = RLSClassifier("logo").set_fit_request(groups=True)
        pipeline = make_pipeline(InvariantFeatures(spec("image")), learner)
        scores = cross_val_score(pipeline, X, y, params={"groups": groups}, cv=LeaveOneGroupOut())
        fitted = pipeline.fit(X, y, groups=groups)
    assert scores.tolist() == [1.0] * 5
    assert fitted[-1].rls_.held_out_.criterion == "logo"
    with pytest.raises(InvalidArgument, match="groups"):
        RLSClassifier("logo").fit(X.reshape(40, -1), y)


def test_gram_matrices_are_divided_by_rows_and_columns() -> None:
    """A search over kernel="precomputed" has the scores of the same kernel on rows."""
    X, y = pictures()
    rows = X.reshape(40, -1)
    on_rows = cross_val_score(KernelRLSClassifier(kernel="linear"), rows, y, cv=4)
    on_gram = cross_val_score(KernelRLSClassifier(kernel="precomputed"), rows @ rows.T, y, cv=4)
    assert on_rows.tolist() == on_gram.tolist() == [1.0] * 4


def test_an_svm_is_told_orbits_as_groups() -> None:
    """Routed beside the splitter, which leaves whole orbits out; the answers of our own, which no shift changes."""
    rng = np.random.default_rng(0)
    patterns = np.array([[1.0, 1.0, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]])
    things = patterns[np.arange(8) % 2] + 0.1 * rng.standard_normal((8, 6))
    X = np.array([np.roll(x, s) for x in things for s in range(6)])
    y, groups = np.repeat(["pair", "apart"] * 4, 6), np.repeat(np.arange(8), 6)
    with sklearn.config_context(enable_metadata_routing=True):
        svm = OrbitSVM("rbf", 1.0, C=10.0).set_fit_request(groups=True)
        scores = cross_val_score(make_pipeline(svm), X, y, params={"groups": groups}, cv=GroupKFold(4))
    assert scores.tolist() == [1.0] * 4
    own = orbitsvm.OrbitSVM("rbf", 1.0, C=10.0).fit(X, y, groups)
    ours = OrbitSVM("rbf", 1.0, C=10.0).fit(X, y, groups)
    np.testing.assert_array_equal(ours.decision_function(X), own.decision_function(X))
    assert ours.predict(X).tolist() == own.predict(X) == y.tolist()
    with pytest.raises(InvalidArgument, match="3 classes"):
        svm.fit(X, groups % 3)


def shifted(n: int = 12, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    """n things of eight numbers under every cyclic shift, with noise, and what they are called."""
    rng = np.random.default_rng(seed)
    rows = np.array([np.roll(x, s) for x in rng.standard_normal((n, 8)) for s in range(8)])
    names = np.repeat([f"thing {i}" for i in range(n)], 8)
    return (rows + 0.05 * rng.standard_normal(rows.shape)).astype(np.float32), names


def test_mmif_is_our_own() -> None:
    """float32 stays float32; the same numbers, with all things both or a part of them templates."""
    X, names = shifted()
    own = streamfeat.MMIF(8, seed=3).fit(X, names)
    found = MMIF(8, seed=3).fit(X, names).transform(X)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, own.transform(X).astype(np.float32))
    assert MMIF(8).fit(X.astype(float), names).transform(X.astype(float)).dtype == np.float64
    divided = MMIF(8, template_part=0.5).fit(X, names)
    assert divided.mmif_.orbit_kernel is not None
    assert divided.mmif_.orbit_kernel.n_features == 6
    assert divided.get_feature_names_out().tolist() == [f"mmif{i}" for i in range(8)]
    for part in (0.0, 1.0):
        with pytest.raises(InvalidArgument, match="template_part must leave a thing"):
            MMIF(8, template_part=part).fit(X, names)


def test_kernel_features_against_orbits_are_our_own() -> None:
    """float32 stays float32; shifts of a row change nothing; set to polars."""
    X, names = shifted()
    whole = np.array([np.roll(x, s) for x in X[::8] for s in range(8)])
    fitted = clone(OrbitKernel("cdf")).set_output(transform="polars").fit(whole, names)
    own = orbitkernel.OrbitKernel("cdf").fit(whole, names.tolist()).transform(whole)
    table = fitted.transform(whole)
    assert isinstance(table, polars.DataFrame)
    assert table.columns[:2] == ["orbitkernel0", "orbitkernel1"]
    np.testing.assert_array_equal(table.to_numpy(), own.astype(np.float32))
    np.testing.assert_array_equal(fitted.transform(whole[::8]).to_numpy(), fitted.transform(whole[3::8]).to_numpy())


def test_whitening_is_our_own() -> None:
    """float32 stays float32, names of any kind, as many columns as directions were kept."""
    X, names = shifted()
    own = whitening.WithinOrbitWhitening(3).fit(X, names.tolist()).transform(X)
    fitted = WithinOrbitWhitening(3).fit(X, names)
    np.testing.assert_array_equal(fitted.transform(X), own.astype(np.float32))
    assert fitted.get_feature_names_out().tolist() == [f"withinorbitwhitening{i}" for i in range(3)]


def test_mmif_in_pipelines_and_frames() -> None:
    """Cloned, searched, set to polars; things never seen are known from one row each by cosine."""
    X, names = shifted()
    pipeline = make_pipeline(MMIF(20), KNNClassifier(metric="cosine"))
    search = GridSearchCV(pipeline, {"mmif__pooling": ["max", "none"]}, cv=2)
    # two takes of each thing, so that each fold is taught by whole orbits
    search.fit(np.concatenate([X, shifted()[0] * 1.1]), np.concatenate([names, names]))
    assert search.cv_results_["mean_test_score"].min() > 0.9
    table = clone(pipeline[0]).set_output(transform="polars").fit(X, names).transform(X)
    assert isinstance(table, polars.DataFrame)
    fitted = MMIF(20).fit(X, names)
    new, told = shifted(6, seed=1)
    known = KNNClassifier(metric="cosine").fit(fitted.transform(new[::8]), told[::8])
    assert known.score(fitted.transform(new), told) > 0.9
