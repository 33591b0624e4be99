"""`streamfeat keygen`: the keys of a broker, a worker, a client."""

from __future__ import annotations

from pathlib import Path

import click

from streamfeat.cli.console import emit, json_option
from streamfeat.cli.guidance import OneOf, examples
from streamfeat.keys import RIGHTS, save_key


@click.command(
    help="Make a key: NAME.key stays with its holder, NAME.pub goes to the other side.",
    epilog=examples(
        "# a broker's own key",
        "streamfeat keygen broker --dir keys",
        "# a client that may send items and ask, but not teach",
        "streamfeat keygen laptop --dir keys --right encode",
    ),
)
@click.argument("name")
@click.option("--dir", "folder", type=click.Path(path_type=Path), default=Path(), help="Where to. Default: here.")
@click.option(
    "--right",
    "rights",
    type=OneOf(RIGHTS),
    multiple=True,
    help="What its holder may do, repeatable; none for a broker's own key.",
)
@json_option
def command(name: str, folder: Path, rights: tuple[str, ...], json_to: str | None) -> None:
    """Write both files and say what to do with them."""
    key_file, pub_file = save_key(folder, name, rights)
    report = {"key": str(key_file), "public": str(pub_file), "rights": list(rights)}
    emit(report, json_to, lambda: _print(key_file, pub_file, rights))


def _print(key_file: Path, pub_file: Path, rights: tuple[str, ...]) -> None:
    click.echo(f"{key_file}: secret, stays with its holder (auth.key)")
    if rights:
        click.echo(f"{pub_file}: for the broker's folder of authorised keys (auth.authorised): {', '.join(rights)}")
    else:
        click.echo(f"{pub_file}: for whoever connects, as auth.server, if this is the broker's key")
