"""The doctor: well on a good machine, and each fault found with its remedy; nothing is changed by looking."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

from streamfeat.config import load_settings
from streamfeat.doctor import Check, examine
from streamfeat.featurelog import Entry, FeatureLog
from streamfeat.learn.rls import RLS
from streamfeat.model import Model, save_version
from tests.terminal import Terminal


def checks(**directories: Path) -> dict[str, Check]:
    """Every check by name, up to the broker's, for which it waits."""
    given = {name: str(path) for name, path in directories.items()}
    found = examine(load_settings({}, arguments={"fleet": given}), {})
    return {check.name: check for check in takewhile(lambda check: check.name != "broker", found)}


def test_a_good_machine_is_well(served: Terminal) -> None:
    """Exit 0, a fleet that runs is seen, the banks are verified."""
    report = served("doctor", "--json")
    assert report.status == 0
    assert report.json["ok"]
    found = {check["name"]: check["found"] for check in report.json["checks"]}
    assert "4 workers" in found["broker"]
    assert "digits-audio-" in found["banks"]
    shown = served("doctor")
    assert shown.status == 0
    assert "FAIL" not in shown.out
    assert "ok   libzmq" in shown.out


def test_looking_changes_nothing(cli: Terminal) -> None:
    """Directories that are not there are not made."""
    assert cli("doctor", "--state-dir", cli.home / "a" / "b", "--run-dir", cli.run_dir / "c").status == 0
    assert not (cli.home / "a").exists()
    assert not (cli.run_dir / "c").exists()


@pytest.mark.parametrize("length", [90, 300])
def test_a_run_directory_too_long_for_sockets(cli: Terminal, length: int) -> None:
    """78; both lengths are named, also where no file system takes the name."""
    run_dir = cli.run_dir / ("d" * length)
    ran = cli("doctor", "--run-dir", run_dir)
    assert ran.status == 78
    assert (
        f"FAIL front endpoint: ipc path of {len(f'{run_dir}/front.sock')} bytes, but a unix socket takes at most 107"
        in ran.out
    )
    assert ran.out.count("FAIL") == (2 if length == 90 else 3)


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    """Said of run, state and bank directory, with what is in the way."""
    (tmp_path / "file").write_text("")
    found = checks(run_dir=tmp_path / "file", state_dir=tmp_path / "file" / "below", bank_dir=tmp_path)
    assert not found["run_dir"].ok
    assert not found["state_dir"].ok
    assert f"{tmp_path / 'file'} cannot be written to, or is no folder" in found["state_dir"].remedy
    assert found["bank_dir"].ok


def test_a_bank_that_was_changed(tmp_path: Path, audio_bank: Path) -> None:
    """Named, with the remedy; no bank at all is no fault."""
    assert checks(bank_dir=tmp_path)["banks"].found == f"none in {tmp_path}"
    copy = tmp_path / audio_bank.name
    copy.mkdir()
    for file in audio_bank.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert checks(bank_dir=tmp_path)["banks"].ok
    changed = copy / "s0_templates.npy"
    changed.write_bytes(changed.read_bytes()[:-8] + b"\1" * 8)
    check = checks(bank_dir=tmp_path)["banks"]
    assert not check.ok
    assert "s0_templates.npy" in check.found
    assert f"remove {copy}" in check.remedy


def test_what_was_acknowledged_and_saved(tmp_path: Path) -> None:
    """Logs that are whole are counted, those in use left alone; a damaged log or model is named with its ways out."""
    assert checks(state_dir=tmp_path)["learner"].found == f"0 logs in {tmp_path / 'learner'}, 0 entries in the others"
    X = np.eye(4, dtype="<u2")
    path = tmp_path / "learner" / "digits" / "log.sqlite"
    with FeatureLog(path) as log:
        log.append([Entry("s", i, x, "ab"[i % 2]) for i, x in enumerate(X)], "a" * 64)
        assert "1 logs" in checks(state_dir=tmp_path)["learner"].found
        assert "1 in use, 0 entries" in checks(state_dir=tmp_path)["learner"].found
    save_version(Model(RLS(0.1).fit(X, ["a", "b", "a", "b"]), "a" * 64), path.parent)
    found = checks(state_dir=tmp_path)
    assert found["learner"].ok
    assert found["learner"].found.endswith("4 entries in the others")
    for damaged, name in ((path, "learner"), (next(path.parent.glob("model-*/coef.npy")), "learner")):
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        check = checks(state_dir=tmp_path)[name]
        assert not check.ok
        assert str(damaged) in check.found
        assert "copy" in check.found
        assert "systemctl restart" in check.remedy
        damaged.write_bytes(whole)
    assert checks(state_dir=tmp_path)["index"].ok


@pytest.mark.parametrize(
    ("environ", "ok"),
    [
        ({"NUMBA_CACHE_DIR": "HERE/cache"}, True),
        ({"NUMBA_CACHE_DIR": "HERE/file/cache"}, False),
        ({"HOME": "/nowhere"}, True),  # beside the kernels
    ],
)
def test_where_numba_keeps_what_it_compiled(tmp_path: Path, environ: dict[str, str], ok: bool) -> None:
    """The folder named, or the one beside the kernels, or the user's; a folder named that cannot be made is a fault."""
    (tmp_path / "file").write_text("")
    environ = {name: value.replace("HERE", str(tmp_path)) for name, value in environ.items()}
    [check] = [c for c in examine(load_settings({}), environ) if c.name == "numba cache"]
    assert check.ok is ok
    assert ("NUMBA_CACHE_DIR" in check.remedy) is not ok


def test_a_failed_check_has_a_remedy(tmp_path: Path) -> None:
    """Whatever fails says what to do."""
    (tmp_path / "file").write_text("")
    bad = checks(run_dir=tmp_path / "file" / ("x" * 120), state_dir=tmp_path / "file", bank_dir=tmp_path / "file" / "b")
    assert sum(not check.ok for check in bad.values()) >= 5
    assert all(check.remedy for check in bad.values() if not check.ok)
