"""Who is there, on a clock that the test turns. What follows for items: test_admission, test_worker_loss."""

from __future__ import annotations

from typing import Any

import pytest

from streamfeat.errors import ConfigError, Overloaded
from streamfeat.wire.ledger import Ledger
from streamfeat.wire.messages import Message
from streamfeat.wire.presence import _NAMES, Presence
from streamfeat.wire.services import Services
from streamfeat.wire.settings import BrokerSettings
from tests.fleet import BANK, Fleet, signal


def empty(**settings: Any) -> Presence:
    """Nobody is there; three heartbeats of a second, and a client may be silent for ten."""
    given = BrokerSettings(**{"client_silence_s": 10.0, **settings})
    return Presence(given, Ledger(given), Services(), 0.0)


def client(run: str) -> dict[str, Any]:
    """Its HELLO."""
    return {"protocol": [1, 1], "role": "client", "peer": run}


def worker(name: str, run: str, **fields: Any) -> dict[str, Any]:
    """Its HELLO: features of BANK unless told otherwise."""
    credit = {"items": 2, "bytes": 1000}
    usual = {"kind": "features", "stages": ["features"], "banks": {"digits": BANK}, "credit": credit}
    return {"protocol": [1, 1], "role": "worker", "peer": run, "name": name, **usual, **fields}


def test_a_client_is_its_run() -> None:
    """Under another address it is the same; another run under its address is another; above the limit nobody comes."""
    presence = empty(max_clients=2)
    presence.join_client(b"a", client("first"), 0.0)
    [first] = presence.clients.values()
    presence.join_client(b"b", client("first"), 1.0)
    assert presence.clients == {b"b": first}
    presence.join_client(b"b", client("second"), 2.0)
    assert presence.clients[b"b"].run == "second"
    presence.join_client(b"a", client("first"), 3.0)
    assert presence.clients[b"a"] is not first
    with pytest.raises(Overloaded, match="limit of 2 clients"):
        presence.join_client(b"c", client("third"), 4.0)
    presence.forget(presence.clients[b"a"], "left")
    presence.join_client(b"c", client("third"), 5.0)
    assert set(presence.clients) == {b"b", b"c"}


def test_a_worker_is_its_name() -> None:
    """A new run takes the older one's place and is counted as a restart; HELLO said again is neither."""
    presence = empty()
    for run in ("one", "one", "two"):
        presence.join_worker(run.encode(), worker("w1", run), 0.0)
    assert set(presence.workers) == {b"two"}
    assert presence.restarts == {"w1": 1}
    presence.remove(presence.workers[b"two"])
    presence.join_worker(b"three", worker("w1", "three"), 0.0)
    assert presence.restarts == {"w1": 2}


def test_a_worker_that_says_hello_again_is_no_news() -> None:
    """It says so until it is answered: noted once, and again for other stages or a connection made anew."""
    given = BrokerSettings()
    ledger = Ledger(given)
    presence = Presence(given, ledger, Services(), 0.0)
    for fields in ({}, {}, {"afresh": True}, {"stages": ["features", "fit:*"]}):
        presence.join_worker(b"one", worker("w1", "one", **fields), 0.0)
    noted = [note.rpartition(" joined: ")[2] for note in ledger.notes]
    assert noted == ["features", "features", "features, fit:*"]


def test_who_has_an_owners_stage_keeps_it() -> None:
    """The second owner is refused, and the first one stays."""
    presence = empty()
    presence.join_worker(b"one", worker("learner", "one", stages=["learn:*"], banks={}), 0.0)
    with pytest.raises(ConfigError, match="served by worker 'learner'"):
        presence.join_worker(b"two", worker("other", "two", stages=["learn:m"], banks={}), 0.0)
    assert set(presence.workers) == {b"one"}


def test_the_silent_are_gone_and_the_busy_are_not() -> None:
    """Three heartbeats for workers, ten seconds for clients; who said that it is busy has until then."""
    presence = empty()
    for name in ("silent", "busy"):
        presence.join_worker(name.encode(), worker(name, name), 0.0)
        presence.join_client(name.encode(), client(name), 0.0)
    presence.hear_worker(presence.workers[b"busy"], 20.0, 1.0)
    presence.hear_client(presence.clients[b"busy"], 20.0, 1.0)
    left = []
    for quarter in range(100):
        now = quarter / 4
        if now >= presence.next_sweep:
            presence.sweep(now)
        left.append((now, len(presence.workers), len(presence.clients)))
    assert {row[1:]: row[0] for row in reversed(left)} == {
        (2, 2): 0.0,
        (1, 2): 3.0,
        (1, 1): 10.0,
        (0, 0): 21.0,
    }


def test_a_broker_that_was_away_gives_everyone_the_time_again() -> None:
    """Stopped for a minute: what they said meanwhile is still in the sockets."""
    presence = empty()
    presence.join_worker(b"w", worker("w", "w"), 0.0)
    presence.join_client(b"c", client("c"), 0.0)
    presence.sweep(60.0)
    assert (len(presence.workers), len(presence.clients)) == (1, 1)
    for now in (61.0, 62.0, 63.0):
        presence.sweep(now)
    assert (len(presence.workers), len(presence.clients)) == (0, 1)


def pings(fleet: Fleet, client: bytes) -> int:
    """How often the client was asked whether it is there."""
    return sum(message.verb == "PING" for message in fleet.messages("front", client))


def test_a_client_that_is_heard_is_not_asked_and_a_silent_one_once_a_while() -> None:
    """Its own PINGs are enough; without them it is asked once in as many heartbeats as a worker may miss."""
    fleet = Fleet(heartbeat_ms=1000, liveness=3, client_silence_s=60.0)
    heard, silent = fleet.client(b"heard"), fleet.client(b"silent")
    for _ in range(30):
        fleet.send("front", heard, Message("PING"))
        fleet.pass_time(1)
    assert pings(fleet, heard) == 0
    assert 8 <= pings(fleet, silent) <= 10
    assert set(fleet.broker.clients) == {heard, silent}  # stopped, or behind a bad link: it may come back
    fleet.send("front", silent, Message("PONG"))
    fleet.pass_time(59)
    assert silent in fleet.broker.clients
    fleet.pass_time(2)
    assert silent not in fleet.broker.clients


def test_clients_that_vanished_make_room_when_they_cannot_be_reached() -> None:
    """As many as there may be ended without a word: the next one is let in after seconds, not after a minute."""
    fleet = Fleet(max_clients=3, heartbeat_ms=1000, liveness=3)
    vanished = [fleet.client(b"gone%d" % n) for n in range(3)]
    fleet.worker(credit={"items": 1, "bytes": 1000})
    for client in vanished:
        fleet.request(client, [signal(1)])
    newcomer = fleet.client(b"new")
    assert fleet.messages("front", newcomer)[-1].fields["code"] == "OVERLOADED"
    fleet.pass_time(3.5)
    for client in vanished:
        assert pings(fleet, client) == 1
        fleet.lose("front", client)  # what the loop says of a message that could not be sent
    fleet.client(newcomer)
    assert fleet.messages("front", newcomer)[-1].verb == "WELCOME"
    assert (fleet.count("n_clients"), fleet.count("retained_bytes")) == (1, 0)


def test_names_of_workers_are_remembered_within_bounds() -> None:
    """Workers that come once under ever new names leave nothing that grows."""
    fleet = Fleet()
    for n in range(_NAMES + 10):
        fleet.send("back", fleet.worker(f"w{n}"), Message("BYE"))
        fleet.inbox.clear()
    assert len(fleet.broker.presence.restarts) <= _NAMES
