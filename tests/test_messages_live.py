"""Messages as others got them wrong, in our frames, through a broker and a worker that run: each refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq
from numpy.typing import NDArray

from streamfeat.client import Client
from streamfeat.signals import Signal
from streamfeat.wire.codec import decode, encode
from streamfeat.wire.messages import Message
from tests.terminal import Terminal

TONE = np.round(9000 * np.sin(np.arange(4000) / 5)).astype("<i2")
AUDIO = {"kind": "audio", "rate_hz": 8000}
RUN = "ab" * 8


class Raw:
    """A client that says whatever it likes."""

    def __init__(self, endpoint: str) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)
        self.socket.send_multipart(
            encode(Message("HELLO", {"protocol": [1, 1], "role": "client", "peer": RUN})), copy=True
        )
        assert self.hear().verb == "WELCOME"

    def hear(self) -> Message:
        """The next message that is not a PING."""
        while True:
            assert self.socket.poll(10_000), "the broker says nothing"
            message = decode(self.socket.recv_multipart())
            if message.verb != "PING":
                return message
            self.socket.send_multipart(encode(Message("PONG")))

    def answer(self, frames: list[bytes]) -> str:
        """What comes of these frames: the reason of the error, or the kind of the result."""
        self.socket.send_multipart(frames)
        heard = self.hear()
        if heard.verb == "ERROR":
            return str(heard.fields["reason"])
        fields = heard.items[0].fields
        return str(fields["kind"] if fields["ok"] else fields["error"]["reason"])

    def close(self) -> None:
        """Leave."""
        self.socket.send_multipart(encode(Message("BYE")))
        self.socket.close()
        self.context.term()


@pytest.fixture
def raw(served: Terminal) -> Iterator[Raw]:
    """A raw client of the fleet that all share."""
    made = Raw(served.front)
    yield made
    made.close()


def frames(header: bytes, *payload: bytes) -> list[bytes]:
    """A REQUEST with this header."""
    return [b"SF1", b"REQUEST", header, *payload]


def request(array: NDArray[Any], number: int, signal: Any = AUDIO, **spec: Any) -> list[bytes]:
    """A request with one signal; `spec` says otherwise than the array is."""
    about = {"dtype": array.dtype.str, "shape": list(array.shape), **spec}
    item = {"id": number, "signal": signal, "arrays": [about]}
    header = {"route": ["features"], "bank": "digits-audio", "ttl_ms": 20_000, "items": [item]}
    return frames(msgpack.packb(header), array.tobytes())


def packed(**changed: Any) -> bytes:
    """A good header but for what is changed."""
    return bytes(msgpack.packb({"route": ["features"], "ttl_ms": 1000, "items": [{"id": 9}], **changed}))


BAD: list[tuple[str, list[bytes], str]] = [
    ("integer keys", frames(msgpack.packb({1: 2})), "key"),
    ("bytes keys", frames(msgpack.packb({b"id": 2})), "b'id'"),
    ("bad utf-8", frames(b"\x81\xa1a\xa1\xff"), "utf-8"),
    ("same key twice", frames(b"\x82\xa2id\x01\xa2id\x02"), "'id' is there twice"),
    ("trailing bytes", frames(packed() + b"\0\0"), "2 bytes after it"),
    ("cut short", frames(packed()[:-5]), "one valid msgpack map"),
    ("an HTTP request", frames(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "one map"),
    ("extension type", frames(packed(options={"a": msgpack.ExtType(99, b"x")})), "extension"),
    ("objects", request(TONE, 1, dtype="|O"), "dtype"),
    ("text", request(TONE, 2, dtype="<U8"), "dtype"),
    ("shape over its bytes", request(TONE, 3, shape=[8000]), "needs 16000 bytes, 8000 came"),
    ("negative dimension", request(TONE, 4, shape=[-1]), "got -1"),
    ("a shape that overflows", request(TONE, 5, shape=[2**31 - 1] * 4), "needs"),
    ("no samples", request(TONE[:0], 6), "got 0"),
    ("no rate", request(TONE, 7, signal={"kind": "audio"}), "rate_hz"),
    ("a rate that is text", request(TONE, 8, signal={"kind": "audio", "rate_hz": "20000"}), "rate_hz must be integer"),
    ("NaN", request(np.array([0, np.nan, 0, 0], "<f4"), 9), "non-finite sample at 1"),
    ("two channels", request(np.stack([TONE, TONE], axis=1), 10), "(4000, 2)"),
]


@pytest.mark.parametrize(("sent", "words"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_each_fault_is_refused_by_name(raw: Raw, sent: list[bytes], words: str) -> None:
    """The answer says what was wrong, and the next request, a good one, is computed."""
    assert words in raw.answer(sent)
    assert raw.answer(request(TONE, 100)) == "features"


@pytest.mark.parametrize("dtype", ["<f4", "<f8", ">i2", ">f4", "<i2"])
def test_good_values_give_one_feature(served: Terminal, raw: Raw, dtype: str) -> None:
    """The same samples as float32, float64 and 16 bits of either order: equal features, and the worker lives on."""
    samples = (TONE / 32768).astype(dtype) if "f" in dtype else TONE.astype(dtype)
    raw.socket.send_multipart(request(samples, 1))
    got = raw.hear().items[0].arrays[0].to_numpy()
    with Client(served.front) as client:
        [wanted] = client.features([Signal("audio", TONE, 8000)], bank="digits-audio")
    np.testing.assert_array_equal(got, wanted)
