"""What the commands share on the terminal: settings, `--json`, progress. Standard output holds results only."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from streamfeat.config import Settings, load_settings
from streamfeat.directory import replace_file

F = TypeVar("F", bound=Callable[..., Any])


def written_file(context: click.Context, option: click.Parameter, value: str | Path | None) -> Any:  # noqa: ARG001
    """Callback of options that name a file to write: refused before the work, not after it, where it cannot be."""
    if value is None or value == "-":
        return value
    file = Path(value)
    if file.is_dir() or not os.access(file.parent, os.W_OK):
        raise click.BadParameter(f"{file}: name a file in a folder that is there and can be written")
    if file.exists() and not file.is_file():  # written whole by rename, the file would take the device's place
        raise click.BadParameter(f"{file}: a device or pipe, and the result is a file; name one")
    return value


def _json_file(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value is not None and Path(value).is_dir():
        raise click.BadParameter(f"{value} is a folder; put --json last, or name a file after it")
    if value is not None and _takes_writing(Path(value)):
        return value
    file = written_file(context, option, value)
    # `push --json picture.png` means the picture to be sent: it must not be written over
    if file is not None and file != "-" and Path(file).exists() and not _holds_json(Path(file)):
        raise click.BadParameter(f"{file} is there and holds no JSON; put --json last, or name another file")
    return None if file is None else str(file)


def _takes_writing(file: Path) -> bool:
    """Whether it is a device or a pipe, as /dev/null: written to as it is, never put in another's place."""
    return file.exists() and not file.is_file() and not file.is_dir() and os.access(file, os.W_OK)


def _holds_json(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(64).lstrip()[:1] in (b"", b"{")


json_option = click.option(
    "--json",
    "json_to",
    is_flag=False,
    flag_value="-",
    default=None,
    metavar="[FILE]",
    callback=_json_file,
    help="Write the result as JSON to FILE, or to standard output (then nothing else goes there).",
)


def with_settings(function: F) -> Callable[..., Any]:
    """Options that say where a fleet and its banks are, handed on as one argument: `settings`."""

    @functools.wraps(function)
    def command(*args: Any, **kwargs: Any) -> Any:
        file = kwargs.pop("config")
        directories = {name: kwargs.pop(name) for name in ("run_dir", "state_dir", "bank_dir")}
        given = {name: str(path.absolute()) for name, path in directories.items() if path is not None}
        settings = load_settings(os.environ, file=file, arguments={"fleet": given})
        return function(*args, settings=settings, **kwargs)

    for option in (
        click.option("--bank-dir", type=click.Path(path_type=Path), help="Where banks are kept."),
        click.option("--state-dir", type=click.Path(path_type=Path), help="Where learned things are kept."),
        click.option("--run-dir", type=click.Path(path_type=Path), help="Where the fleet's sockets are."),
        click.option("--config", type=click.Path(path_type=Path), help="Settings file (TOML)."),
    ):
        command = option(command)
    return command


def insecure_option(function: F) -> Callable[..., Any]:
    """`--insecure`, below `with_settings`: TCP without keys, into the settings."""

    @functools.wraps(function)
    def command(*args: Any, settings: Settings, **kwargs: Any) -> Any:
        if kwargs.pop("insecure"):
            settings = replace(settings, auth=replace(settings.auth, insecure=True))
        return function(*args, settings=settings, **kwargs)

    text = "Bind TCP without keys: whoever reaches the port may work, learn and read."
    return click.option("--insecure", is_flag=True, help=text)(command)


def emit(report: dict[str, Any], json_to: str | None, text: Callable[[], None]) -> None:
    """The result of a command: as JSON where asked, else as text.

    Parameters
    ----------
    report : dict
        Plain JSON values.
    json_to : str, optional
        None, "-" for standard output, or a file, written whole by rename; a device or a pipe is written to.
    text : callable
        Prints the same for people.
    """
    if json_to == "-":
        click.echo(json.dumps(report, indent=2))
        return
    if json_to is not None:
        file = Path(json_to)
        if _takes_writing(file):
            file.write_text(json.dumps(report, indent=2) + "\n")
            text()
            return
        replace_file(file, json.dumps(report, indent=2) + "\n")
    text()


@contextmanager
def progress(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, if that is a terminal; yields the function that moves it on."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(description, total=total)
        yield lambda n: bar.update(task, advance=n)
