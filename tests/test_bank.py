"""Banks: built the same twice, saved whole or not at all, and held to their hashes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streamfeat.bank import (
    Bank,
    build_bank,
    compare_features,
    find_bank,
    list_banks,
    materialise,
    open_bank,
    orbits,
    template_vectors,
)
from streamfeat.bankspec import BankSpec
from streamfeat.errors import ConfigError, InvalidArgument, NotFound
from streamfeat.groups import OperatorStack
from streamfeat.kernels import LANES
from streamfeat.projections import items_at_once, projections
from streamfeat.signals.signal import Signal
from tests.test_bankspec import small

ROTATION = {"factor": "rotation", "law": "grid", "low": -20, "high": 20, "n": 3}
SHIFT = {"factor": "translation", "law": "grid", "low": -1, "high": 1, "n": 3}


def pictures(n: int, side: int = 4, seed: int = 0) -> list[Signal]:
    """n pictures of noise."""
    rng = np.random.default_rng(seed)
    return [Signal("image", rng.integers(0, 256, (side, side), np.uint8), name=f"noise {i}") for i in range(n)]


def words(n: int, seed: int = 0) -> list[Signal]:
    """n tones with some noise, a tenth of a second at 8 kHz."""
    rng = np.random.default_rng(seed)
    t = np.arange(800) / 8000
    tones = np.sin(2 * np.pi * rng.uniform(200, 2000, (n, 1)) * t) + 0.01 * rng.standard_normal((n, 800))
    return [Signal("audio", x.astype(np.float32), 8000, f"tone {i}") for i, x in enumerate(tones)]


def bank_of(**changes: Any) -> Bank:
    """The bank of a small spec with a group of 27 elements."""
    return build_bank(BankSpec.from_dict(small(group=[ROTATION, SHIFT], **changes)), pictures(30))


@pytest.fixture(scope="module")
def bank() -> Bank:
    return bank_of()


@pytest.mark.parametrize("source", ["gaussian", "data"])
@pytest.mark.parametrize("thresholds", ["paper", "sigma", "quantile"])
def test_the_same_spec_and_signals_give_the_same_hash(source: str, thresholds: str) -> None:
    """Two builds agree to the bit, sampled laws included; another seed gives another hash."""
    changes = {
        "templates": {"source": source, "m": 8},
        "pooling": {"kind": "cdf", "thresholds": thresholds, "n_bins": 5},
        "group": [{"factor": "rotation", "law": "von-mises", "kappa": 5, "n": 4}],
    }
    one, two = (build_bank(BankSpec.from_dict(small(**changes)), pictures(30)) for _ in range(2))
    assert one.hash == two.hash
    assert one.hash != build_bank(BankSpec.from_dict(small(**changes, seed=1)), pictures(30)).hash


def test_a_spec_with_its_defaults_written_out_is_the_same_bank(bank: Bank) -> None:
    """What the manifest holds builds the same bank again."""
    again = build_bank(bank.spec)
    assert again.hash == bank.hash


def test_orbits_are_templates_moved_and_renormalised(bank: Bank) -> None:
    """The identity comes first, every gt has the norm of t, and projections are those of the definition."""
    T, all_gt = template_vectors(bank.only), orbits(bank.only, range(bank.only.m))
    assert all_gt.shape == (bank.only.m, 27, 16)
    np.testing.assert_array_equal(all_gt[:, 0], T)
    norms = np.linalg.norm(all_gt, axis=2) / np.linalg.norm(T, axis=1)[:, None]
    np.testing.assert_allclose(norms, 1, atol=1e-6)  # float32
    x = np.random.default_rng(1).standard_normal((3, 16)).astype(np.float32)
    (_, P), *rest = projections(bank.only, x)
    assert not rest
    expected = np.einsum("tgd,nd->ngt", all_gt.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(P[:, :, : bank.only.m], expected, atol=16 * 1e-6)  # d sums of float32


def test_a_template_moved_out_of_sight_has_scale_zero() -> None:
    """gt = 0 cannot be renormalised: it projects to 0, not to NaN."""
    spec = small(
        group=[{"factor": "translation", "law": "grid", "low": -9, "high": 9, "n": 2}],
        templates={"source": "user", "m": 1},
    )
    built = build_bank(BankSpec.from_dict(spec), templates=np.eye(16)[:1])
    gt = orbits(built.only, [0])[0]
    assert np.isfinite(gt).all()
    assert (np.linalg.norm(gt, axis=1) > 0).tolist() == [True, False, False, False, False]


def test_without_renormalising_nothing_is_scaled() -> None:
    """renormalise = false keeps gt as the operators give it."""
    built = bank_of(renormalise=False)
    assert "scale" not in built.arrays
    longest = np.linalg.norm(template_vectors(built.only)[0])
    assert (np.linalg.norm(orbits(built.only, [0])[0], axis=1) < longest - 1e-3).any()


def test_the_plain_twin_keeps_the_templates() -> None:
    """|G| = 1 differs by the group alone."""
    spec = BankSpec.from_dict(small(group=[ROTATION], templates={"source": "data", "m": 8}))
    full, plain = build_bank(spec, pictures(30)), build_bank(spec.plain(), pictures(30))
    assert (full.only.n_group, plain.only.n_group) == (3, 1)
    np.testing.assert_array_equal(template_vectors(full.only), template_vectors(plain.only))


def test_thresholds_are_what_they_are_called() -> None:
    """paper: s k / n for k = -n..n; sigma: evenly over +-reach / sqrt(d); one threshold is zero."""
    paper = bank_of(pooling={"kind": "cdf", "thresholds": "paper", "n_bins": 3}).arrays["thresholds"]
    np.testing.assert_array_equal(paper[0, :, 0], (1.5 * np.arange(-3, 4) / 3).astype(np.float32))
    sigma = bank_of(pooling={"kind": "cdf", "thresholds": "sigma", "n_bins": 3, "reach": 2}).arrays["thresholds"]
    np.testing.assert_array_equal(sigma[0, :, 7], np.array([-0.5, 0, 0.5], np.float32))
    single = bank_of(pooling={"kind": "cdf", "thresholds": "sigma", "n_bins": 1}).arrays["thresholds"]
    assert single[0, :, :8].tolist() == [[0.0] * 8]


def test_quantile_thresholds_split_the_training_projections_evenly() -> None:
    """Below threshold k lie k / (n + 1) of the projections of the signals, template by template."""
    built = build_bank(
        BankSpec.from_dict(small(group=[SHIFT], pooling={"kind": "cdf", "thresholds": "quantile", "n_bins": 4})),
        signals := pictures(50),
    )
    from streamfeat.featuremap import FeatureMap

    counts = FeatureMap(built).transform(signals).reshape(50, 8, 4).sum(axis=0) / (50 * 9)
    # linear interpolation between two of 450 projections
    np.testing.assert_allclose(counts, np.broadcast_to(np.arange(1, 5) / 5, (8, 4)), atol=1 / 450)


def test_a_saved_bank_opens_as_it_was(bank: Bank, tmp_path: Path) -> None:
    """Hash, arrays and manifest come back; arrays are mapped, read-only and used without a copy."""
    path = bank.save(tmp_path)
    assert path.name == f"small-{bank.hash[:12]}"
    opened = open_bank(path)
    assert opened.hash == bank.hash
    assert opened.manifest == bank.manifest
    for name, array in opened.arrays.items():
        np.testing.assert_array_equal(array, bank.arrays[name])
        assert not array.flags.writeable
        assert isinstance(array.base, np.memmap)
    assert bank.only.axes == opened.only.axes


def test_saving_twice_changes_nothing(bank: Bank, tmp_path: Path) -> None:
    """A bank that is there stays untouched, and no other file is left behind."""
    path = bank.save(tmp_path)
    before = {f.name: f.stat().st_mtime_ns for f in path.iterdir()}
    assert bank.save(tmp_path) == path
    assert {f.name: f.stat().st_mtime_ns for f in path.iterdir()} == before
    assert [f.name for f in tmp_path.iterdir()] == [path.name]


def test_processes_that_save_the_same_bank_meet_in_one_directory(bank: Bank, tmp_path: Path) -> None:
    """Three processes at once: one whole bank, all content with it, nothing left behind."""
    bank.save(tmp_path / "first")
    code = (
        "import sys; from pathlib import Path; from streamfeat.bank import *; "
        "print(open_bank(next(Path(sys.argv[1]).iterdir())).save(Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "first"), str(tmp_path / "second")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    paths = {process.communicate(timeout=60)[0].strip() for process in running}
    assert paths == {str(tmp_path / "second" / bank.folder)}
    assert [f.name for f in (tmp_path / "second").iterdir()] == [bank.folder]
    assert open_bank(tmp_path / "second" / bank.folder).hash == bank.hash


def cut(path: Path) -> None:
    file = path / "templates.npy"
    file.write_bytes(file.read_bytes()[:-100])


def flip(path: Path) -> None:
    file = path / "templates.npy"
    data = bytearray(file.read_bytes())
    data[-8] ^= 1
    file.write_bytes(data)


def lose(path: Path) -> None:
    (path / "thresholds.npy").unlink()


def rename_array(path: Path) -> None:
    (path / "thresholds.npy").rename(path / "limits.npy")


def empty(path: Path) -> None:
    (path / "scale.npy").write_bytes(b"")


def swap(path: Path) -> None:
    np.save(path / "scale.npy", np.zeros((1, 27, LANES)))


def edit(path: Path) -> None:
    file = path / "manifest.json"
    file.write_text(file.read_text().replace('"seed": 0', '"seed": 1'))


def break_manifest(path: Path) -> None:
    (path / "manifest.json").write_text("{")


def lose_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def other_format(path: Path) -> None:
    file = path / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": "streamfeat-bank-9"}))


def lose_key(path: Path) -> None:
    file = path / "manifest.json"
    manifest = json.loads(file.read_text())
    del manifest["axes"]
    file.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (cut, r"templates\.npy is cut"),
        (flip, r"templates\.npy is not what was saved"),
        (lose, r"thresholds\.npy is missing"),
        (rename_array, r"thresholds\.npy is missing"),
        (empty, r"scale\.npy is cut"),
        (swap, r"scale\.npy should hold <f4 .* it holds <f8"),
        (edit, "edited"),
        (break_manifest, r"manifest\.json cannot be read"),
        (lose_manifest, r"no bank at .*bank list"),
        (other_format, "streamfeat-bank-9"),
        (lose_key, "'axes'"),
    ],
)
def test_a_harmed_bank_is_refused_by_the_name_of_the_file(
    bank: Bank, tmp_path: Path, harm: Callable[[Path], None], message: str
) -> None:
    """Each kind of harm is told with the file and the way out."""
    path = bank.save(tmp_path)
    harm(path)
    with pytest.raises(ConfigError, match=message):
        open_bank(path)


def test_no_byte_of_a_bank_changes_unseen(bank: Bank, tmp_path: Path) -> None:
    """Flipped or cut anywhere: refused and kept, or, in what no number is read from, the same bank to the bit."""
    path, rng, n_same = bank.save(tmp_path), np.random.default_rng(0), 0
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        for at in rng.integers(0, len(whole), 30):
            for changed in (whole[:at] + bytes([whole[at] ^ int(rng.integers(1, 256))]) + whole[at + 1 :], whole[:at]):
                file.write_bytes(changed)
                try:
                    opened = open_bank(path)
                except ConfigError as error:
                    reason = str(error)
                    assert file.name in reason
                else:
                    assert changed[at:], "cut, and not noticed"
                    assert opened.manifest == bank.manifest
                    assert all(np.array_equal(opened.arrays[name], array) for name, array in bank.arrays.items())
                    n_same += 1
                assert file.read_bytes() == changed
        file.write_bytes(whole)
    assert n_same < 30, "spaces of a manifest and of the heads of arrays"


def test_a_renamed_directory_is_refused(bank: Bank, tmp_path: Path) -> None:
    """The directory's name is the hash; another name is told with the right one."""
    path = bank.save(tmp_path)
    with pytest.raises(ConfigError, match=bank.folder):
        open_bank(path.rename(tmp_path / "small-000000000000"))


def test_an_unverified_bank_opens_in_milliseconds(tmp_path: Path) -> None:
    """Without verification opening does not read the arrays: 30 MB in less than 50 ms (3 ms measured)."""
    spec = small(templates={"source": "gaussian", "m": 256}, front_end=[{"stage": "pixels", "height": 64, "width": 64}])
    path = build_bank(BankSpec.from_dict({**spec, "group": [SHIFT], "form": "dense"})).save(tmp_path)
    open_bank(path, verify=False)
    started = time.perf_counter()
    open_bank(path, verify=False)
    assert time.perf_counter() - started < 0.05


def test_banks_are_found_by_name_and_by_hash(bank: Bank, tmp_path: Path) -> None:
    """The newest of a name; any start of a hash; what is missing lists what is there."""
    assert list_banks(tmp_path / "nowhere") == []
    first, second = bank.save(tmp_path), bank_of(seed=1).save(tmp_path)
    assert list_banks(tmp_path) == sorted([first, second])
    assert find_bank(tmp_path, "small") == second
    assert find_bank(tmp_path, bank.hash) == find_bank(tmp_path, bank.hash[:7]) == first
    assert find_bank(tmp_path, first.name) == first
    assert find_bank(tmp_path / "elsewhere", str(first)) == first
    with pytest.raises(NotFound, match=f"(?s)'other'.*{first.name}"):
        find_bank(tmp_path, "other")


def test_materialising_keeps_every_gt(bank: Bank) -> None:
    """The dense form holds what the operators form stands for, under a hash of its own."""
    dense = materialise(bank)
    assert (dense.only.form, dense.n_features, dense.only.n_group) == ("dense", bank.n_features, bank.only.n_group)
    assert dense.hash != bank.hash
    np.testing.assert_array_equal(orbits(dense.only, range(bank.only.m)), orbits(bank.only, range(bank.only.m)))
    np.testing.assert_array_equal(template_vectors(dense.only), template_vectors(bank.only))
    assert materialise(dense) is dense
    assert bank_of(form="dense").hash == dense.hash


def test_counts_of_both_forms_differ_only_at_thresholds() -> None:
    """A count may differ where the float64 projection lies within rounding of its threshold, and nowhere else."""
    from streamfeat.featuremap import FeatureMap

    spec = small(
        front_end=[{"stage": "pixels", "height": 16, "width": 16}],
        templates={"source": "gaussian", "m": 70},
        group=[ROTATION, SHIFT],
        pooling={"kind": "cdf", "thresholds": "quantile", "n_bins": 9},
    )
    signals = pictures(40, side=16)
    built = build_bank(BankSpec.from_dict(spec), signals)
    dense = materialise(built)
    of_operators, of_dense = (FeatureMap(b).transform(signals).astype(int) for b in (built, dense))
    vectors = np.stack([FeatureMap(built).front_end(s) for s in signals]).astype(np.float64)
    exact = np.einsum("tgd,nd->ntg", orbits(dense.only, range(70)).astype(np.float64), vectors)
    tau = dense.arrays["thresholds"].transpose(0, 2, 1).reshape(-1, 9)[:70].astype(np.float64)
    # d = 256 products and sums of float32 on either side, |x| = 1, |t| < 1.3
    rounding = 256 * np.finfo(np.float32).eps
    near = (np.abs(exact[:, :, :, None] - tau[None, :, None, :]) < rounding).sum(axis=2)
    differ = np.abs(of_operators - of_dense).reshape(40, 70, 9)
    assert (differ <= near).all()
    assert near.sum() < 0.05 * differ.size  # so the line above says something


def user_stack(matrices: NDArray[Any]) -> OperatorStack:
    """The adjoints of full matrices (n, d, d) as a stack."""
    n, d, _ = matrices.shape
    adjoint = matrices.transpose(0, 2, 1)
    ends = np.cumsum((adjoint != 0).sum(axis=2).ravel()).reshape(n, d)
    indptr = np.concatenate([np.append(0, ends[:-1, -1])[:, None], ends], axis=1).astype(np.int32)
    rows = np.nonzero(adjoint)
    return OperatorStack(
        indptr, rows[2].astype(np.int32), adjoint[rows].astype(np.float32), np.arange(n, dtype=float)[:, None], ("i",)
    )


def test_a_users_group_is_taken_as_it_is() -> None:
    """Operator stacks of one's own act like any other factor."""
    swap_halves = np.roll(np.eye(16), 8, axis=0)
    spec = BankSpec.from_dict(small(group=[{"factor": "user"}, SHIFT]))
    built = build_bank(spec, operators=[user_stack(np.stack([np.eye(16), swap_halves]))])
    assert built.only.n_group == 18
    np.testing.assert_array_equal(orbits(built.only, [3])[0, 9], template_vectors(built.only)[3] @ swap_halves.T)
    with pytest.raises(ConfigError, match="1 group factors called 'user'"):
        build_bank(spec)


WAVEFORM = {
    "name": "voice",
    "front_end": [{"stage": "resample", "rate_hz": 8000}, {"stage": "fixed_length", "n": 800}],
    "templates": {"source": "data", "m": 3},
    "group": [
        {"factor": "waveform_tempo", "law": "log-grid", "low": 0.5, "high": 2, "n": 3},
        {"factor": "waveform_pitch", "law": "grid", "low": -200, "high": 200, "n": 2},
    ],
    "pooling": {"kind": "cdf", "thresholds": "quantile", "n_bins": 5},
    "form": "dense",
}


def test_waveform_factors_move_recordings_before_the_front_end() -> None:
    """A dense bank holds front_end(g t), the identity first, with the templates of its plain twin."""
    spec = BankSpec.from_dict(WAVEFORM)
    built = build_bank(spec, words(6))
    gt = orbits(built.only, range(3))
    assert gt.shape == (3, 9, 800)
    np.testing.assert_allclose(np.linalg.norm(gt, axis=2), 1, atol=1e-6)
    np.testing.assert_array_equal(gt[:, 0], template_vectors(build_bank(spec.plain(), words(6)).only))
    assert built.hash == build_bank(spec, words(6)).hash
    tempo, pitch = (built.arrays[f"factor{j}_parameters"] for j in (0, 1))
    assert (tempo.shape, pitch.shape) == ((3, 1), (3, 1))


@pytest.mark.parametrize(
    ("changes", "given", "message"),
    [
        ({"templates": {"source": "data", "m": 8}}, {}, "give some"),
        ({"templates": {"source": "data", "m": 8}}, {"signals": []}, "at least 8 signals"),
        ({"templates": {"source": "user", "m": 8}}, {}, "array of templates"),
        ({}, {"templates": np.zeros((8, 16))}, "array of templates"),
        ({"pooling": {"kind": "cdf", "thresholds": "quantile", "n_bins": 3}}, {"signals": []}, "not blank"),
        ({"front_end": [{"stage": "mel"}]}, {}, "'mel'"),
        ({"group": [{"factor": "twirl"}]}, {}, "'twirl'"),
        ({"group": [{**SHIFT, "n": 17}, {**SHIFT, "n": 17}]}, {}, "83521.*65535"),
        (
            {"templates": {"source": "fourier", "m": 8}, "pooling": {"kind": "fourier", "sigma": 1e-5}},
            {},
            "larger pooling.sigma",
        ),
    ],
)
def test_what_cannot_be_built_is_refused(changes: dict[str, Any], given: dict[str, Any], message: str) -> None:
    """What is missing, unknown or too much is told."""
    with pytest.raises(ConfigError, match=message):
        build_bank(BankSpec.from_dict(small(**changes)), **given)


def test_a_signal_of_the_wrong_kind_is_named() -> None:
    """Building from recordings with a bank for pictures names the recording."""
    with pytest.raises(InvalidArgument, match="tone 0"):
        build_bank(BankSpec.from_dict(small(templates={"source": "data", "m": 1})), words(1))


def test_progress_reaches_the_end() -> None:
    """The callback hears of every template, in rising order."""
    heard: list[tuple[int, int]] = []
    spec = BankSpec.from_dict(small(group=[SHIFT], form="dense"))
    build_bank(spec, progress=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (8, 8)


def test_many_items_share_a_pass_when_the_group_is_small(bank: Bank) -> None:
    """A bank without a group takes 32 items at once, one with 27 elements takes one, its dense form 32 again."""
    plain = build_bank(bank.spec.plain())
    assert [items_at_once(b.only) for b in (plain, bank, materialise(bank))] == [32, 1, 32]


def test_a_harmed_bank_comes_back_as_its_message_says(bank: Bank, tmp_path: Path) -> None:
    """Removed first, then built again; saving alone repairs nothing, nor does it take a directory for a bank."""
    path = bank.save(tmp_path)
    flip(path)
    bank.save(tmp_path)
    with pytest.raises(ConfigError, match="remove it, then"):
        open_bank(path)
    lose_manifest(path)
    with pytest.raises(OSError, match="not empty"):
        bank.save(tmp_path)
    shutil.rmtree(path)
    assert open_bank(bank.save(tmp_path)).hash == bank.hash


def test_forms_are_compared_number_by_number(bank: Bank) -> None:
    """A bank and itself, its dense form, and one with other templates: nothing, next to nothing, nearly everything."""
    same = compare_features(bank, bank, 5, np.random.default_rng(1))
    assert (same.compared, same.differing, same.largest_difference) == (5 * bank.n_features, 0, 0.0)
    dense = compare_features(bank, materialise(bank), 5, np.random.default_rng(1))
    assert dense.differing < 0.01 * dense.compared
    assert dense.largest_difference <= 1  # a projection within rounding of a threshold
    other = compare_features(bank, bank_of(seed=5), 5, np.random.default_rng(1))
    assert other.differing > 0.2 * other.compared
    assert other.largest_difference > 1
