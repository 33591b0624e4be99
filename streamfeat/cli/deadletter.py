"""`streamfeat deadletter`: items that ended three workers, kept to be looked at, sent again or dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from streamfeat.cli.console import emit, json_option, with_settings
from streamfeat.cli.guidance import Commands, examples
from streamfeat.client import Client
from streamfeat.config import Settings
from streamfeat.deadletters import DeadLetters, Filed
from streamfeat.errors import EXIT_OK, EXIT_SOME_FAILED, StreamfeatError
from streamfeat.fleet import dead_letter_folder
from streamfeat.payloads import job_of_letter


@click.group(
    cls=Commands,
    help="Look at items that ended three workers, send them again, or drop them.",
    epilog=examples(
        "streamfeat deadletter list",
        "streamfeat deadletter retry --all",
    ),
)
def command() -> None:
    """Group of the commands about dead letters."""


@command.command(
    "list",
    help="Every letter, oldest first.",
    epilog=examples(
        "streamfeat deadletter list",
        "streamfeat deadletter list --state-dir /var/lib/streamfeat --json",
    ),
)
@with_settings
@json_option
def list_(settings: Settings, json_to: str | None) -> int:
    """A line a letter; one that cannot be read is named with the reason."""
    letters = _letters(settings)
    filed, broken = [], {}
    for name in letters.names():
        try:
            filed.append(letters.open(name))
        except StreamfeatError as error:
            broken[name] = error.reason
    report = {"folder": str(letters.folder), "letters": [each.as_dict() for each in filed], "broken": broken}
    emit(report, json_to, lambda: _print_list(filed, broken))
    return EXIT_SOME_FAILED if broken else EXIT_OK


@command.command(
    help="Everything about one letter but its payload.",
    epilog=examples(
        "streamfeat deadletter show 20260115T093000-000001-0a1b2c3d",
    ),
)
@click.argument("name")
@with_settings
@json_option
def show(name: str, settings: Settings, json_to: str | None) -> None:
    """Header, route and reason."""
    report = _letters(settings).open(name).as_dict()
    emit(report, json_to, lambda: click.echo(json.dumps(report, indent=2)))


@command.command(
    help="Send letters again from where they were; those that are answered are dropped.",
    epilog=examples(
        "streamfeat deadletter retry 20260115T093000-000001-0a1b2c3d",
        "streamfeat deadletter retry --all --connect ipc:///run/streamfeat/front.sock",
    ),
)
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All letters there are.")
@click.option("--connect", help="The broker's endpoint for clients. Default: from the settings.")
@with_settings
@json_option
def retry(names: tuple[str, ...], every: bool, connect: str | None, settings: Settings, json_to: str | None) -> int:
    """One after the other: an item that ends its worker again must not take a neighbour with it."""
    letters = _letters(settings)
    outcomes: dict[str, str] = {}
    with Client(
        connect or settings.fleet.front,
        timeout_s=settings.client.timeout_s,
        connect_timeout_s=settings.client.connect_timeout_s,
    ) as client:
        for name in _named(letters, names, every):
            filed = letters.open(name)
            [result] = client.stream(
                [job_of_letter(filed.letter)],
                route=filed.letter.route,
                bank=filed.letter.bank,
                options=filed.letter.options,
            )
            outcomes[name] = "answered" if result.error is None else f"{result.error.code}: {result.error.reason}"
            if result.error is None:
                letters.drop(name)
    emit({"letters": outcomes}, json_to, lambda: _print_outcomes(outcomes))
    return EXIT_OK if set(outcomes.values()) <= {"answered"} else EXIT_SOME_FAILED


@command.command(
    help="Remove letters for good.",
    epilog=examples(
        "streamfeat deadletter drop 20260115T093000-000001-0a1b2c3d",
        "streamfeat deadletter drop --all",
    ),
)
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All letters there are.")
@with_settings
@json_option
def drop(names: tuple[str, ...], every: bool, settings: Settings, json_to: str | None) -> None:
    """One after the other; the first that is not there ends it."""
    letters = _letters(settings)
    dropped = _named(letters, names, every)
    for name in dropped:
        letters.drop(name)
    emit({"dropped": dropped}, json_to, lambda: click.echo(f"{len(dropped)} dropped"))


def _letters(settings: Settings) -> DeadLetters:
    return DeadLetters(Path(dead_letter_folder(settings)))


def _named(letters: DeadLetters, names: tuple[str, ...], every: bool) -> list[str]:
    if every == bool(names):
        raise click.UsageError("name the letters, or say --all")
    return letters.names() if every else list(names)


def _print_list(filed: list[Filed], broken: dict[str, str]) -> None:
    for each in filed:
        item: dict[str, Any] = each.letter.item.fields
        what = item.get("name") or f"{item.get('stream')}/{item.get('seq')}"
        click.echo(f"{each.name}  {' > '.join(each.letter.route)}  {what}: {each.letter.reason}")
    if not filed:
        click.echo("no dead letters")
    for name, reason in broken.items():
        click.echo(f"{name}: {reason}", err=True)


def _print_outcomes(outcomes: dict[str, str]) -> None:
    for name, outcome in outcomes.items():
        click.echo(f"{name}: {outcome}")
    if not outcomes:
        click.echo("no dead letters")
