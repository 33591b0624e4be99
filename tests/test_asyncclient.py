"""The client for asyncio: what `Client` promises, for many tasks of one loop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from streamfeat import AsyncClient
from streamfeat.client import Client, Job
from streamfeat.errors import (
    Cancelled,
    DeadlineExceeded,
    InternalError,
    InvalidArgument,
    ItemFailed,
    TooLarge,
    Unavailable,
)
from streamfeat.signals import Signal
from tests.cluster import Cluster, cluster
from tests.handlers import BANK
from tests.test_client import sound


@pytest.fixture(scope="module")
def fleet() -> Iterator[Cluster]:
    """A broker and two echo workers that no test harms."""
    with cluster() as running:
        running.start_broker()
        running.start_echo("echo-1")
        running.start_echo("echo-2")
        running.wait_ready("echo-1", "echo-2")
        yield running


async def until_idle(client: AsyncClient) -> None:
    """Until the broker has nothing open: what was withdrawn is gone there too."""
    async with asyncio.timeout(10):
        while (await client.status())["open"]:
            await asyncio.sleep(0.01)  # asks again


def test_many_tasks_at_once(fleet: Cluster) -> None:
    """A thousand tasks, each its own item: each its own answer; `as_completed` takes them too."""

    async def work() -> None:
        async with AsyncClient(fleet.front, timeout_s=30.0) as client:
            results = await asyncio.gather(*(client.submit(sound(n)) for n in range(1000)))
            for n, result in enumerate(results):
                np.testing.assert_array_equal(result.feature, n)
            first = [await done for done in asyncio.as_completed([client.submit(sound(n)) for n in range(20)])]
            assert sorted(int(result.feature[0]) for result in first) == list(range(20))

    asyncio.run(work())


def test_a_worker_that_is_killed_in_the_middle(fleet: Cluster) -> None:
    """Every item is answered all the same, in order, and so are those of tasks beside the stream."""

    async def work() -> None:
        with cluster() as running:
            running.start_broker("--heartbeat-ms", "200")
            running.start_echo("echo-1")
            running.start_echo("echo-2")
            running.wait_ready("echo-1", "echo-2")
            async with AsyncClient(running.front, timeout_s=30.0) as client:
                beside = [asyncio.create_task(client.submit(sound(n, "sleep:0.02"))) for n in range(20)]
                seen = []
                async for result in client.stream(sound(n, "sleep:0.01") for n in range(150)):
                    seen.append(int(result.feature[0]))
                    if len(seen) == 20:
                        running.signal("echo-1", signal.SIGKILL)
                assert seen == list(range(150))
                assert all(result.ok for result in await asyncio.gather(*beside))

    assert fleet.processes
    asyncio.run(work())


def test_a_broker_that_is_started_again() -> None:
    """SIGKILL of the broker: what is open is asked again of the next one, under the same ids."""

    async def work() -> None:
        with cluster() as running:
            running.start_broker("--heartbeat-ms", "200")
            running.start_echo("echo-1")
            running.wait_ready("echo-1")
            async with AsyncClient(running.front, timeout_s=30.0) as client:
                assert (await client.submit(sound(0))).ok
                under_way = [asyncio.create_task(client.submit(sound(n, "sleep:0.05"))) for n in range(10)]
                await asyncio.sleep(0.1)
                running.signal("broker", signal.SIGKILL)
                await asyncio.to_thread(running.start_broker, "--heartbeat-ms", "200")
                results = await asyncio.gather(*under_way)
                assert [int(result.feature[0]) for result in results] == list(range(10))

    asyncio.run(work())


def test_items_end_at_their_deadline(fleet: Cluster) -> None:
    """One that is slow ends with DeadlineExceeded, in time; a task beside it is answered meanwhile."""

    async def work() -> None:
        async with AsyncClient(fleet.front, timeout_s=10.0) as client:
            began = time.monotonic()
            slow = asyncio.create_task(client.submit(sound(1, "sleep:1"), timeout_s=0.3))
            assert (await client.submit(sound(2))).ok
            assert not slow.done()
            result = await slow
            assert isinstance(result.error, DeadlineExceeded)
            assert 0.3 <= time.monotonic() - began < 0.9
            with pytest.raises(DeadlineExceeded):
                _ = result.feature

    asyncio.run(work())


def test_a_cancelled_task_withdraws_its_item(fleet: Cluster) -> None:
    """The broker forgets it, its neighbours are answered, and a timeout of asyncio does the same."""

    async def work() -> None:
        async with AsyncClient(fleet.front, timeout_s=30.0) as client:
            before = (await client.status())["answered"]
            kept = asyncio.create_task(client.submit(sound(7)))
            slow = [asyncio.create_task(client.submit(sound(n, "sleep:0.05"))) for n in range(300)]
            await asyncio.sleep(0.1)
            for task in slow:
                task.cancel()
            await asyncio.wait(slow)
            assert sum(task.cancelled() for task in slow) > 200  # the others were answered in that time
            assert (await kept).ok
            await until_idle(client)
            assert (await client.status())["answered"] - before < 200  # of 301: the others were never computed
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await client.submit(sound(1, "sleep:0.5"))
            await until_idle(client)
            assert (await client.submit(sound(8))).ok

    asyncio.run(work())


def test_cancel_ends_what_is_under_way(fleet: Cluster) -> None:
    """Each open job ends as Cancelled; its task is not cancelled, and the client goes on."""

    async def work() -> None:
        async with AsyncClient(fleet.front) as client:
            under_way = [asyncio.create_task(client.submit(sound(n, "sleep:0.05"))) for n in range(40)]
            assert (await under_way[0]).ok
            assert client.cancel() > 10
            ends = [type((await task).error) for task in under_way]
            assert Cancelled in ends
            assert (await client.submit(sound(5))).ok

    asyncio.run(work())


@pytest.mark.parametrize("ordered", [True, False])
def test_jobs_are_pulled_as_there_is_room(fleet: Cluster, ordered: bool) -> None:
    """An endless source that waits: no more than the window is pulled ahead; leaving withdraws the rest."""
    pulled = 0

    async def endless() -> AsyncIterator[Job]:
        nonlocal pulled
        while True:
            pulled += 1
            await asyncio.sleep(0)
            yield sound(pulled)

    async def work() -> None:
        async with AsyncClient(fleet.front) as client:
            async with contextlib.aclosing(client.stream(endless(), window=20, ordered=ordered)) as stream:
                taken: list[int] = []
                async for result in stream:
                    taken.append(int(result.feature[0]))
                    assert pulled <= len(taken) + 20
                    if len(taken) == 100:
                        break
            if ordered:
                assert taken == list(range(1, 101))
            await until_idle(client)

    asyncio.run(work())


def test_results_come_before_the_source_goes_on(fleet: Cluster) -> None:
    """A live source that waits for what was said of its last item: nothing is held back for the next."""

    async def work() -> None:
        async with AsyncClient(fleet.front, timeout_s=10.0) as client:
            heard = asyncio.Event()

            async def live() -> AsyncIterator[Job]:
                for n in range(5):
                    yield sound(n)
                    await heard.wait()
                    heard.clear()

            async for result in client.stream(live()):
                assert result.ok
                heard.set()

    asyncio.run(work())


def test_one_failure_is_one_result(fleet: Cluster) -> None:
    """A job that cannot travel, one that the worker refuses, one that is its fault: the others go on."""
    jobs = [sound(0), sound(1, n_samples=9 << 20), sound(2, "refuse"), sound(3, "boom"), Job(None), sound(5)]

    async def work() -> None:
        async with AsyncClient(fleet.front) as client:
            ends = [type(result.error) async for result in client.stream(jobs)]
            assert ends == [type(None), TooLarge, ItemFailed, InternalError, InvalidArgument, type(None)]
            with pytest.raises(InternalError, match="error id"):
                await client.features([Signal("audio", np.zeros(3, np.int16), 8000, "boom")])

    asyncio.run(work())


def test_an_error_of_the_source_is_the_callers(fleet: Cluster) -> None:
    """It comes through, and what was under way is withdrawn."""

    def broken() -> Iterator[Job]:
        yield sound(0)
        raise OSError("disk gone")

    async def work() -> None:
        async with AsyncClient(fleet.front) as client:
            with pytest.raises(OSError, match="disk gone"):
                [result async for result in client.stream(broken(), ordered=False)]
            await until_idle(client)
            assert [result async for result in client.stream([])] == []

    asyncio.run(work())


def test_the_same_answers_as_the_other_client(fleet: Cluster) -> None:
    """To the bit, from lists and from asynchronous sources; no signals give no rows."""
    signals = [job.payload for job in map(sound, range(50))]

    async def one_by_one() -> AsyncIterator[Any]:
        for each in signals:
            yield each

    async def work() -> None:
        with Client(fleet.front) as other:
            expected = other.features(signals, bank=BANK)  # type: ignore[arg-type]
        async with AsyncClient(fleet.front) as client:
            np.testing.assert_array_equal(await client.features(signals, bank=BANK), expected)  # type: ignore[arg-type]
            np.testing.assert_array_equal(await client.features(one_by_one()), expected)
            assert (await client.features([])).shape == (0, 0)

    asyncio.run(work())


def test_a_stage_that_nobody_serves_is_reported(fleet: Cluster) -> None:
    """UNAVAILABLE or the deadline, as of the other client, for each way to ask."""

    async def work() -> None:
        async with AsyncClient(fleet.front, timeout_s=0.5) as client:
            with pytest.raises(Unavailable, match="fit:digits"):
                await client.fit("digits", timeout_s=0.5)
            for asked in (
                client.classify([sound().payload], "digits"),  # type: ignore[list-item]
                client.search([sound().payload], "digits"),  # type: ignore[list-item]
                client.learn([Job(sound().payload, label="a")], "digits"),
                client.insert([sound()], "digits"),
            ):
                with pytest.raises((Unavailable, DeadlineExceeded)):
                    await asked

    asyncio.run(work())


@pytest.mark.parametrize("arguments", [{"window": 0}, {"timeout_s": 0}, {"timeout_s": float("inf")}])
def test_impossible_streams_are_refused_at_the_call(fleet: Cluster, arguments: dict[str, Any]) -> None:
    """Not when the first result is asked for."""

    async def work() -> None:
        async with AsyncClient(fleet.front) as client:
            with pytest.raises(InvalidArgument, match=next(iter(arguments))):
                client.stream([sound()], **arguments)

    asyncio.run(work())
