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
    from streamfeat.learn.recipe import N_TRAIN, Recipe

    from .indexing import Index
    from .launch import serve, worker_parser

    parser = worker_parser("index", __doc__ or "")
    parser.add_argument("--state", required=True, type=Path, metavar="DIR", help="where logs are kept")
    parser.add_argument("--metric", choices=("cosine", "l2"), default="cosine")
    parser.add_argument("--backend", choices=("exact", "faiss"), default="exact", help="faiss needs the extra")
    parser.add_argument("--factory", default="", help="FAISS factory string of approximate indexes; else exact")
    parser.add_argument("--train-items", type=int, default=N_TRAIN, help="first entries, which they are trained on")
    parser.add_argument("--effort", default="", help="how hard a search tries, such as nprobe=32")
    parser.add_argument("--oversample", type=int, default=5, help="so many times k entries are measured")
    args = parser.parse_args(argv)

    def build() -> Index:
        recipe = Recipe(args.factory, args.train_items, args.effort, args.oversample) if args.factory else None
        return Index(args.state, args.metric, args.backend, recipe)

    return serve(build, args, stop, notifier, n_together=Index.n_items)


if __name__ == "__main__":
    sys.exit(main())
