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
from tests.test_security import free_port

ROOT = Path(__file__).resolve().parent.parent
UNITS = ROOT / "systemd"
SYSTEM_PYTHON = Path("/usr/bin/python3")
needs_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")

PREPARATION = r"""
set -eu
/usr/bin/python3 -m venv --without-pip /opt/streamfeat/venv
site=$(echo /opt/streamfeat/venv/lib/python3.*/site-packages)
printf '/opt/streamfeat/lib\n/opt/streamfeat/packages\n' >"$site/paths.pth"
command=/opt/streamfeat/venv/bin/streamfeat
printf '#!/opt/streamfeat/venv/bin/python3\nfrom streamfeat.cli import main\nmain()\n' >$command
chmod 755 $command
$command units install --page >/dev/null
systemd-sysusers streamfeat.conf
sed -i 's/^banks = .*/banks = "tiny"/; s/127.0.0.1:9671/127.0.0.1:@METRICS@/' /etc/streamfeat/streamfeat.toml
mkdir -p /etc/systemd/system/streamfeat-page.service.d
printf '[Service]\nExecStart=\nExecStart=%s page --listen 127.0.0.1:@PAGE@\n' $command \
  >/etc/systemd/system/streamfeat-page.service.d/port.conf
mkdir -p /var/lib/streamfeat/banks
cp -r /opt/streamfeat/scratch/banks/. /var/lib/streamfeat/banks/
chown -R streamfeat:streamfeat /var/lib/streamfeat
systemctl daemon-reload
systemctl start streamfeat.target
python="setpriv --reuid=nobody --clear-groups --regid=streamfeat /opt/streamfeat/venv/bin/python3"
members="broker features@1 features@2 learner index page"
fail() { journalctl --no-pager -n 60; echo "FAILED: $*"; exit 1; }
until_true() { for turn in $(seq 300); do eval "$1" && return; sleep 0.1; done; fail "$1"; }
show() { systemctl show -p "$1" --value "streamfeat-$2"; }
stop_all() {
  systemctl stop streamfeat.target
  # the members are stopped because they are PartOf= the target, and `systemctl stop` waits for the target alone
  for unit in $members; do
    until_true '[ "$(show ActiveState '$unit')" = inactive ]'
    [ "$(show Result $unit) $(show ExecMainStatus $unit)" = "success 0" ] || fail "$unit: $(show Result $unit)"
  done
}
for unit in $members; do systemctl is-active --quiet "streamfeat-$unit" || fail "not active: $unit"; done
"""

TRIALS = (
    PREPARATION
    + r"""
# up, used by a member of the group, closed to others
$python /opt/streamfeat/scratch/ask.py hundred
setpriv --reuid=nobody --clear-groups --regid=nogroup test -x /run/streamfeat && fail "open to all"
for unit in $members; do [ "$(show NRestarts $unit)" = 0 ] || fail "$unit was restarted"; done

# the page shows this fleet to this host
$python /opt/streamfeat/scratch/look.py @PAGE@ features-1 features-2 learner index || fail "no page"

# killed under load: restarted, and nothing lost
mkdir -m 1777 /run/trial
$python /opt/streamfeat/scratch/ask.py until-file /run/trial/enough >/run/asked 2>&1 & asking=$!
until_true 'grep -q begun /run/asked'
for round in 1 2; do
  systemctl kill --signal=KILL streamfeat-features@1
  until_true "[ \$(show NRestarts features@1) = $round ]"
  until_true 'systemctl is-active --quiet streamfeat-features@1'
done
touch /run/trial/enough; wait $asking || fail "$(cat /run/asked)"

# the sandbox: each writes to its own and to nothing else
may() { nsenter -t "$(show MainPID $1)" -m -- setpriv --reuid=streamfeat --regid=streamfeat --clear-groups \
  touch "$2/trial" 2>/run/may; }
may features@2 /var/cache/streamfeat || fail "features@2 cannot write its cache: $(cat /run/may)"
may learner /var/lib/streamfeat/learner || fail "the learner cannot write its state"
for place in /etc /opt/streamfeat /run/streamfeat /var/lib/streamfeat/banks /var/lib/streamfeat/index
do may features@2 $place && fail "features@2 writes to $place"; done
for place in /var/lib/streamfeat /var/lib/streamfeat/banks /var/lib/streamfeat/index /run/streamfeat
do may learner $place && fail "the learner writes to $place"; done
for place in /etc /opt/streamfeat /run/streamfeat /var/lib/streamfeat /var/lib/streamfeat/learner
do may page $place && fail "the page writes to $place"; done

# a newer bank is taken up without a restart
before=$($python /opt/streamfeat/scratch/ask.py one)
cp -r /opt/streamfeat/scratch/newer/. /var/lib/streamfeat/banks/
systemctl reload streamfeat-features@1 streamfeat-features@2
until_true '[ "$($python /opt/streamfeat/scratch/ask.py one)" != "$before" ]'
[ "$(show NRestarts features@2)" = 0 ] || fail "a reload restarted features@2"

# stuck: the watchdog ends it, and its stack is in the journal
folder=/run/systemd/system/streamfeat-features@9.service.d; mkdir -p $folder
stuck="/opt/streamfeat/scratch/handlers.py --connect ipc:///run/streamfeat/back.sock --name stuck"
stuck="/opt/streamfeat/venv/bin/python3 $stuck"
printf '[Service]\nWatchdogSec=2\nExecStart=\nExecStart=%s\n' "$stuck" >$folder/stuck.conf
systemctl daemon-reload; systemctl start streamfeat-features@9
$python /opt/streamfeat/scratch/ask.py one-stuck >/dev/null 2>&1 & asking=$!
until_true '[ "$(show NRestarts features@9)" -ge 1 ]'
journalctl --sync; journalctl -u streamfeat-features@9 --no-pager -o cat >/run/stuck
grep -q 'Watchdog timeout' /run/stuck || fail "no watchdog"
grep -q 'handlers.py", line [0-9]* in handle' /run/stuck || fail "no stack"
journalctl -u streamfeat-broker --no-pager -o cat | grep -q '^{"level": "info", "process": "broker"' || fail "no JSON"
kill $asking 2>/dev/null || true; systemctl stop streamfeat-features@9

# stopped under load: what was accepted is finished, and everybody ends with 0
$python /opt/streamfeat/scratch/ask.py until-draining >/run/asked 2>&1 & asking=$!
sleep 2; stop_all
wait $asking || fail "$(cat /run/asked)"
cat /run/asked
echo ALL-WELL
"""
)

ASK = """
import itertools
import sys
from pathlib import Path

import numpy as np
from streamfeat.client import Client, Job
from streamfeat.errors import DeadlineExceeded, Unavailable
from streamfeat.signals import Signal

how, *rest = sys.argv[1:]
n_most = {"one": 1, "one-stuck": 1, "hundred": 100}.get(how, sys.maxsize)
pixels = np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8)


def jobs():
    for n in itertools.islice(itertools.count(), n_most):
        if how == "until-file" and Path(rest[0]).exists():
            return
        yield Job(Signal("image", pixels), name="sleep:60" if how == "one-stuck" else f"n{n}")


timeout_s = 5 if how == "until-draining" else 60
with Client("ipc:///run/streamfeat/front.sock", connect_timeout_s=20, timeout_s=timeout_s) as client:
    first = None
    for n, result in enumerate(client.stream(jobs(), bank="echo" if how == "one-stuck" else "tiny")):
        if how == "until-draining" and result.error is not None:  # told so, whether refused or out of time
            assert isinstance(result.error, Unavailable | DeadlineExceeded), result.error
            print(n, "answered before the end")
            break
        assert result.error is None, result.error
        first = result.feature if first is None else first
        assert np.array_equal(result.feature, first)
        if n == 0 and n_most > 1:
            print("begun", flush=True)
if how == "one":
    print(result.fields["bank"])
"""

LOOK = """
import sys
import time
import urllib.request

deadline = time.monotonic() + 20
while True:
    with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/api/state", timeout=5) as answer:
        shown = answer.read().decode()
    if all(name in shown for name in sys.argv[2:]):
        break
    assert time.monotonic() < deadline, shown[-2000:]
    time.sleep(0.2)
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


@pytest.mark.timeout(400)
def test_a_real_systemd_runs_and_keeps_the_fleet(tmp_path: Path, wheel: Path) -> None:
    """Up, killed under load, the sandbox, a reload, a stuck worker's stack, stopped under load: nothing lost."""
    if reason := why_not():
        pytest.skip(reason)
    # a wheel's files, not the checkout: what the units run is what users install
    library = tmp_path / "lib"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(library), str(wheel)]
    subprocess.run(install, check=True, timeout=120)
    assert {p.name for p in library.iterdir() if p.suffix != ".dist-info"} <= {"bin", "streamfeat"}
    for folder, seed in (("banks", 1), ("newer", 2)):
        (tmp_path / "tiny.toml").write_text(f"seed = {seed}\n{TINY}")
        build = [sys.executable, "-m", "streamfeat", "bank", "build", str(tmp_path / "tiny.toml")]
        subprocess.run([*build, "--bank-dir", str(tmp_path / folder)], check=True, timeout=120)
    (tmp_path / "ask.py").write_text(ASK)
    (tmp_path / "look.py").write_text(LOOK)
    shutil.copy(ROOT / "tests" / "handlers.py", tmp_path)
    tmp_path.chmod(0o755)  # other users run these
    page, metrics = str(free_port()), str(free_port())  # others may have a fleet on this host
    command = [
        str(ROOT / "tests" / "with-systemd.sh"),
        *("-b", f"{library}:/opt/streamfeat/lib"),
        *("-b", f"{Path(click.__file__).parents[1]}:/opt/streamfeat/packages"),
        *("-b", f"{tmp_path}:/opt/streamfeat/scratch"),
        *("--", "bash", "-c", TRIALS.replace("@PAGE@", page).replace("@METRICS@", metrics)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=360, check=False, cwd="/")
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    assert done.stdout.rstrip().endswith("ALL-WELL")
