"""A page of a fleet that runs, for tests: started as a user starts it, asked over its socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.terminal import EXECUTABLE, Terminal

FILE_TYPE = "application/octet-stream"


@dataclass(frozen=True)
class Answered:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class WebPage:
    """A page by its port."""

    port: int

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        """One request; underscores in the names of headers are hyphens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, given, encode_chunked=given.get("transfer-encoding") == "chunked")
            answer = connection.getresponse()
            return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def drop(self, what: str, data: bytes, **query: Any) -> Answered:
        """A file dropped: `what` is try or curve."""
        return self.ask("POST", f"/api/{what}?{urlencode(query)}", data, content_type=FILE_TYPE)

    def wait(self, wanted: str, since: int = 0) -> Any:
        """The state after a sample, once `wanted`, a key of it or of one of its samples, is there and not zero."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            state = self.ask("GET", f"/api/state?since={since}").json
            if any(told.get(wanted) for told in (state, *state["samples"])):
                return state
            time.sleep(0.1)  # asks again
        raise AssertionError(f"no {wanted} in {state}")


@contextlib.contextmanager
def page_of(terminal: Terminal, *words: str | Path) -> Iterator[WebPage]:
    """`streamfeat page WORDS` at a free port, in the terminal's environment, ended afterwards."""
    command = [EXECUTABLE, "page", "--listen", "127.0.0.1:0", *map(str, words)]
    process = subprocess.Popen(command, env=terminal.environ, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        found = re.fullmatch(r"page: http://127\.0\.0\.1:(\d+)/\n", said)
        assert found is not None, said
        yield WebPage(int(found[1]))
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        process.stderr.close()
