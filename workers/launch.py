"""How a worker process starts: its arguments, its log, and the exit status its supervisor acts on."""

from __future__ import annotations

import argparse
import logging
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from streamfeat.errors import EXIT_OK, EXIT_USAGE, StreamfeatError
from streamfeat.keys import Credentials

from .handler import Handler
from .journal import write_log
from .notify import Notifier, Stop
from .runtime import GRACEFUL_TIMEOUT_S, Runtime

log = logging.getLogger("streamfeat.worker")

OPEN_FILES = 16384
"""Asked for at the start, as far as the hard limit goes: 1024, the usual soft one, is for programs that use select."""


class Parser(argparse.ArgumentParser):
    """argparse with one line for a usage error, and its exit status 64."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: {message}; see --help\n")


def worker_parser(role: str, description: str) -> Parser:
    """The arguments that all workers have: --connect, --name, --graceful-timeout-s."""
    parser = Parser(prog=f"python -m streamfeat.workers.{role}", description=description.splitlines()[0])
    parser.add_argument("--connect", required=True, metavar="ENDPOINT", help="the broker's endpoint for workers")
    parser.add_argument("--name", required=True, help="unique within the fleet, such as features-1")
    parser.add_argument("--key", type=Path, metavar="FILE", help="its own key, for tcp")
    parser.add_argument("--server-key", type=Path, metavar="FILE", help="the broker's public key")
    parser.add_argument("--graceful-timeout-s", type=float, default=GRACEFUL_TIMEOUT_S, metavar="S")
    parser.add_argument(
        "--stop-with-parent",
        nargs="?",
        type=int,
        const=0,
        metavar="PID",
        help="stop when the process that started it ends",
    )
    return parser


def serve(
    build: Callable[[], Handler], args: argparse.Namespace, stop: Stop, notifier: Notifier, *, n_together: int
) -> int:
    """Run a worker from its parsed arguments; its exit status."""
    write_log(args.name, os.environ)
    if args.stop_with_parent is not None:
        stop.with_parent(args.stop_with_parent)
    allow_open_files()
    try:
        runtime = Runtime(
            build(),
            connect=args.connect,
            name=args.name,
            stop=stop,
            notifier=notifier,
            n_together=n_together,
            graceful_timeout_s=args.graceful_timeout_s,
            credentials=Credentials.open(args.key, args.server_key),
        )
        runtime.run()
    except StreamfeatError as error:
        log.error("%s: %s", error.code, error)
        notifier.status(f"{error.code}: {error}")
        return error.exit_status
    return EXIT_OK


def allow_open_files() -> int:
    """Raise the limit on open files to `OPEN_FILES` if it is lower and may be raised; how many there may be now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
