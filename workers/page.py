"""Page process: the fleet's numbers and a place to try it, over HTTP on this machine.

    python -m streamfeat.workers.page --listen 127.0.0.1:9672 --front ipc:///run/streamfeat/front.sock

A client of the fleet like any other: the broker has one report a second to give, and may come and go.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from streamfeat.errors import EXIT_OK, StreamfeatError

from .journal import write_log
from .launch import Parser
from .notify import READY, begin

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from uvicorn import Server

    from streamfeat.page.desk import Desk

log = logging.getLogger("streamfeat.page")

MOST_CONNECTIONS = 64
HEADER_BYTES = 16 << 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the page; its exit status."""
    stop, notifier = begin(os.environ)
    args = _parser().parse_args(argv)
    write_log("page", os.environ)
    if args.stop_with_parent is not None:
        stop.with_parent(args.stop_with_parent)
    from streamfeat.page.address import bind_page, page_hosts, page_url
    from streamfeat.page.app import page_app

    try:
        bound = socket.socket(fileno=args.fd) if args.fd is not None else bind_page(args.listen, insecure=args.insecure)
        desk = _desk(args)
    except StreamfeatError as error:
        log.error("%s: %s", error.code, error)
        return error.exit_status
    if args.fd is None:  # else whoever bound it has said so
        log.info("%s", page_url(bound))
    server = _server(page_app(desk, page_hosts(bound, args.listen)))
    notifier.say(READY)
    stop.defer()

    def leave() -> None:
        server.should_exit = True

    desk.start(lambda: stop.count > 0, leave)
    try:
        server.run(sockets=[bound])
    finally:
        desk.close()
    return EXIT_OK


def _desk(args: argparse.Namespace) -> Desk:
    """What the page knows and may do, by its arguments."""
    from streamfeat.config import load_settings
    from streamfeat.deadletters import DeadLetters
    from streamfeat.page.desk import Desk, open_admin_key
    from streamfeat.page.gallery import Gallery
    from streamfeat.page.trial import Stages

    endpoints = {"front": args.front, "admin": args.admin}
    waits, keys = {"connect_timeout_s": args.connect_timeout_s}, {"key": args.key, "server": args.server_key}
    return Desk(
        load_settings({}, arguments={"fleet": endpoints, "client": waits, "auth": keys}),
        connect=None if args.admin else args.front,
        stages=Stages(tuple(args.model), tuple(args.index), args.state),
        gallery=None if args.corpus is None else Gallery(args.corpus),
        letters=None if args.dead_letters is None else DeadLetters(args.dead_letters),
        admin_key=None if args.admin_key is None else open_admin_key(args.admin_key),
    )


def _server(app: Starlette) -> Server:
    """HTTP and nothing besides it, for a bounded number of browsers."""
    from uvicorn import Config, Server

    config = Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
    )
    return Server(config)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m streamfeat.workers.page", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--listen", required=True, metavar="HOST:PORT", help="where browsers come")
    parser.add_argument("--fd", type=int, metavar="N", help="a socket that listens there already")
    parser.add_argument("--front", required=True, metavar="ENDPOINT", help="the broker's endpoint for clients")
    parser.add_argument("--admin", metavar="ENDPOINT", help="the broker's endpoint for operators, where it is allowed")
    parser.add_argument("--state", type=Path, metavar="DIR", help="where learner and index keep models and indexes")
    parser.add_argument("--dead-letters", type=Path, metavar="DIR", help="where the broker files quarantined items")
    parser.add_argument("--model", action="append", default=[], metavar="NAME", help="to be asked, beside those found")
    parser.add_argument("--index", action="append", default=[], metavar="NAME", help="to be asked, beside those found")
    parser.add_argument("--corpus", type=Path, metavar="PATH", help="recordings or pictures to show as neighbours")
    parser.add_argument("--admin-key", type=Path, metavar="FILE", help="a secret; who has it may give orders")
    parser.add_argument("--key", type=Path, metavar="FILE", help="the page's own key, for tcp")
    parser.add_argument("--server-key", type=Path, metavar="FILE", help="the broker's public key")
    parser.add_argument("--connect-timeout-s", type=float, metavar="S", help="how long to wait for the broker")
    parser.add_argument("--insecure", action="store_true", help="listen beyond this machine")
    parser.add_argument("--stop-with-parent", nargs="?", type=int, const=0, metavar="PID", help="stop when it ends")
    return parser


if __name__ == "__main__":
    sys.exit(main())
