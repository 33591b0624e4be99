"""`streamfeat completion bash|zsh|fish`: what a shell evaluates to complete commands and options."""

from __future__ import annotations

import click

from streamfeat.cli.guidance import OneOf, examples

SHELLS = ("bash", "zsh", "fish")


@click.command(
    help="Print what makes a shell complete commands, options and choices; have it evaluated at every start: "
    'eval "$(streamfeat completion bash)" in ~/.bashrc, the same with zsh in ~/.zshrc, '
    "streamfeat completion fish | source in fish's config.",
    epilog=examples(
        "# now; in ~/.bashrc for every start",
        'eval "$(streamfeat completion bash)"',
        "streamfeat completion fish | source",
    ),
)
@click.argument("shell", type=OneOf(SHELLS))
def command(shell: str) -> None:
    """Click's own script for that shell."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # the three are click's own
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "streamfeat", "_STREAMFEAT_COMPLETE").source())
