"""Index process: features in, acknowledged once they are on disk; nearest neighbours out.

    python -m streamfeat.workers.index --connect ipc:///run/streamfeat/back.sock --state DIR --name index

One owner for a state directory. After a kill everything acknowledged is there, once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from streamfeat.threads import n_threads

from .notify import begin


def main(argv: Sequence[str] | None = None) -> int:
    """Run the worker; its exit status."""
    stop, notifier = begin(os.environ, n_threads=n_threads())
    # after begin: numpy reads the number of threads when it is imported
    from .indexing import Index
    from .launch import serve, worker_parser

    parser = worker_parser("index", __doc__ or "")
    parser.add_argument("--state", required=True, type=Path, metavar="DIR", help="where logs are kept")
    parser.add_argument("--metric", choices=("cosine", "l2"), default="cosine")
    parser.add_argument("--backend", choices=("exact", "faiss"), default="exact", help="faiss needs the extra")
    args = parser.parse_args(argv)

    def build() -> Index:
        return Index(args.state, args.metric, args.backend)

    return serve(build, args, stop, notifier, n_together=Index.n_items)


if __name__ == "__main__":
    sys.exit(main())
