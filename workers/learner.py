"""Learner process: labelled features in, acknowledged once they are on disk; models out of them; labels out of models.

    python -m streamfeat.workers.learner --connect ipc:///run/streamfeat/back.sock --state DIR --name learner

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
    from .launch import serve, worker_parser
    from .learning import Learner

    parser = worker_parser("learner", __doc__ or "")
    parser.add_argument("--state", required=True, type=Path, metavar="DIR", help="where logs and models are kept")
    args = parser.parse_args(argv)
    return serve(lambda: Learner(args.state), args, stop, notifier, n_together=Learner.n_items)


if __name__ == "__main__":
    sys.exit(main())
