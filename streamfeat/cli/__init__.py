"""The `streamfeat` command. Each command is one file that ends in a library call; it is imported when it runs.

Exit status: 0 all well; 3 some items failed; 64 usage; 69 nobody answers; 70 a bug; 78 configuration.
"""

from __future__ import annotations

import importlib
import os
import sys

import click

from streamfeat import __version__
from streamfeat.errors import EXIT_INTERNAL, EXIT_OK, EXIT_USAGE, StreamfeatError

COMMANDS = {
    "bank": "build, list, show, verify and materialise banks",
    "broker": "run the broker",
    "corpus": "make a spoken-digit corpus, or list one",
    "doctor": "look at this machine for what commonly goes wrong",
    "push": "send pictures through a fleet",
    "quickstart": "the whole line on a synthesised corpus and handwritten digits",
    "serve": "run a whole fleet in the foreground",
    "status": "ask a broker how it is",
    "stream": "send recordings through a fleet",
    "warmup": "compile and cache every kernel",
    "worker": "run one worker: features, learner or index",
}


class LazyGroup(click.Group):
    """Commands by name, imported when asked for, so that `streamfeat --help` costs no NumPy."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in alphabetical order."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command from the file of the same name."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"streamfeat.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The table of commands, from COMMANDS alone."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="streamfeat")
@click.option("--trace", is_flag=True, help="Show the whole trace of an unexpected error.")
def cli(trace: bool) -> None:
    """Features of sounds and images that do not change under pitch, tempo, rotation, shift and scale."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status; an error is one line on standard error."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        Exit status.
    """
    words = sys.argv[1:] if arguments is None else arguments
    try:
        status = cli.main(words, prog_name="streamfeat", standalone_mode=False)
        return status if isinstance(status, int) else EXIT_OK
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("streamfeat: stopped", err=True)
        return 130
    except StreamfeatError as error:
        click.echo(f"streamfeat: {error.reason}", err=True)
        return error.exit_status
    except BrokenPipeError:
        # the reader of our output went away; keep the interpreter from complaining about it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except Exception as error:
        # the last line of defence: one line, and the trace on request
        if words[:1] == ["--trace"]:
            raise
        click.echo(f"streamfeat: bug: {type(error).__name__}: {error}; `streamfeat --trace ...` shows where", err=True)
        return EXIT_INTERNAL
