"""The units are clean by systemd's own check, and a real systemd brings a fleet up, keeps it and stops it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import click
import pytest

from streamfeat.config import Features, load_settings

ROOT = Path(__file__).resolve().parent.parent
UNITS = ROOT / "systemd"
SYSTEM_PYTHON = Path("/usr/bin/python3")
needs_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")

DEMONSTRATION = r"""
set -eu
systemd-sysusers /etc/systemd/system/streamfeat.sysusers.conf
mkdir -p /etc/streamfeat /var/lib/streamfeat/banks
/usr/bin/python3 -m venv --without-pip /opt/streamfeat/venv
site=$(echo /opt/streamfeat/venv/lib/python3.*/site-packages)
printf '/opt/streamfeat/lib\n/opt/streamfeat/packages\n' >"$site/paths.pth"
command=/opt/streamfeat/venv/bin/streamfeat
printf '#!/opt/streamfeat/venv/bin/python3\nfrom streamfeat.cli import main\nmain()\n' >$command
chmod 755 $command
sed 's/^banks = .*/banks = "tiny"/' /etc/systemd/system/streamfeat.toml >/etc/streamfeat/streamfeat.toml
cp -r /opt/streamfeat/scratch/banks/. /var/lib/streamfeat/banks/
chown -R streamfeat:streamfeat /var/lib/streamfeat
systemctl daemon-reload
systemctl start streamfeat.target
for unit in broker features@1 features@2 learner index; do
  systemctl is-active --quiet "streamfeat-$unit" || {
    echo "NOT ACTIVE: $unit"; journalctl --no-pager -n 60; exit 1; }
done
nobody="setpriv --reuid=nobody --clear-groups"
$nobody --regid=streamfeat /opt/streamfeat/venv/bin/python3 - </opt/streamfeat/scratch/ask.py
if $nobody --regid=nogroup test -x /run/streamfeat; then echo "OPEN TO ALL"; exit 1; fi
systemctl stop streamfeat.target
# the members are stopped because they are PartOf= the target, and `systemctl stop` waits for the target alone
for turn in $(seq 300); do
  [ "$(systemctl show -p ActiveState --value streamfeat-broker)" = inactive ] && break; sleep 0.1
done
for unit in broker features@1 features@2 learner index; do
  state=$(systemctl show -p Result -p NRestarts -p ActiveState "streamfeat-$unit" | sort | xargs)
  [ "$state" = "ActiveState=inactive NRestarts=0 Result=success" ] || {
    echo "$unit: $state"; journalctl --no-pager -n 60; exit 1; }
done
echo ALL-WELL
"""

ASK = """
import numpy as np
from streamfeat.client import Client, Job
from streamfeat.signals import Signal

rng = np.random.default_rng(0)
with Client("ipc:///run/streamfeat/front.sock", connect_timeout_s=10) as client:
    jobs = (Job(Signal("image", rng.integers(0, 256, (28, 28), dtype=np.uint8))) for _ in range(100))
    results = list(client.stream(jobs, bank="tiny"))
assert len(results) == 100 and all(r.error is None for r in results), [r.error for r in results if r.error]
"""

TINY = """
name = "tiny"
group = [{factor = "rotation", law = "grid", low = -20.0, high = 20.0, n = 3}]
front_end = [{stage = "pixels", height = 28, width = 28}]
templates = {source = "gaussian", m = 16}
pooling = {kind = "cdf", thresholds = "sigma", n_bins = 5}
"""


def test_the_example_says_every_setting_and_its_default() -> None:
    """The example file changes the banks, whom the front lets in and where metrics are shown, and leaves none out."""
    example = UNITS / "streamfeat.toml"
    unit = {"RUNTIME_DIRECTORY": "/run/streamfeat", "STATE_DIRECTORY": "/var/lib/streamfeat"}
    usual, told = load_settings(unit), load_settings(unit, file=example)
    group_too = replace(usual.fleet, front_mode="0660")
    shown = replace(usual.broker, metrics="127.0.0.1:9671")
    assert told == replace(usual, features=Features(banks="digits-audio"), fleet=group_too, broker=shown)
    named = {table: set(keys) for table, keys in tomllib.loads(example.read_text()).items()}
    assert named == {table.name: {f.name for f in fields(getattr(usual, table.name))} for table in fields(usual)}


@needs_analyze
@pytest.mark.parametrize("unit", sorted(f.name for f in UNITS.iterdir() if f.suffix in {".service", ".target"}))
def test_units_are_clean(unit: str, tmp_path: Path) -> None:
    """systemd-analyze verify finds nothing, unknown keys included, once the command is where the unit expects it."""
    for other in UNITS.iterdir():
        if other.suffix in {".service", ".target"}:
            staged = other.read_text().replace("/opt/streamfeat/venv/bin/streamfeat", "/bin/true")
            (tmp_path / other.name).write_text(staged)
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=yes", str(tmp_path / unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_analyze
@pytest.mark.parametrize("unit", sorted(f.name for f in UNITS.glob("*.service")))
def test_units_are_hardened(unit: str) -> None:
    """systemd's own exposure figure is at most 2.0 (of 10)."""
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager", str(UNITS / unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-300:]


def why_not() -> str | None:
    """Why no systemd can be booted here with these packages; None when it can."""
    if os.geteuid() != 0:
        return "booting a systemd needs root"
    if not Path("/lib/systemd/systemd").exists() or shutil.which("nsenter") is None:
        return "the Debian packages systemd and util-linux are not installed"
    if not SYSTEM_PYTHON.exists():
        return "the hardened units need Debian's own /usr/bin/python3, and it is not installed"
    ask = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([str(SYSTEM_PYTHON), "-c", ask], capture_output=True, text=True, timeout=30, check=False)
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if done.stdout.strip() != ours:
        return f"/usr/bin/python3 is {done.stdout.strip() or 'without venv'}, the packages here are for {ours}"
    return None


@pytest.mark.timeout(240)
def test_a_real_systemd_runs_the_fleet(tmp_path: Path, wheel: Path) -> None:
    """Target up, 100 items answered to a member of the group, clean stop: no restart, no failed unit."""
    if reason := why_not():
        pytest.skip(reason)
    # a wheel's files, not the checkout: what the units run is what users install
    library = tmp_path / "lib"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(library), str(wheel)]
    subprocess.run(install, check=True, timeout=120)
    assert {p.name for p in library.iterdir() if p.suffix != ".dist-info"} <= {"bin", "streamfeat"}
    (tmp_path / "tiny.toml").write_text(TINY)
    build = [sys.executable, "-m", "streamfeat", "bank", "build", str(tmp_path / "tiny.toml")]
    subprocess.run([*build, "--bank-dir", str(tmp_path / "banks")], check=True, timeout=120)
    (tmp_path / "ask.py").write_text(ASK)
    command = [
        str(ROOT / "tests" / "with-systemd.sh"),
        *("-b", f"{library}:/opt/streamfeat/lib"),
        *("-b", f"{Path(click.__file__).parents[1]}:/opt/streamfeat/packages"),
        *("-b", f"{tmp_path}:/opt/streamfeat/scratch"),
        *("-u", str(UNITS)),
        *("--", "bash", "-c", DEMONSTRATION),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, cwd="/")
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    assert done.stdout.rstrip().endswith("ALL-WELL")
