"""Messages of several frames through a socket, without waiting.

pyzmq's own `send_multipart` and `recv_multipart` do the same at twice the cost of a frame: 1.3 us each way instead of
0.6, eight times on the way of an item.
"""

from __future__ import annotations

from collections.abc import Sequence

import zmq

from streamfeat.wire.messages import Frame

COPIED_BYTES = 16 << 10
"""Larger frames are passed on without a copy. Broker time an item of 200 kB: 300 us instead of 500; 40 kB: 160, both;
400 B: 70, both. (Frames below 8 KiB would keep alive a buffer that they share.)"""

_NOW = int(zmq.DONTWAIT)  # of plain integers: every | of pyzmq's flags takes as long as the call
_MORE = _NOW | int(zmq.SNDMORE)


def send(socket: zmq.Socket[bytes], frames: Sequence[Frame]) -> None:
    """Hand a message over, all of it or none; no frame is copied, and what was received is passed on as it is.

    Raises
    ------
    zmq.Again
        There is no room.
    zmq.ZMQError
        Of a ROUTER: there is no such peer.
    """
    for frame in frames[:-1]:
        socket.send(_as_received(frame), _MORE, False)
    socket.send(_as_received(frames[-1]), _NOW, False)


def receive(socket: zmq.Socket[bytes]) -> list[zmq.Frame]:
    """The next message.

    Raises
    ------
    zmq.Again
        None is there.
    """
    frame = socket.recv(_NOW, False)
    frames = [frame]
    while frame.more:
        frame = socket.recv(_NOW, False)
        frames.append(frame)
    return frames


def _as_received(frame: Frame) -> Frame | zmq.Frame:
    """The frame behind a view that `contents` gave: libzmq counts who has it, and pyzmq need not watch it."""
    behind: object = frame.obj if isinstance(frame, memoryview) else None
    return behind if isinstance(behind, zmq.Frame) else frame


def contents(frames: Sequence[zmq.Frame]) -> list[Frame]:
    """What is in these frames; of large ones a view."""
    return [frame.buffer if len(frame) > COPIED_BYTES else frame.bytes for frame in frames]
