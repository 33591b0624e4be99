"""One example of each verb, and the golden frames made of them: the wire, held still.

`python -m tests.golden` writes schemas/golden anew; do that only when the protocol is meant to change.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamfeat.wire.codec import encode
from streamfeat.wire.messages import Array, Frame, Item, Message

FOLDER = Path(__file__).parent.parent / "schemas" / "golden"

BANK = "0123456789abcdef" * 4
RUN = "c0ffee00c0ffee00"
WAVE = Array.of(np.array([0, 1, -1, 32767, -32768], "<i2"))
PIXELS = Array.of(np.arange(6, dtype="|u1").reshape(2, 3))
MATRIX = Array.of(np.array([[0.5, 1.35], [1.35, 0.5]], "<f8"))
FEATURE = Array.of(np.array([7, 0, 65535], "<u2"))
SCORES = Array.of(np.array([0.5, -0.25], "<f4"))
IDS = Array.of(np.array([3, 2**40], "<i8"))
DISTANCES = Array.of(np.array([0.0, 1.5], "<f4"))

EXAMPLES = {
    "HELLO_client": Message(
        "HELLO", {"protocol": [1, 1], "role": "client", "peer": RUN, "software": "streamfeat 0.1.0"}
    ),
    "HELLO_worker": Message(
        "HELLO",
        {
            "protocol": [1, 1],
            "role": "worker",
            "peer": RUN,
            "software": "streamfeat 0.1.0",
            "name": "features-1",
            "kind": "features",
            "stages": ["features"],
            "banks": {"digits-audio": BANK},
            "credit": {"items": 32, "bytes": 16777216},
            "in_hand": 8,
            "pid": 4711,
            "host": "here",
        },
    ),
    "WELCOME": Message(
        "WELCOME",
        {
            "protocol": 1,
            "broker": RUN,
            "heartbeat_ms": 1000,
            "liveness": 3,
            "credit": {"items": 512, "bytes": 67108864},
            "limits": {"item_bytes": 16777216, "message_items": 256, "message_bytes": 67108864},
            "banks": {"digits-audio": BANK},
        },
    ),
    "REQUEST": Message(
        "REQUEST",
        {
            "route": ["features", "classify:digits"],
            "bank": "digits-audio",
            "ttl_ms": 30000,
            "options": {"classes": True},
        },
        (
            Item({"id": 1, "signal": {"kind": "audio", "rate_hz": 20000}, "name": "9a.wav"}, (WAVE,)),
            Item(
                {"id": 2, "stream": "mic", "seq": 7, "label": 3, "group": "ae", "signal": {"kind": "image"}}, (PIXELS,)
            ),
        ),
    ),
    "REQUEST_array": Message(
        "REQUEST",
        {"route": ["features"], "bank": "molecules", "ttl_ms": 30000},
        (Item({"id": 4, "signal": {"kind": "array"}, "name": "H2"}, (MATRIX,)),),
    ),
    "REQUEST_fit": Message("REQUEST", {"route": ["fit:digits"], "ttl_ms": 60000}, (Item({"id": 3}),)),
    "TASK": Message(
        "TASK",
        {"stage": f"features:{BANK}"},
        (Item({"id": 41, "ttl_ms": 29990, "stream": RUN, "seq": 1, "signal": {"kind": "image"}}, (PIXELS,)),),
    ),
    "RESULT": Message(
        "RESULT",
        {"stage": f"features:{BANK}"},
        (
            Item({"id": 41, "ok": True, "kind": "features", "bank": BANK, "compute_ms": 1.25}, (FEATURE,)),
            Item({"id": 42, "ok": False, "error": {"code": "ITEM_FAILED", "reason": "9a.wav: too short"}}),
        ),
    ),
    "RETURN": Message("RETURN", {"ids": [43, 44]}),
    "REPLY": Message(
        "REPLY",
        {},
        (
            Item(
                {
                    "id": 1,
                    "ok": True,
                    "kind": "label",
                    "label": "nine",
                    "score": 0.5,
                    "classes": ["nine", 9],
                    "bank": BANK,
                    "worker": "learner",
                    "attempt": 1,
                    "queue_ms": 0.5,
                    "compute_ms": 0.125,
                },
                (SCORES,),
            ),
            Item({"id": 2, "ok": True, "kind": "neighbours", "labels": ["nine", None]}, (IDS, DISTANCES)),
            Item({"id": 3, "ok": True, "kind": "committed", "stream": RUN, "seq": 3, "duplicate": False, "dup": True}),
            Item(
                {
                    "id": 4,
                    "ok": True,
                    "kind": "fit",
                    "lam": 0.5,
                    "n_items": 10,
                    "n_classes": 2,
                    "accuracy": 0.75,
                    "criterion": "loo",
                }
            ),
            Item(
                {"id": 5, "ok": False, "error": {"code": "OVERLOADED", "reason": "queue full", "retry_after_ms": 200}}
            ),
        ),
    ),
    "ERROR": Message("ERROR", {"code": "HELLO_FIRST", "reason": "unknown peer", "verb": "REQUEST", "ids": [1, 2]}),
    "CANCEL": Message("CANCEL", {"ids": [1, 2]}),
    "PING": Message("PING", {"busy_ms": 5000}),
    "PONG": Message("PONG"),
    "STATUS": Message("STATUS"),
    "REPORT": Message("REPORT", {"report": {"uptime_s": 1.5, "workers": [{"name": "features-1"}]}}),
    "ADMIN": Message("ADMIN", {"act": "drain", "worker": "features-1"}),
    "RELOAD": Message("RELOAD"),
    "DRAIN": Message("DRAIN"),
    "BYE": Message("BYE", {"reason": "stopping"}),
}


def as_json(message: Message, frames: Sequence[Frame]) -> dict[str, Any]:
    """The message in words and, as hex, in frames."""
    return {
        "verb": message.verb,
        "fields": message.fields,
        "items": [
            {
                "fields": item.fields,
                "arrays": [
                    {"dtype": a.dtype, "shape": list(a.shape), "data": bytes(a.data).hex()} for a in item.arrays
                ],
            }
            for item in message.items
        ],
        "frames": [bytes(frame).hex() for frame in frames],
    }


if __name__ == "__main__":
    for name, message in EXAMPLES.items():
        text = json.dumps(as_json(message, encode(message)), indent=1)
        (FOLDER / f"{name}.json").write_text(text + "\n", "utf-8")
