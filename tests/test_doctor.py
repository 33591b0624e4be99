"""The doctor: well on a good machine, and each fault found with its remedy; nothing is changed by looking."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

from streamfeat.config import load_settings
from streamfeat.doctor import Check, _clock, examine
from streamfeat.featurelog import Entry, FeatureLog
from streamfeat.keys import save_key
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
    assert ran.out.count("FAIL") == (3 if length == 90 else 4)


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


def test_a_socket_and_who_may_use_it(tmp_path: Path) -> None:
    """Open to all: told with chmod. Something else at its place: named. One of this user: its mode is shown."""
    folder = Path(tempfile.mkdtemp(prefix="sf-"))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "front.sock"))
        (folder / "front.sock").chmod(0o666)
        (folder / "back.sock").write_text("")
        found = checks(run_dir=folder, state_dir=tmp_path)
        assert not found["front endpoint"].ok
        assert "mode 0666: it lets in everybody" in found["front endpoint"].found
        assert f"chmod o= {folder / 'front.sock'}" in found["front endpoint"].remedy
        assert "is there and no socket" in found["back endpoint"].found
        assert found["admin endpoint"] == Check("admin endpoint", True, f"ipc://{folder}/admin.sock")
        (folder / "front.sock").chmod(0o660)
        assert checks(run_dir=folder, state_dir=tmp_path)["front endpoint"].found.endswith(", mode 0660")
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="being another user needs root")
def test_a_socket_of_others(tmp_path: Path) -> None:
    """A front that this user may not connect to, with the group to join; the doors of operators are no fault."""
    folder = Path(tempfile.mkdtemp(prefix="sf-"))
    folder.chmod(0o755)
    for name in ("front.sock", "admin.sock"):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / name))
            (folder / name).chmod(0o600)  # this user's group is still root's
    os.seteuid(65534)
    try:
        found = checks(run_dir=folder, state_dir=tmp_path)
    finally:
        os.seteuid(0)
    assert not found["front endpoint"].ok
    assert "usermod -aG root NAME" in found["front endpoint"].remedy
    assert 'front_mode = "0660"' in found["front endpoint"].remedy
    assert found["admin endpoint"].ok
    shutil.rmtree(folder)


def test_keys(tmp_path: Path) -> None:
    """None where TCP needs them, one that all may read, one that is no key, a folder with one that cannot be read."""

    def keys(front: str = "", **auth: str) -> Check:
        given = {"fleet": {"front": front or f"ipc://{tmp_path}/front.sock"}, "auth": auth}
        return next(c for c in examine(load_settings({}, arguments=given), {}) if c.name == "keys")

    assert keys().ok
    bare = keys("tcp://127.0.0.1:5555")
    assert not bare.ok
    assert "front over TCP" in bare.found
    assert "keygen" in bare.remedy
    assert keys("tcp://127.0.0.1:5555", insecure="true").ok
    key, public = save_key(tmp_path / "keys", "laptop", ("encode",))
    assert keys("tcp://127.0.0.1:5555", key=str(key), server=str(public)).ok
    assert keys(authorised=str(tmp_path / "keys")).ok
    key.chmod(0o644)
    assert "its mode is 0644" in keys(key=str(key)).found
    assert "no secret half" in keys(key=str(public)).found
    (tmp_path / "keys" / "other.pub").write_text("nothing")
    assert "shut out" in keys(authorised=str(tmp_path / "keys")).remedy
    assert not keys(authorised=str(tmp_path / "none")).ok


def test_ports(tmp_path: Path) -> None:
    """Free, in use by others, of another machine, and no address at all; the page goes elsewhere by itself."""
    with socket.socket() as taken, socket.socket() as free:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free.bind(("127.0.0.1", 0))
        busy, left = (f"127.0.0.1:{each.getsockname()[1]}" for each in (taken, free))
        free.close()
        fleet = {"back": f"tcp://{left}", "admin": "tcp://192.0.2.1:5557", "front": f"ipc://{tmp_path}/none.sock"}
        settings = load_settings({}, arguments={"fleet": fleet, "broker": {"metrics": busy}})
        found = {check.name: check for check in examine(settings, {}, page=busy)}
    assert found["back port"] == Check("back port", True, f"{left} is free")
    assert found["admin port"].found.endswith("another machine's")
    assert not found["metrics port"].ok
    assert f"ss -ltnp sport = :{busy.rpartition(':')[2]}" in found["metrics port"].remedy
    assert found["page port"].ok
    settings = load_settings({}, arguments={"fleet": fleet, "broker": {"metrics": "127.0.0.1:nine"}})
    assert not {check.name: check for check in examine(settings, {})}["metrics port"].ok


def test_a_clock_that_is_behind(tmp_path: Path) -> None:
    """An hour before the package was written: numba would not see that a kernel was changed."""
    (tmp_path / "a.py").write_text("")
    written = (tmp_path / "a.py").stat().st_mtime
    assert _clock(tmp_path, written + 1).ok
    behind = _clock(tmp_path, written - 3600)
    assert not behind.ok
    assert "timedatectl" in behind.remedy


def test_few_processes() -> None:
    """A limit that a fleet would meet: told with what raises it. In a process of its own, for it is not taken back."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (50, 50))\n"
        "from streamfeat.doctor import _tasks\n"
        "print(_tasks())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert "ok=False" in done.stdout
    assert "ulimit -u" in done.stdout
