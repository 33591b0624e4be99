"""A connection that an event loop drives: who may use it, how it ends, and what it costs while nothing happens."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamfeat import AsyncClient
from streamfeat.asyncconnection import AsyncConnection
from streamfeat.client import connection_to
from streamfeat.connection import Connection
from streamfeat.errors import InvalidArgument, Unavailable, VersionMismatch
from streamfeat.wire.outstanding import Errand
from tests.cluster import Cluster, cluster
from tests.test_client import handles_and_threads, sound


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cluster]:
    """A broker and an echo worker."""
    with cluster() as running:
        running.start_broker()
        running.start_echo("echo-1")
        running.wait_ready("echo-1")
        yield running


def test_nobody_there_is_told_in_time_and_blocks_nobody(tmp_path: Path) -> None:
    """The same error as of the other client; another task goes on meanwhile; the next try waits again."""

    async def work() -> None:
        client = AsyncClient(f"ipc://{tmp_path}/none.sock", connect_timeout_s=0.3)
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        beside = asyncio.create_task(tick())
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(Unavailable, match="no such socket"):
                await client.connect()
            assert 0.3 <= time.monotonic() - began < 0.8
        beside.cancel()
        assert ticks >= 5
        await client.close()

    asyncio.run(work())


def test_tasks_that_connect_at_once_share_one_connection(fleet: Cluster) -> None:
    """None of them connected before: all are answered."""

    async def work() -> None:
        client = AsyncClient(fleet.front)
        results = await asyncio.gather(*(client.submit(sound(n)) for n in range(10)))
        assert [int(result.feature[0]) for result in results] == list(range(10))
        await client.close()

    asyncio.run(work())


def test_a_client_in_each_of_two_loops(fleet: Cluster) -> None:
    """Two loops in two threads at once; a client of one of them is refused in the other, and in a later loop."""
    made: list[AsyncClient] = []

    async def work(first: int) -> list[int]:
        async with AsyncClient(fleet.front) as client:
            made.append(client)
            return [
                int(result.feature[0]) async for result in client.stream(sound(n) for n in range(first, first + 50))
            ]

    found: dict[int, list[int]] = {}
    threads = [
        threading.Thread(target=lambda first=first: found.update({first: asyncio.run(work(first))}))
        for first in (0, 1000)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found == {0: list(range(50)), 1000: list(range(1000, 1050))}

    async def use_again(client: AsyncClient) -> None:
        with pytest.raises(InvalidArgument, match="another event loop; make a client in each"):
            await client.status()

    asyncio.run(use_again(made[0]))

    async def use_elsewhere() -> None:
        client = AsyncClient(fleet.front)
        said = await asyncio.to_thread(lambda: asyncio.run(told(client)))
        assert "one thread; make a client in each" in said
        await client.close()

    async def told(client: AsyncClient) -> str:
        with pytest.raises(InvalidArgument) as caught:
            await client.status()
        return str(caught.value)

    asyncio.run(use_elsewhere())


def test_closing_ends_whoever_waits(fleet: Cluster) -> None:
    """Items and streams end, closing twice is harmless, using it afterwards is an error, nothing is left open."""

    async def work() -> None:
        client = AsyncClient(fleet.front)
        await client.connect()
        item = asyncio.create_task(client.submit(sound(0, "sleep:0.3")))

        async def listen() -> None:
            async for _ in client.stream((sound(n, "sleep:0.3") for n in range(1000)), window=5):
                pass

        stream = asyncio.create_task(listen())
        await asyncio.sleep(0.05)
        await client.close()
        await client.close()
        assert "withdrawn" in str((await item).error)
        for use in (stream, client.submit(sound()), client.status(), client.connect()):
            with pytest.raises(InvalidArgument, match="closed; make a new one"):
                await use
        with pytest.raises(InvalidArgument, match="closed"):
            client.cancel()

    asyncio.run(work())
    before = handles_and_threads()[0]
    for _ in range(10):
        asyncio.run(use_once(fleet))
    assert handles_and_threads()[0] == before


async def use_once(fleet: Cluster) -> None:
    async with AsyncClient(fleet.front) as client:
        assert (await client.submit(sound(1))).ok
        assert (await client.status())["n_workers"] == 1


def test_reports_for_many_who_ask(fleet: Cluster) -> None:
    """All are answered, while items flow; a broker that is stopped gives none, in time."""

    async def work() -> None:
        async with AsyncClient(fleet.front, timeout_s=10.0) as client:
            items = [asyncio.create_task(client.submit(sound(n))) for n in range(50)]
            reports = await asyncio.gather(*(client.status() for _ in range(5)))
            assert all(report["n_workers"] == 1 for report in reports)
            assert all(result.ok for result in await asyncio.gather(*items))

    asyncio.run(work())


def test_what_ends_the_connection_is_told_to_all(fleet: Cluster) -> None:
    """A broker that refuses this client later on: who waits is told, and so is who asks afterwards."""

    class Refused(Connection):
        """One whose turns fail from some moment on, as they do when the broker says that it will not have it."""

        trouble: Exception | None = None

        def turn(self, wait_s: float) -> float:
            if self.trouble is not None:
                raise self.trouble
            return super().turn(wait_s)

    async def work() -> None:
        inner = Refused(fleet.front, 5.0, "ab" * 8)
        connection = AsyncConnection(inner)
        await connection.connect()
        waiting = [connection.start(sound(n, "sleep:5"), Errand(("features",)), 10.0) for n in range(3)]
        inner.trouble = VersionMismatch("too old")
        connection.start(sound(9), Errand(("features",)), 10.0)
        for future in waiting:
            with pytest.raises(VersionMismatch, match="too old"):
                await future
        with pytest.raises(VersionMismatch, match="too old"):
            await connection.report(1.0)
        inner.trouble = None
        await connection.close()

    asyncio.run(work())


def test_an_idle_connection_rests(fleet: Cluster) -> None:
    """Nothing under way: a few turns a heartbeat, not a loop that spins; then it answers at once again."""
    turns = 0

    class Counted(Connection):
        def turn(self, wait_s: float) -> float:
            nonlocal turns
            turns += 1
            return super().turn(wait_s)

    async def work() -> None:
        connection = AsyncConnection(Counted(fleet.front, 5.0, "cd" * 8))
        await connection.connect()
        result = await connection.start(sound(1), Errand(("features",)), 10.0)
        np.testing.assert_array_equal(result.feature, 1)
        before = turns
        await asyncio.sleep(2.0)  # the promise is about this pause
        assert turns - before <= 20
        assert (await connection.start(sound(2), Errand(("features",)), 10.0)).ok
        await connection.close()

    asyncio.run(work())


def test_news_that_any_call_may_take_is_not_lost(fleet: Cluster) -> None:
    """Five hundred items one after the other, each waited for: none waits for the next heartbeat."""

    async def work() -> None:
        connection = AsyncConnection(connection_to(fleet.front, 5.0, None, None))
        await connection.connect()
        errand = Errand(("features",))
        late = 0
        for n in range(500):
            result = await connection.start(sound(n % 100), errand, 10.0)
            late += result.latency_ms > 900
        assert late <= 2  # a machine that others use may stand still; a lost edge would cost one each time
        await connection.close()

    asyncio.run(work())
