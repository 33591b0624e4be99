"""Decoding in a process of its own, within a time and a memory: a file that hangs, crashes or swells costs itself.

    with Decoder() as decoder:
        signal = decoder.audio(path, "9a.wav", channels="mix")

The process is started when it is first needed and used again for the next file; one that had to be killed is replaced.
It holds itself to its limits: an alarm that no decoder can catch, and an address space it cannot outgrow. A request is
two lengths, JSON and bytes; so is the answer.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal as signals
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from streamfeat.errors import ItemFailed, StreamfeatError, TooLarge, error_from_code

if TYPE_CHECKING:
    from streamfeat.inspection import Policy
    from streamfeat.signals.corpus import Utterance
    from streamfeat.signals.image import Frames
    from streamfeat.signals.pictures import Picture
    from streamfeat.signals.recording import Channels
    from streamfeat.signals.signal import Signal

GRACE_S = 1.0
"""Between the alarm of the process itself and the kill from outside."""

START_S = 60.0
"""For the imports of a process that has just been started, on a loaded machine."""

_LENGTHS = struct.Struct(">IQ")
"""Of the JSON and of the bytes after it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one file: seconds of decoding, and bytes of memory beyond what the idle process has."""

    seconds: float = 20.0
    memory_bytes: int = 1 << 30


class Decoder:
    """Reads files in a process of its own; use it in a `with` block or `close` it. One thread at a time.

    Each method raises what the reader it stands for raises, and in addition

    ItemFailed
        The time was over, or the process died of this file.
    TooLarge
        The memory was not enough.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Decoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one now."""
        return None if self._process is None else self._process.pid

    def audio(self, source: Path | bytes, name: str, channels: Channels = "refuse") -> Signal:
        """As `read_audio`."""
        return self._signal({"task": "audio", "name": name, "channels": channels}, source)

    def image(self, source: Path | bytes, name: str, frames: Frames = "first") -> Signal:
        """As `read_image`."""
        return self._signal({"task": "image", "name": name, "frames": frames}, source)

    def check(self, source: Path | bytes, name: str, policy: Policy | None = None) -> dict[str, Any]:
        """As `check_file(...).as_dict(values=True)`; a file that goes over the limits is refused by them."""
        about = {} if policy is None else asdict(policy)
        try:
            answer, _ = self._ask({"task": "check", "name": name, **about}, source)
        except (ItemFailed, TooLarge) as error:
            from streamfeat.inspection import Check, kind_of_name

            return Check(name, kind_of_name(name), error).as_dict(values=True)
        found: dict[str, Any] = answer["check"]
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self._process = None

    def _signal(self, request: dict[str, Any], source: Path | bytes) -> Signal:
        import numpy as np

        from streamfeat.signals.signal import Signal

        about, body = self._ask(request, source)
        samples = np.frombuffer(body, about["dtype"]).reshape(about["shape"])
        return Signal(about["kind"], samples, about["rate_hz"], request["name"])

    def _ask(self, request: dict[str, Any], source: Path | bytes) -> tuple[dict[str, Any], bytearray]:
        """Send a request and wait for its answer; whatever goes wrong, the next request finds a process again."""
        body = source if isinstance(source, bytes) else b""
        request["path"] = None if isinstance(source, bytes) else os.fspath(source.absolute())
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        deadline = time.monotonic() + self.limits.seconds + GRACE_S
        try:
            _send(process.stdin.fileno(), request, body, deadline)
            answer, payload = _receive(process.stdout, deadline)
        except (EOFError, BrokenPipeError, TimeoutError) as error:
            raise self._ended(request["name"], late=isinstance(error, TimeoutError)) from None
        except BaseException:  # half an answer is left in the pipe
            self.close()
            raise
        if not answer["ok"]:
            raise error_from_code(answer["code"], answer["reason"])
        return answer, payload

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-m", "streamfeat.decoding", str(self.limits.seconds)]
            self._process = subprocess.Popen(
                [*command, str(self.limits.memory_bytes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # what libraries grumble about damaged files
                start_new_session=True,  # Ctrl-C is for who asked
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            os.set_blocking(self._process.stdin.fileno(), False)
            try:
                _receive(self._process.stdout, time.monotonic() + START_S)
            except (EOFError, TimeoutError):
                self.close()
                raise ItemFailed("the decoding process cannot be started; see `streamfeat doctor`") from None
        return self._process

    def _ended(self, name: str, *, late: bool) -> StreamfeatError:
        """What to say of a file that the process did not come back from."""
        assert self._process is not None
        if late:
            self._process.kill()
        status = self._process.wait()
        self.close()
        if late or status == -signals.SIGALRM:
            return ItemFailed(
                f"{name}: decoding was stopped after {self.limits.seconds:g} s; convert the file, or cut it"
            )
        how = signals.Signals(-status).name if status < 0 else f"status {status}"
        return ItemFailed(f"{name}: the decoding process died of this file ({how}); convert it with another program")


def _framed(about: dict[str, Any], payload: bytes | memoryview) -> tuple[bytes, bytes | memoryview]:
    text = json.dumps(about).encode()
    return _LENGTHS.pack(len(text), len(payload)) + text, payload


def _write(pipe: IO[bytes], about: dict[str, Any], payload: bytes | memoryview = b"") -> None:
    for piece in _framed(about, payload):
        pipe.write(piece)
    pipe.flush()


def _send(descriptor: int, about: dict[str, Any], payload: bytes, deadline: float) -> None:
    """As `_write`, into a pipe that does not block; TimeoutError if nobody takes it."""
    for piece in _framed(about, payload):
        left = memoryview(piece)
        while left:
            if not select.select([], [descriptor], [], max(0.0, deadline - time.monotonic()))[1]:
                raise TimeoutError
            left = left[os.write(descriptor, left) :]


def _receive(pipe: IO[bytes], deadline: float) -> tuple[dict[str, Any], bytearray]:
    n_text, n_payload = _LENGTHS.unpack(_read(pipe, _LENGTHS.size, deadline))
    return json.loads(_read(pipe, n_text, deadline)), _read(pipe, n_payload, deadline)


def _read(pipe: IO[bytes], n_bytes: int, deadline: float) -> bytearray:
    """So many bytes, or EOFError or TimeoutError."""
    found = bytearray()
    descriptor = pipe.fileno()
    while len(found) < n_bytes:
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        piece = os.read(descriptor, min(n_bytes - len(found), 1 << 20))
        if not piece:
            raise EOFError
        found += piece
    return found


@dataclass(frozen=True, slots=True)
class Bounded:
    """A recording or picture that a decoder reads in place of this process."""

    name: str
    label: str | int | None
    reader: Callable[[], Signal]

    def read(self) -> Signal:
        """The signal, read now."""
        return self.reader()


def bounded_recordings(utterances: Sequence[Utterance], decoder: Decoder, channels: Channels) -> list[Bounded]:
    """The recordings of a corpus, read by a decoder."""

    def reader(u: Utterance) -> Callable[[], Signal]:
        return lambda: decoder.audio(u.source(), u.name, channels)

    return [Bounded(u.name, u.label, reader(u)) for u in utterances]


def bounded_pictures(pictures: Sequence[Picture], decoder: Decoder, frames: Frames) -> list[Bounded]:
    """The pictures of some paths; files are read by a decoder, rows of arrays need no decoding."""

    def reader(p: Picture) -> Callable[[], Signal]:
        source = p.source
        return (lambda: decoder.image(source, p.name, frames)) if isinstance(source, Path) else p.read

    return [Bounded(p.name, p.label, reader(p)) for p in pictures]


# --- the process ------------------------------------------------------------------------------------------------------


def main() -> None:
    """Answer requests on standard input until it ends."""
    limits = Limits(float(sys.argv[1]), int(sys.argv[2]))
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not reach the answers
    import streamfeat.inspection  # noqa: F401 - before the limit of memory is drawn and before the first file

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ceiling = _address_space() + limits.memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))
    _write(answers, {"ok": True})
    while lengths := questions.read(_LENGTHS.size):
        n_text, n_payload = _LENGTHS.unpack(lengths)
        request = json.loads(questions.read(n_text))
        body = questions.read(n_payload)
        source = body if request["path"] is None else Path(request["path"])
        signals.setitimer(signals.ITIMER_REAL, limits.seconds)  # its default action ends the process, whatever it does
        about, payload = _handle(request, source, limits)
        signals.setitimer(signals.ITIMER_REAL, 0)
        _write(answers, about, payload)


def _handle(request: dict[str, Any], source: Path | bytes, limits: Limits) -> tuple[dict[str, Any], bytes | memoryview]:
    """Do what a request asks for."""
    name = request["name"]
    try:
        if request["task"] == "check":
            return {"ok": True, "check": _check(request, source)}, b""
        signal = _read_signal(request, source)
    except StreamfeatError as error:
        return {"ok": False, "code": error.code, "reason": error.reason}, b""
    except MemoryError:
        said = (
            f"{name}: decoding needs more than {limits.memory_bytes >> 20} MiB of memory; cut the file or scale it down"
        )
        return {"ok": False, "code": TooLarge.code, "reason": said}, b""
    x = signal.samples
    about = {"ok": True, "kind": signal.kind, "rate_hz": signal.rate_hz, "dtype": x.dtype.str, "shape": x.shape}
    return about, x.data.cast("B")


def _check(request: dict[str, Any], source: Path | bytes) -> dict[str, Any]:
    from streamfeat.inspection import Policy, check_bytes, check_file

    policy = Policy(request.get("channels"), request.get("frames", "first"))
    if isinstance(source, bytes):
        return check_bytes(source, request["name"], policy=policy).as_dict(values=True)
    return check_file(source, name=request["name"], policy=policy).as_dict(values=True)


def _read_signal(request: dict[str, Any], source: Path | bytes) -> Signal:
    from streamfeat.signals.audio import read_audio
    from streamfeat.signals.image import read_image

    if request["task"] == "audio":
        return read_audio(source, name=request["name"], channels=request["channels"])
    return read_image(source, name=request["name"], frames=request["frames"])


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
