"""What the commands share on the terminal: settings, `--json`, progress. Standard output holds results only."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from streamfeat.config import load_settings
from streamfeat.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option(
    "--json",
    "json_to",
    is_flag=False,
    flag_value="-",
    default=None,
    metavar="[FILE]",
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


def emit(report: dict[str, Any], json_to: str | None, text: Callable[[], None]) -> None:
    """The result of a command: as JSON where asked, else as text.

    Parameters
    ----------
    report : dict
        Plain JSON values.
    json_to : str, optional
        None, "-" for standard output, or a file, written whole by rename.
    text : callable
        Prints the same for people.
    """
    if json_to == "-":
        click.echo(json.dumps(report, indent=2))
        return
    if json_to is not None:
        file = Path(json_to)
        part = file.with_name(f".{file.name}.part")
        try:
            part.write_text(json.dumps(report, indent=2) + "\n")
            part.replace(file)
        except OSError as error:
            raise ConfigError(
                f"--json {file}: {error.strerror}; name a file in a folder that can be written"
            ) from error
    text()


@contextmanager
def progress(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error; yields the function that moves it on."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda n: bar.update(task, advance=n)
