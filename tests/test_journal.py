"""Logs: lines for people, JSON for the journal."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

from streamfeat.workers.journal import JsonFormatter


def test_a_record_is_one_line_of_json_behind_its_priority() -> None:
    """What it is about goes with it; a trace stays inside the line."""
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "error %s", ("ab12",), None)
    record.stream, record.seq = "c0ffee", 7
    line = JsonFormatter("features-1").format(record)
    assert line.startswith("<3>{")
    assert json.loads(line[3:]) == {
        "level": "error",
        "process": "features-1",
        "message": "error ab12",
        "stream": "c0ffee",
        "seq": 7,
    }
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record.exc_info = sys.exc_info()
    line = JsonFormatter("features-1").format(record)
    assert "\n" not in line
    assert "ValueError" in json.loads(line[3:])["trace"]


def test_only_the_journal_gets_json() -> None:
    """JOURNAL_STREAM must name standard error itself: a redirected one is for people."""
    code = (
        "import logging, os; from streamfeat.workers.journal import write_log; s = os.fstat(2);"
        "write_log('w', {'JOURNAL_STREAM': f'{s.st_dev}:{s.st_ino + %d}'}); logging.warning('hot')"
    )
    for shift, said in ((0, b'<4>{"level": "warning", "process": "w", "message": "hot"}\n'), (1, b"w WARNING hot\n")):
        done = subprocess.run([sys.executable, "-c", code % shift], capture_output=True, check=True, timeout=30)
        assert done.stderr == said
