"""The `streamfeat` command. Each command is one file that ends in a library call; it is imported when it runs.

Exit status: 0 all well; 3 some items failed; 64 usage; 69 nobody answers; 70 a bug; 78 configuration.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys

import click

from streamfeat import __version__
from streamfeat.cli.ending import take_signals
from streamfeat.cli.guidance import Commands, examples
from streamfeat.errors import EXIT_CONFIG, EXIT_INTERNAL, EXIT_OK, EXIT_USAGE, StreamfeatError

NAMELESS = {
    errno.ENOSPC: "",
    errno.EDQUOT: "",
    errno.EFBIG: "",
    errno.ENOENT: "the working directory: ",
}
"""Numbers of errors that may come without a file's name -> what is said in its place: an open stream, such as standard
output, has none, and os.getcwd() does not tell it."""

COMMANDS = {
    "admin": "drain, resume and reload workers of a running fleet",
    "bank": "build, list, show, verify and materialise banks",
    "bench": "measure what features cost, beside the alternatives",
    "broker": "run the broker",
    "check": "say what would be read and what refused, without a fleet",
    "completion": "print what makes bash, zsh or fish complete commands",
    "corpus": "make a spoken-digit corpus, or list one",
    "deadletter": "look at items that ended three workers, send them again, or drop them",
    "demo": "the quickstart of an installed package, in your cache",
    "doctor": "look at this machine for what commonly goes wrong",
    "keygen": "make the keys of a broker, a worker, a client",
    "evaluate": "accuracy of a preset under a protocol, beside other methods",
    "featurize": "features of a corpus into .npy, zarr or parquet, through Dask",
    "fit": "a model of what featurize wrote, through Dask",
    "listen": "print what is said in a file, a pipe or at the microphone",
    "page": "show a fleet in a browser: numbers over time, and a place to try it",
    "push": "send pictures through a fleet",
    "quickstart": "the whole line on a synthesised corpus and handwritten digits",
    "recall": "how many of the nearest an approximate index finds, and what it takes",
    "reproduce": "run the papers' experiments again",
    "serve": "run a whole fleet in the foreground",
    "status": "ask a broker how it is",
    "stream": "send recordings through a fleet",
    "units": "show or install the systemd units of a fleet",
    "verify": "are two rows of one label: rates at any false accept rate, over all pairs",
    "warmup": "compile and cache every kernel",
    "worker": "run one worker: features, learner or index",
}


class LazyGroup(Commands):
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


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "streamfeat stream tidigits",
        "streamfeat push pictures --out features.npz",
        "streamfeat serve --bank digits-audio",
    ),
)
@click.version_option(__version__, prog_name="streamfeat")
@click.option("--trace", is_flag=True, help="Show the whole trace of an unexpected error.")
def cli(trace: bool) -> None:
    """Features of sounds and images that do not change under pitch, tempo, rotation, shift and scale."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status; an error is one line on standard error."""
    take_signals()
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
    except (KeyboardInterrupt, Exception) as error:
        line, exit_status = _account(error)
        if exit_status == EXIT_INTERNAL and words[:1] == ["--trace"]:
            raise
        click.echo(line, err=True)
        return exit_status


def _account(error: BaseException) -> tuple[str, int]:
    """An error as the line on standard error and the exit status."""
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return "streamfeat: stopped", 130
    if isinstance(error, click.ClickException):
        message, context = error.format_message(), getattr(error, "ctx", None)
        if message.startswith("Usage:"):  # a group without a command: its help
            return message, EXIT_USAGE
        command = context.command_path if context else "streamfeat"
        message = " ".join(message.split()).rstrip(".")
        return f"{command}: {message}{' See' if message.endswith('?') else '; see'} {command} --help", EXIT_USAGE
    if isinstance(error, StreamfeatError):
        return f"streamfeat: {error.reason}", error.exit_status
    if isinstance(error, OSError) and (error.filename is not None or error.errno in NAMELESS):
        # what cannot be read or written is the user's to mend
        where = NAMELESS[error.errno or 0] if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return f"streamfeat: {where}{error.strerror}; mend it or choose another", EXIT_CONFIG
    kind = type(error).__name__
    return f"streamfeat: bug: {kind}: {error}; `streamfeat --trace ...` shows where", EXIT_INTERNAL
