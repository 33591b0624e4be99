"""Options of every command that reads files: which channel, which frame, within what time and memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from streamfeat.decoding import Limits

F = TypeVar("F", bound=Callable[..., Any])


class _WordOrNumber(click.ParamType[str | int]):
    """One of some words, or a whole number from 0."""

    def __init__(self, name: str, words: tuple[str, ...]) -> None:
        self.name = name
        self.words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | int:
        """The word, or the number."""
        word = str(value)
        if word not in self.words and not (word.isascii() and word.isdecimal() and len(word) < 6):
            self.fail(f"{' or '.join(self.words)} or a number from 0 is needed, got {value!r}", param, ctx)
        return word if word in self.words else int(word)


def channels_option(default: str | None) -> Callable[[F], F]:
    """`--channels`, handed on as `channels`."""
    return click.option(
        "--channels",
        type=_WordOrNumber("refuse|mix|N", ("refuse", "mix")),
        default=default,
        show_default=default is not None,
        help="What becomes of several channels: refused, their mean, or channel N.",
    )


frames_option = click.option(
    "--frames",
    type=_WordOrNumber("first|refuse|N", ("first", "refuse")),
    default="first",
    show_default=True,
    help="What becomes of several frames or pages: the first, refused, or number N.",
)


def limit_options(function: F) -> Callable[..., Any]:
    """Limits of decoding one file, handed on as one argument: `limits`."""

    @functools.wraps(function)
    def command(*args: Any, **kwargs: Any) -> Any:
        limits = Limits(kwargs.pop("decode_seconds"), kwargs.pop("decode_mib") << 20)
        return function(*args, limits=limits, **kwargs)

    for option in (
        click.option(
            "--decode-mib", type=click.IntRange(16), default=1024, show_default=True, help="Memory for decoding a file."
        ),
        click.option(
            "--decode-seconds",
            type=click.FloatRange(0.1),
            default=20.0,
            show_default=True,
            help="Time for decoding a file.",
        ),
    ):
        command = option(command)
    return command
