"""What a command says to whoever asks or errs: examples below its help, and the nearest known name."""

from __future__ import annotations

import click

from streamfeat.spec import did_you_mean


def examples(*lines: str) -> str:
    """The epilog of a command: lines to be typed, and comments (#) above those that need one."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


class Commands(click.Group):
    """A group that answers an unknown command with the nearest one that it has."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word."""
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], known)}")
        return super().resolve_command(ctx, args)


class OneOf(click.Choice[str]):
    """One of some words; another word is answered with all of them and the nearest."""

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:  # noqa: ARG002
        """What came, which words there are, and the nearest."""
        return f"{value!r} is none of {', '.join(self.choices)}{did_you_mean(value, self.choices)}"
