"""The command line as a whole: one line for an error, JSON alone on standard output, exit statuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import numpy as np
import pytest

from streamfeat.cli import COMMANDS
from streamfeat.cli import cli as root
from streamfeat.deadletters import DeadLetters
from tests.files import png, wav16
from tests.protocol_data import IMAGE_SPEC, picture_data
from tests.terminal import EXECUTABLE, Terminal
from tests.test_deadletters import letter_of


def commands() -> dict[str, click.Command]:
    """Every command by its words, groups taken apart."""
    found: dict[str, click.Command] = {}
    context = click.Context(root)
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": command.commands[inner] for inner in command.commands}
        else:
            found[name] = command
    return found


NO_RESULT = {"broker", "completion", "page", "serve", "worker"}
"""They run until they are stopped; one prints a script."""

SHOWN_ELSEWHERE = {
    *("bench dask", "bench fleet", "bench kernels", "bench peers", "bench templates", "bench verify"),
    *("check", "demo", "featurize", "fit", "keygen", "listen", "quickstart", "reproduce"),
}
"""Too long to run twice, refused the second time, or an object a line: test_readme.py, test_reproduce.py,
test_cli_keygen.py, test_cli_check.py, test_cli_bench.py, test_cli_demo.py, test_cli_listen.py,
test_bench_cluster.py, test_bench_fleet.py, test_bench_pairs.py, test_bench_peers.py,
test_featurize.py, test_cli_fit.py."""

QUICK = {
    "admin": ["admin", "reload", "--run-dir", "RUN"],
    "bank build": ["bank", "build", "digits-audio"],
    "bank list": ["bank", "list"],
    "bank materialize": ["bank", "materialize", "TINY"],
    "bank show": ["bank", "show", "digits-image", "--png", "HOME/sheet.png"],
    "bank teach": ["bank", "teach", "TINY", "--by", "random", "--numbers", "3", "--from", "HOME/grey.png"],
    "bank verify": ["bank", "verify"],
    "corpus list": ["corpus", "list", "CORPUS"],
    "corpus synth": ["corpus", "synth", "HOME/made", "--train-speakers", "1", "--test-speakers", "1"],
    "deadletter list": ["deadletter", "list"],
    "deadletter show": ["deadletter", "show", "LETTER"],
    "deadletter drop": ["deadletter", "drop", "--all"],
    "deadletter retry": ["deadletter", "retry", "--all", "--connect", "FRONT"],
    "doctor": ["doctor"],
    "evaluate": ["evaluate", "--preset", "HOME/small.toml", "--protocol", "mnist", "--train-data", "HOME/data"],
    "push": ["push", "HOME/grey.png", "--connect", "FRONT"],
    "recall": ["recall", "HOME/rows.npz", "--factory", "Flat", "--queries", "1", "--k", "1"],
    "status": ["status", "--connect", "FRONT"],
    "stream": ["stream", "CORPUS", "--connect", "FRONT"],
    "units install": ["units", "install", "--root", "HOME/root"],
    "units print": ["units", "print"],
    "verify": ["verify", "HOME/rows.npz", "--far", "0.1"],
    "warmup": ["warmup"],
}


@pytest.fixture
def words(cli: Terminal, served: Terminal, corpus: Path) -> dict[str, list[str]]:
    """QUICK with its places filled in."""
    (cli.home / "grey.png").write_bytes(png(np.arange(784, dtype=np.uint8).reshape(28, 28)))
    spec = cli.home / "tiny.toml"
    spec.write_text(TINY)
    picture_data(cli.home / "data")
    np.savez(cli.home / "rows.npz", features=np.eye(4), labels=np.array([1, 1, 2, 2]))
    (cli.home / "small.toml").write_text(IMAGE_SPEC)
    built = cli("bank", "build", spec)
    assert built.status == 0, built
    letter = DeadLetters(cli.home / "state" / "deadletters").put(letter_of(), 0.0)
    places = {
        "RUN": str(served.run_dir),
        "LETTER": letter,
        "HOME": str(cli.home),
        "CORPUS": str(corpus),
        "FRONT": served.front,
        "TINY": "tiny",
    }

    def filled(word: str) -> str:
        for place, value in places.items():
            word = word.replace(place, value)
        return word

    return {name: [filled(word) for word in given] for name, given in QUICK.items()}


TINY = """
name = "tiny"
[[front_end]]
stage = "pixels"
height = 12
width = 12
[templates]
source = "gaussian"
m = 8
[[group]]
factor = "translation"
law = "grid"
low = -1
high = 1
n = 3
[pooling]
kind = "cdf"
thresholds = "sigma"
n_bins = 5
"""


def test_every_command_gives_json_and_nothing_else(cli: Terminal, words: dict[str, list[str]]) -> None:
    """--json: standard output parses whole. --json FILE: the same keys in the file, text on standard output."""
    known = commands()
    assert set(QUICK) == set(known) - NO_RESULT - SHOWN_ELSEWHERE
    assert all(any("--json" in option.opts for option in known[name].params) for name in set(known) - NO_RESULT)
    for name, given in words.items():
        alone = cli(*given, "--json")
        assert alone.status == 0, (name, alone)
        file = cli.home / "report.json"
        beside = cli(*given, "--json", file)
        assert beside.status == 0, (name, beside)
        assert set(json.loads(file.read_text())) == set(alone.json), name
        assert beside.out, (name, beside)
        assert not list(cli.home.glob(".report*"))


def test_help_is_there_and_costs_no_numpy(cli: Terminal) -> None:
    """`streamfeat --help` imports no NumPy; each command explains every option that it has."""
    code = "import sys; from streamfeat.cli import run; run(['--help']); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines()[-1] == "False"
    for name, command in commands().items():
        assert cli(*name.split(), "--help").status == 0
        assert command.help, name
    assert cli("--version").out.startswith("streamfeat, version")
    assert cli().status == 64
    assert "Commands:" in cli().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["stroem"], "No such command 'stroem'; did you mean stream?"),
        (["bank", "bild"], "No such command 'bild'"),
        (["stream"], "Missing argument 'PATH'"),
        (["stream", "x", "--speed", "3"], "No such option '--speed'"),
        (["stream", "x", "--workers", "0"], "0 is not in the range"),
        (["stream", "x", "--learn", "a", "--classify", "a"], "one route at a time, got --learn and --classify"),
        (["push", "x", "--search", "a", "--out", "x.npz"], "--out saves features, --search keeps them"),
        (["stream", "x", "--learn", "a", "--train-takes", "0-4"], "--train-takes needs the features"),
        (["stream", "x", "--learn", "a", "--leave-one-speaker-out"], "--leave-one-speaker-out needs the features"),
        (["stream", "x", "--train-takes", "nine"], "takes are a number or a range such as 0-9, got 'nine'"),
        (["stream", "x", "--test-takes", "9-0"], "takes are a number or a range such as 0-9, got '9-0'"),
        (["stream", "x", "--train-takes", "0-9", "--test-takes", "9"], "share takes"),
        (["stream", "x", "--out", "/nowhere/features.npz"], "/nowhere/features.npz"),
        (["stream", "x", "--json", "/nowhere/report.json"], "/nowhere/report.json"),
        (["bank", "show", "digits-audio", "--png", "/nowhere/a.png"], "/nowhere/a.png"),
        (["stream", "/nowhere"], "/nowhere: no such file or folder"),
        (["push", "/nowhere"], "/nowhere: no such file or folder"),
        (["bank", "build", "digits-vidio"], "no preset 'digits-vidio'; there are colour, digits-audio"),
        (["bank", "build", "digit-audio"], "did you mean digits-audio?"),
        (["bank", "show", "zzz"], "no bank 'zzz'"),
        (["serve"], "Missing option '--bank'"),
        (["serve", "--bank", "zzz"], "no bank 'zzz'"),
        (["worker"], "Missing argument"),
        (["worker", "features"], "a features worker needs --bank NAME"),
        (["worker", "learner", "--bank", "digits-audio"], "--bank is for features workers"),
        (["worker", "painter"], "'painter' is none of"),
        (["worker", "learner", "--factory", "Flat"], "--factory is for index workers, not for learner"),
    ],
)
def test_wrong_usage_is_one_line_and_64(cli: Terminal, given: list[str], said: str) -> None:
    """The line says what came; nothing is on standard output."""
    cli(*given).refused(64, said)


def test_nobody_there_is_69(cli: Terminal, corpus: Path) -> None:
    """status, stream and push say where nobody answers, and how to start somebody."""
    cli("status").refused(69, f"{cli.front}: there is no such socket")
    picture = cli.home / "picture.png"
    picture.write_bytes(png(np.zeros((9, 9), np.uint8)))
    cli("stream", corpus, "--connect", cli.front).refused(69, "`streamfeat serve`")
    cli("push", picture, "--connect", cli.front).refused(69, "`streamfeat serve`")


def test_wrong_configuration_is_78(cli: Terminal, tmp_path: Path) -> None:
    """A setting that is not known, a settings file that is not there, a spec that is none, an endpoint for others."""
    file = tmp_path / "settings.toml"
    file.write_text("[broker]\nheartbeet_ms = 3\n")
    cli("status", "--config", file).refused(78, "did you mean heartbeat_ms")
    cli("status", "--config", tmp_path / "none.toml").refused(78, "none.toml")
    file.write_text("name = 3\n")
    cli("bank", "build", file).refused(78, "bank spec")
    cli("bank", "build", tmp_path / "none.toml").refused(78, "none.toml")
    cli("status", "--connect", "tcp://192.0.2.1:5555").refused(78, "192.0.2.1")


def test_a_missing_extra_is_named(cli: Terminal) -> None:
    """Without espeak-ng: exit status 78 and the command that installs it."""
    code = (
        "import importlib.util, sys; real = importlib.util.find_spec;"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'espeakng_loader' else real(name, *rest);"
        f"from streamfeat.cli import main; main(['corpus', 'synth', {str(cli.home / 'new')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert done.returncode == 78
    assert done.stderr == "streamfeat: synthesised speech needs espeak-ng: pip install streamfeat[synth]\n"


def test_a_folder_that_cannot_be_written_is_named(cli: Terminal) -> None:
    """A file where the banks' folder should be: one line with its path, not a bug report."""
    (cli.home / "file").write_text("")
    spec = cli.home / "tiny.toml"
    spec.write_text(TINY)
    cli("bank", "build", spec, "--bank-dir", cli.home / "file").refused(78, str(cli.home / "file"))


def test_a_working_directory_that_was_deleted_is_no_bug(cli: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name cannot be told: nobody knows it any more."""
    (cli.home / "gone").mkdir()
    monkeypatch.chdir(cli.home / "gone")
    (cli.home / "gone").rmdir()
    cli("quickstart").refused(78, "the working directory: No such file or directory; mend it or choose another")


def test_a_full_disk_behind_standard_output_is_no_bug(cli: Terminal) -> None:
    """One line that says what is the matter, and 78."""
    with Path("/dev/full").open("wb") as full:
        command = [EXECUTABLE, "completion", "bash"]
        done = subprocess.run(command, env=cli.environ, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 78
    assert done.stderr == "streamfeat: No space left on device; mend it or choose another\n"


def test_json_never_writes_over_something_else(cli: Terminal) -> None:
    """`push --json A B` would mean A as the report: refused, A stays as it is."""
    for name in ("a.png", "b.png"):
        (cli.home / name).write_bytes(png(np.zeros((9, 9), np.uint8)))
    before = (cli.home / "a.png").read_bytes()
    cli("push", "--json", cli.home / "a.png", cli.home / "b.png").refused(64, "a.png is there and holds no JSON")
    assert (cli.home / "a.png").read_bytes() == before


def test_json_goes_into_a_device_or_pipe_and_never_in_its_place(cli: Terminal) -> None:
    """--json of a pipe is written into it; --out of a device is refused, for a file would take its place."""
    pipe = cli.home / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert cli("bank", "list", "--json", pipe).status == 0
        assert "banks" in json.loads(os.read(reader, 1 << 16))
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    (cli.home / "null").symlink_to("/dev/null")
    assert cli("bank", "list", "--json", cli.home / "null").status == 0
    assert (cli.home / "null").is_char_device()
    cli("push", "x.png", "--out", cli.home / "null").refused(64, "a device or pipe")


@pytest.mark.parametrize("name", ["", "a/../../b", "Digits", "x" * 65])
def test_names_that_no_model_can_have_are_refused_at_once(cli: Terminal, name: str) -> None:
    """Before a fleet is started and each item fails."""
    cli("stream", "x", "--learn", name).refused(64, "--learn needs a name of 1 to 64")


def test_the_executable_and_the_module_are_the_same_command(cli: Terminal) -> None:
    """Real processes: statuses, streams, and a reader that goes away."""
    assert "digits-audio" in {bank["name"] for bank in cli.execute("bank", "list", "--json").json["banks"]}
    cli.execute("stroem").refused(64, "No such command 'stroem'")
    module = subprocess.run([sys.executable, "-m", "streamfeat", "--version"], capture_output=True, check=True)
    assert module.stdout.startswith(b"streamfeat, version")
    piped = f"set -o pipefail; {EXECUTABLE} bank list --json | true"
    gone = subprocess.run(["/bin/bash", "-c", piped], env=cli.environ, capture_output=True, check=False)
    assert gone.returncode in (0, 1)
    assert gone.stderr == b""


def test_a_command_told_to_stop_takes_its_fleet_with_it(cli: Terminal) -> None:
    """SIGTERM of `stream` in the middle: 143, and the run directory of its own fleet is gone."""
    folder = cli.home / "many" / "a"
    folder.mkdir(parents=True)
    tone = np.round(8000 * np.sin(np.arange(40_000) * 0.3)).astype(np.int16)
    for n in range(2000):
        (folder / f"{n}.wav").write_bytes(wav16(tone))
    temporary = cli.home / "tmp"
    temporary.mkdir()
    command = [EXECUTABLE, "stream", str(folder.parent)]
    process = subprocess.Popen(
        command, env={**cli.environ, "TMPDIR": str(temporary)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not list(temporary.glob("streamfeat-*/front.sock")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)  # asks again
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    assert not list(temporary.iterdir())
