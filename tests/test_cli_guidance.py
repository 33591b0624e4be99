"""What the command line says to whoever asks or errs: examples that can be typed, and the nearest known name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from streamfeat.cli import cli as root
from streamfeat.cli.guidance import Commands, OneOf, examples
from streamfeat.config import load_settings
from tests.terminal import Terminal

ROOT = Path(__file__).parent.parent
FOLDERS = ("pictures", "tidigits", "data", "keys")
FILES = ("mnist.npz", "features.npz", "rows.npy", "labels.npy")
"""What examples take for granted."""

WIDEST = 80
"""Characters of an example: a line of help that a terminal of 80 does not break."""


def walk(command: click.Command, name: str = "streamfeat") -> Iterator[tuple[str, click.Command]]:
    """Every command and group with the words that lead to it."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from walk(found, f"{name} {inner}")


def typed(epilog: str) -> list[str]:
    """The commands of an epilog, as a shell would run them."""
    text = re.sub(r"\\\n +", "", epilog)
    return [line.strip() for line in text.splitlines() if "streamfeat" in line and not line.strip().startswith("#")]


def parse(words: list[str]) -> str:
    """Parse a command line as click does, run nothing; the words that lead to its command."""
    command: click.Command = root
    context = command.make_context("streamfeat", list(words))
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)
    return context.command_path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where the examples' files are."""
    for name in FOLDERS:
        (tmp_path / name).mkdir()
    for name in FILES:
        (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("here")
def test_every_command_has_examples_that_it_would_take() -> None:
    """Each is parsed by the command that it names; one of a command's examples, at least, is that command's own."""
    for name, command in walk(root):
        lines = typed(command.epilog or "")
        assert lines, f"{name} --help has no examples"
        paths = []
        for line in lines:
            said = re.search(r"streamfeat [^|)]*", line)
            assert said is not None, line
            paths.append(parse(shlex.split(said[0])[1:]))
        assert all(path.startswith("streamfeat ") for path in paths)
        assert any(path.startswith(name) for path in paths), f"{name} shows {paths}"


def test_examples_are_shown_line_by_line(cli: Terminal) -> None:
    """`--help` breaks and joins none of them."""
    for name, command in walk(root):
        shown = cli(*name.split()[1:], "--help").out.splitlines()
        at = shown.index("  Examples:")
        assert [line.strip() for line in shown[at + 1 :]] == [
            line.strip() for line in (command.epilog or "").splitlines()[2:]
        ]
        assert max(map(len, shown[at:])) <= WIDEST, name


@pytest.mark.usefixtures("here")
def test_the_fleet_s_guide_would_be_taken(tmp_path: Path) -> None:
    """systemd/README.md: its commands parse, its units exist, and its settings load."""
    guide = (ROOT / "systemd" / "README.md").read_text()
    lines = [line for block in re.findall(r"```sh\n(.*?)```", guide, re.DOTALL) for line in block.splitlines()]
    ours = [line for line in lines if re.match(r"\S*streamfeat ", line)]
    assert len(ours) >= 8
    assert all(parse(shlex.split(line)[1:]) for line in ours)
    for unit in re.findall(r"streamfeat-(\w+)@?", " ".join(line for line in lines if line not in ours)):
        assert list((ROOT / "systemd").glob(f"streamfeat-{unit}*.service"))
    for n, block in enumerate(re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)):
        file = tmp_path / f"{n}.toml"
        file.write_text(block)
        assert load_settings({}, file=file).fleet.front == "tcp://192.0.2.1:9670"


def test_a_wrong_example_would_be_found() -> None:
    """The parser used above refuses what the commands refuse."""
    for words in (["push"], ["bank", "bild", "x"], ["serve", "--bank", "x", "--wrokers", "2"]):
        with pytest.raises(click.UsageError):
            parse(words)
    assert parse(["bank", "build", "x"]) == "streamfeat bank build"
    assert typed(examples("# streamfeat is no example", "cat x | streamfeat listen \\", "    -")) == [
        "cat x | streamfeat listen -"
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["evaluate", "--preset", "x", "--protocol", "fsdd-los"], "did you mean fsdd-loso?"),
        (["evaluate", "--preset", "x", "--protocol", "mnist", "--method", "mffc"], "did you mean mfcc?"),
        (["reproduce", "xprem"], "'NAME': 'xprem' is none of xperm, "),
        (["reproduce", "xprem"], ", faces; did you mean xperm? See streamfeat reproduce --help\n"),
        (["bank", "bild"], "No such command 'bild'; did you mean build?"),
        (["units", "instal"], "did you mean install?"),
        (["deadletter", "rtery"], "did you mean retry?"),
        (["worker", "featurs"], "did you mean features?"),
        (["admin", "reloda"], "did you mean reload?"),
        (["keygen", "a", "--right", "encod"], "did you mean encode?"),
        (["push", "x", "--bnak", "x"], "--bank"),
    ],
)
def test_the_nearest_name_is_told(cli: Terminal, given: list[str], said: str) -> None:
    """Commands, options, protocols, methods, experiments, roles: one line, status 64, what was meant."""
    cli(*given).refused(64, said)


def test_presets_banks_and_settings_too(cli: Terminal, tmp_path: Path) -> None:
    """A preset, the bank that is there; a setting in the file, in the environment; a key of a spec."""
    file = tmp_path / "settings.toml"
    file.write_text("[fleet]\nworkrs = 2\n")
    cli("evaluate", "--preset", "digit-image", "--protocol", "mnist").refused(78, "did you mean digits-image?")
    cli("status", "--config", file).refused(78, "did you mean workers?")
    spec = tmp_path / "spec.toml"
    spec.write_text('name = "x"\n[templates]\nsuorce = "gaussian"\n')
    cli("bank", "build", spec).refused(78, "source")
    bank = cli("bank", "build", "global-image", "--plain", "--json").json["name"]
    cli("serve", "--bank", bank.replace("global", "globl")).refused(64, f"did you mean {bank}?")


def test_all_groups_and_choices_go_through_them() -> None:
    """No command falls back to click's own group or choice, which name no nearest word."""
    for name, command in walk(root):
        assert isinstance(command, Commands) or not isinstance(command, click.Group), name
        for option in command.params:
            assert isinstance(option.type, OneOf) or not isinstance(option.type, click.Choice), (name, option.name)
