"""`streamfeat units`: the systemd units of a fleet, shown or installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from streamfeat.cli.console import emit, json_option
from streamfeat.cli.guidance import Commands, OneOf, examples
from streamfeat.units import PAGE, ROLES, hidden, install, render

F = TypeVar("F", bound=Callable[..., Any])


@click.group(
    cls=Commands,
    help="The systemd units of a fleet, with this installation's paths.",
    epilog=examples(
        "streamfeat units print",
        "sudo streamfeat units install --workers 4",
    ),
)
def command() -> None:
    """Show or install."""


def _filling(function: F) -> F:
    for option in (
        click.option("--command", "program", help="What the units run. Default: this very streamfeat."),
        click.option("--workers", type=click.IntRange(1, 256), default=2, help="Feature workers of the target."),
        click.option(
            "--role",
            "roles",
            type=OneOf(ROLES),
            multiple=True,
            help="What this host runs, repeatable; else all.",
        ),
        click.option("--page", is_flag=True, help="The page too, for browsers of this host (extra: page)."),
        click.option("--keys", help="Folder with broker.key, worker.key, broker.pub and authorised/: TCP with keys."),
    ):
        function = option(function)
    return function


def _files(program: str | None, workers: int, roles: tuple[str, ...], page: bool, keys: str | None) -> dict[str, str]:
    """What `_filling` asks for."""
    wanted = (*(roles or ROLES), *([PAGE] if page else []))
    return render(command=program, n_workers=workers, keys=keys, roles=wanted)


@command.command(
    "print",
    help="Show every file, with its path.",
    epilog=examples(
        "streamfeat units print",
        "streamfeat units print --workers 4 --keys /etc/streamfeat/keys",
    ),
)
@_filling
@json_option
def print_(json_to: str | None, **filling: Any) -> None:
    """One file after the other."""
    files = _files(**filling)
    emit({"files": files}, json_to, lambda: click.echo("\n".join(f"# /{name}\n{text}" for name, text in files.items())))


@command.command(
    "install",
    help="Write every file below a root directory; settings that are there are left alone.",
    epilog=examples(
        "sudo streamfeat units install --workers 4 --page",
        "# feature workers for a broker on another host",
        "sudo streamfeat units install --role features --keys /etc/streamfeat/keys",
        "# into an image",
        "streamfeat units install --root image",
    ),
)
@click.option("--root", type=click.Path(path_type=Path), default=Path("/"), help="Default: /.")
@_filling
@json_option
def install_(root: Path, json_to: str | None, **filling: Any) -> None:
    """Write, and say what comes next."""
    written = install(root, _files(**filling))
    report = {"written": [str(f) for f, new in written if new], "kept": [str(f) for f, new in written if not new]}
    emit(report, json_to, lambda: _print(written))
    why = hidden(filling["program"])
    if why:
        click.echo(f"streamfeat: {why}", err=True)


def _print(written: list[tuple[Path, bool]]) -> None:
    for file, new in written:
        click.echo(f"{'wrote' if new else 'kept'} {file}")
    click.echo("next: systemd-sysusers; a bank in /var/lib/streamfeat/banks; systemctl daemon-reload;")
    click.echo("      systemctl enable --now streamfeat.target")
