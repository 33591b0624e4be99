"""The units as they are installed: this installation's paths, nothing of an operator's overwritten, clean and tight."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from streamfeat.errors import ConfigError
from streamfeat.units import UNIT_DIR, hidden, install, render
from tests.terminal import EXECUTABLE, Terminal

needs_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze."""
    command = ["systemd-analyze", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@needs_analyze
@pytest.mark.parametrize("keys", [None, "/etc/streamfeat/keys"])
def test_what_is_installed_is_clean_and_tight(cli: Terminal, keys: str | None) -> None:
    """`systemd-analyze verify` has nothing to say, and the exposure of each unit is at most 2.0 of 10."""
    more = [] if keys is None else ["--keys", keys]
    done = cli("units", "install", "--root", cli.home / "root", "--workers", "3", *more, "--json")
    assert done.status == 0, done
    folder = cli.home / "root" / UNIT_DIR
    units = [file for file in folder.iterdir() if file.suffix in (".service", ".target")]
    assert len(units) == 6
    verified = analyze("verify", "--man=no", "--recursive-errors=yes", *units)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    for unit in units:
        if unit.suffix == ".service":
            rated = analyze("security", "--offline=yes", "--threshold=20", "--no-pager", unit)
            assert rated.returncode == 0, rated.stdout[-300:]
            assert EXECUTABLE in unit.read_text()
    assert "features@3.service" in (folder / "streamfeat.target").read_text()


@needs_analyze
def test_the_page_is_there_when_it_is_asked_for(cli: Terminal) -> None:
    """Its unit, in the target, clean and tight, with a key of its own; without --page nothing mentions it."""
    for words, there in (([], False), (["--page"], True), (["--role", "broker", "--page"], True)):
        files = cli("units", "print", *words, "--keys", "/etc/streamfeat/keys", "--json").json["files"]
        assert (f"{UNIT_DIR}/streamfeat-page.service" in files) is there
        assert ("streamfeat-page.service" in files[f"{UNIT_DIR}/streamfeat.target"]) is there
        drop_in = files.get(f"{UNIT_DIR}/streamfeat-page.service.d/keys.conf", "")
        assert ("LoadCredential=page.key:/etc/streamfeat/keys/page.key" in drop_in) is there
    done = cli("units", "install", "--root", cli.home / "paged", "--page")
    assert done.status == 0, done
    unit = cli.home / "paged" / UNIT_DIR / "streamfeat-page.service"
    assert f"ExecStart={EXECUTABLE} page\n" in unit.read_text()
    verified = analyze("verify", "--man=no", "--recursive-errors=yes", *unit.parent.glob("streamfeat*"))
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    rated = analyze("security", "--offline=yes", "--threshold=20", "--no-pager", unit)
    assert rated.returncode == 0, rated.stdout[-300:]


@needs_analyze
@pytest.mark.parametrize("roles", [("features",), ("broker",), ("learner", "index")])
def test_a_host_may_run_a_part(cli: Terminal, roles: tuple[str, ...]) -> None:
    """Units of the other parts are neither written nor waited for, and what is there is clean."""
    words = [word for role in roles for word in ("--role", role)]
    done = cli("units", "install", "--root", cli.home / "part", "--workers", "3", *words, "--keys", "/etc/keys")
    assert done.status == 0, done
    folder = cli.home / "part" / UNIT_DIR
    units = [file for file in folder.iterdir() if file.suffix in (".service", ".target")]
    mentioned = {name for unit in units for name in re.findall(r"streamfeat-(\w+)[@.\d]*service", unit.read_text())}
    own = {"features", "warmup"} if roles == ("features",) else set(roles)
    assert mentioned == {unit.stem.removeprefix("streamfeat-").rstrip("@") for unit in units} - {"streamfeat"} == own
    assert {file.name for file in folder.glob("*.d")} == {f"{u.name}.d" for u in units if "up" not in u.stem} - {
        "streamfeat.target.d"
    }
    verified = analyze("verify", "--man=no", "--recursive-errors=yes", *units)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


def test_workers_of_several_hosts_have_several_names() -> None:
    """A second worker of a name takes over from the first, so a host's name is part of it."""
    keyed = render(command="/usr/bin/streamfeat", keys="/etc/keys", roles=["features"])
    text = keyed[f"{UNIT_DIR}/streamfeat-features@.service.d/keys.conf"]
    assert text.endswith("ExecStart=\nExecStart=/usr/bin/streamfeat worker features --name features-%l-%i\n")
    for roles, said in (([], "none"), (["features", "brokers"], "brokers")):
        with pytest.raises(ConfigError, match=f"learner, index, page, got {said}"):
            render(roles=roles)


def test_settings_that_are_there_are_the_operators(tmp_path: Path) -> None:
    """Units are written anew with each installation; settings are not."""
    files = render(command="/usr/bin/streamfeat")
    written = install(tmp_path, files)
    assert all(new for _, new in written)
    settings = tmp_path / "etc/streamfeat/streamfeat.toml"
    settings.write_text("# mine\n")
    unit = tmp_path / UNIT_DIR / "streamfeat-broker.service"
    unit.write_text("")
    assert [file for file, new in install(tmp_path, files) if not new] == [settings]
    assert settings.read_text() == "# mine\n"
    assert "ExecStart=/usr/bin/streamfeat broker" in unit.read_text()


def test_keys_are_handed_over_as_credentials() -> None:
    """Each unit gets its own key and nobody else's, and no key lies in an environment."""
    plain, keyed = render(), render(keys="/etc/streamfeat/keys/")
    drop_ins = {name: text for name, text in keyed.items() if name not in plain}
    assert {name.split("/")[-2] for name in drop_ins} == {
        *("streamfeat-broker.service.d", "streamfeat-features@.service.d"),
        *("streamfeat-learner.service.d", "streamfeat-index.service.d"),
    }
    for name, text in drop_ins.items():
        own = "broker" if "broker.service" in name else "worker"
        assert f"LoadCredential={own}.key:/etc/streamfeat/keys/{own}.key\n" in text
        assert f"STREAMFEAT_AUTH__KEY=%d/{own}.key\n" in text
        assert text.count(".key:") == 1


@pytest.mark.parametrize("path", ["streamfeat", "/opt/my fleet/streamfeat", "/opt/a;b", "/opt/$x"])
def test_paths_that_a_unit_would_misread_are_refused(path: str) -> None:
    """Before anything is written."""
    with pytest.raises(ConfigError, match="absolute path"):
        render(command=path)
    with pytest.raises(ConfigError, match="absolute path"):
        render(keys=path)


def test_what_the_sandbox_hides_is_told() -> None:
    """A unit with ProtectHome= and PrivateTmp= sees neither homes nor /tmp."""
    assert hidden("/opt/streamfeat/venv/bin/streamfeat") is None
    assert "below /home" in str(hidden("/home/me/.venv/bin/streamfeat"))
    with pytest.raises(ConfigError, match="at least 1"):
        render(n_workers=0)
