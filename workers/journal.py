"""How a process writes its log: lines for people, JSON under journald.

Under systemd each line is one JSON object behind its syslog priority, so that `journalctl -o cat` can be piped into
any reader of JSON and an item followed through all processes by its `stream` and `seq`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping

FOLLOWED = ("error_id", "stage", "stream", "seq", "item", "worker")
"""What a record may carry beside its text (`extra`): enough to find the request that it is about."""

_PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))


class JsonFormatter(logging.Formatter):
    """One JSON object a line, of a process with this name."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """The record with its priority, name, text, trace and whatever of `FOLLOWED` it carries."""
        priority = next((number for level, number in _PRIORITIES if record.levelno >= level), 7)
        told: dict[str, object] = {
            "level": record.levelname.lower(),
            "process": self._process,
            "message": record.getMessage(),
        }
        told |= {name: record.__dict__[name] for name in FOLLOWED if name in record.__dict__}
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return f"<{priority}>{json.dumps(told, default=str)}"


def write_log(process: str, environ: Mapping[str, str]) -> None:
    """Have everything that is logged written to standard error, as JSON if that is the journal."""
    handler = logging.StreamHandler(sys.stderr)
    if _is_journal(environ):
        handler.setFormatter(JsonFormatter(process))
    else:
        handler.setFormatter(logging.Formatter(f"{process} %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _is_journal(environ: Mapping[str, str]) -> bool:
    """Whether systemd connected standard error to the journal: JOURNAL_STREAM is its device and inode."""
    status = os.fstat(sys.stderr.fileno())
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
