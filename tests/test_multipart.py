"""Messages of several frames: whole, in order, or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from streamfeat.multipart import COPIED_BYTES, contents, receive, send

FRAMES: list[Any] = [
    b"SF1",
    b"",
    bytes(range(200)),
    bytearray(b"x" * COPIED_BYTES),
    memoryview(b"y" * (COPIED_BYTES + 1)),
]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
    """A DEALER and the ROUTER that it is connected to; two messages fill the way between them."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router, dealer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    for socket in (router, dealer):
        socket.linger = 0
        socket.hwm = 1
    router.router_mandatory = True
    dealer.identity = b"peer"
    router.bind(f"ipc://{tmp_path}/pair.sock")
    dealer.connect(f"ipc://{tmp_path}/pair.sock")
    yield dealer, router
    dealer.close()
    router.close()
    context.term()


def test_frames_arrive_as_they_were(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """Bytes for bytes; small ones as copies, large ones as views; pyzmq reads what we send and the other way round."""
    dealer, router = pair
    send(dealer, FRAMES)
    assert router.poll(5000)
    peer, *frames = receive(router)
    came = contents(frames)
    assert [bytes(frame) for frame in came] == [bytes(frame) for frame in FRAMES]
    assert [type(frame) for frame in came] == [bytes, bytes, bytes, bytes, memoryview]
    send(router, [peer.bytes, *came])
    assert dealer.poll(5000)
    assert dealer.recv_multipart() == [bytes(frame) for frame in FRAMES]
    dealer.send_multipart([b"alone"])
    assert router.poll(5000)
    assert contents(receive(router)) == [b"peer", b"alone"]


def test_nobody_waits(pair: tuple[zmq.Socket[bytes], zmq.Socket[bytes]]) -> None:
    """Nothing there, no room, no such peer: each raises at once, and half a message is never sent."""
    dealer, router = pair
    with pytest.raises(zmq.Again):
        receive(router)
    with pytest.raises(zmq.ZMQError) as raised:
        send(router, [b"nobody", b"a", b"b"])
    assert raised.value.errno == zmq.EHOSTUNREACH
    n_sent = 0
    with contextlib.suppress(zmq.Again):
        while n_sent < 100_000:  # until the buffers of the unix socket are full as well
            send(dealer, [b"number", b"%d" % n_sent, b"." * 1000])
            n_sent += 1
    assert 0 < n_sent < 100_000
    for n in range(n_sent):
        assert router.poll(5000)
        assert contents(receive(router))[1:3] == [b"number", b"%d" % n]
