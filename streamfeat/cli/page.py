"""`streamfeat page`: a fleet's numbers and a place to try it, in a browser of this machine."""

from __future__ import annotations

import functools
import importlib.util
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from streamfeat.cli.broker import become
from streamfeat.cli.console import insecure_option, with_settings
from streamfeat.cli.guidance import examples
from streamfeat.config import Settings
from streamfeat.errors import ConfigError
from streamfeat.fleet import page_arguments
from streamfeat.page.address import LISTEN, bind_page, page_url


@dataclass(frozen=True)
class Page:
    """Where the page listens, and what it shows beside the fleet's numbers."""

    listen: str | None
    corpus: Path | None
    admin_key: Path | None

    def bind(self, settings: Settings) -> socket.socket:
        """A socket at the address that was named.

        Raises
        ------
        ConfigError
            The extra is not installed, or the address cannot be had.
        """
        if not _installed():
            raise ConfigError("the page needs starlette and uvicorn: pip install 'streamfeat[page]'")
        return bind_page(self.listen or LISTEN, insecure=settings.auth.insecure)

    def bind_any(self, settings: Settings) -> socket.socket | None:
        """As `bind`; where no address was named, any free port will do, and no page where the extra is missing."""
        if self.listen is not None:
            return self.bind(settings)
        if not _installed():
            click.echo("no page: pip install 'streamfeat[page]' for one", err=True)
            return None
        try:
            return self.bind(settings)
        except ConfigError:  # the port is another fleet's
            return bind_page(f"{LISTEN.partition(':')[0]}:0")

    def arguments(self, settings: Settings, bound: socket.socket) -> list[str]:
        """Arguments of `python -m streamfeat.workers.page` that takes over this socket."""
        words = [*page_arguments(settings), "--listen", self.listen or LISTEN, "--fd", str(bound.fileno())]
        for flag, path in (("--corpus", self.corpus), ("--admin-key", self.admin_key)):
            if path is not None:
                words += [flag, str(path.absolute())]
        return words


def page_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a page is, handed on as one argument: `page`."""

    @functools.wraps(function)
    def command(*args: Any, **kwargs: Any) -> Any:
        page = Page(kwargs.pop("listen"), kwargs.pop("corpus"), kwargs.pop("admin_key"))
        return function(*args, page=page, **kwargs)

    existing = click.Path(exists=True, path_type=Path)
    for option in (
        click.option("--admin-key", type=existing, help="File with a secret; who has it may give orders on the page."),
        click.option("--corpus", type=existing, help="Recordings or pictures to be shown as neighbours on the page."),
        click.option("--listen", metavar="HOST:PORT", help=f"Where the page listens. Default: {LISTEN}."),
    ):
        command = option(command)
    return command


@click.command(
    help="Show a fleet that runs in a browser: its numbers over time, and a place to try it.",
    epilog=examples(
        "streamfeat page",
        "streamfeat page --listen 127.0.0.1:9000 --corpus pictures",
        "# a fleet elsewhere, and a model of it",
        "streamfeat page --connect tcp://host:5555 --model digits",
    ),
)
@click.option("--connect", help="The broker's endpoint for clients. Default: from the settings.")
@click.option("--model", "models", multiple=True, help="A model to ask, beside those in the state directory.")
@click.option("--index", "indexes", multiple=True, help="An index to ask, beside those in the state directory.")
@page_options
@with_settings
@insecure_option
def command(
    connect: str | None, models: tuple[str, ...], indexes: tuple[str, ...], page: Page, settings: Settings
) -> None:
    """Become the page: same process id, so that a service manager's notifications are right."""
    bound = page.bind(settings)
    os.set_inheritable(bound.fileno(), True)
    click.echo(f"page: {page_url(bound)}", err=True)
    words = page.arguments(settings, bound)
    named = [word for flag, names in (("--model", models), ("--index", indexes)) for n in names for word in (flag, n)]
    # a fleet that was named is asked at its front alone: the admin socket and folders of the settings may be another's
    become("page", [*words, *named] if connect is None else [*_of(words, connect), *named])


def _of(words: list[str], connect: str) -> list[str]:
    """The arguments, with another front and without what belongs to the fleet of the settings."""
    pairs = list(zip(words[::2], words[1::2], strict=True))
    left = [pair for pair in pairs if pair[0] not in ("--front", "--admin", "--state", "--dead-letters")]
    return ["--front", connect, *(word for pair in left for word in pair)]


def _installed() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("starlette", "uvicorn"))
