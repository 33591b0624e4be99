"""A client's connection for asyncio: the event loop waits in place of a thread.

The loop watches the connection's file descriptors and its next moment, and calls `Connection.turn` without a wait; all
decisions stay there. Whoever waits for an item has a future.
"""

from __future__ import annotations

import asyncio
from typing import Any

from streamfeat.client import result_of
from streamfeat.connection import LOOK_EVERY_S, Connection
from streamfeat.errors import InvalidArgument, StreamfeatError
from streamfeat.payloads import Job, Result
from streamfeat.wire.outstanding import Errand, Outcome


class AsyncConnection:
    """A connection of the tasks of one event loop.

    Parameters
    ----------
    connection : Connection
        Made in the loop's thread, and used by nobody else.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watched: tuple[int, ...] = ()
        self._next_turn: asyncio.Handle | None = None
        self._known = asyncio.Event()  # how connecting went
        self._failure: Exception | None = None
        self._waiting: set[asyncio.Future[Any]] = set()
        self._reporting: set[asyncio.Future[dict[str, Any]]] = set()
        self._withdrawn: list[int] = []
        self._errand = Errand(())

    async def connect(self) -> None:
        """Say hello and wait for the welcome; at once if there was one.

        Raises
        ------
        StreamfeatError
            As `Connection.connect`.
        """
        self._check()
        if self._connection.welcomed:
            return
        self._connection.open()
        if not self._watched:
            self._watched = self._connection.filenos()
            for fileno in self._watched:
                asyncio.get_running_loop().add_reader(fileno, self._turn)
        self._turn()
        try:
            async with asyncio.timeout(self._connection.connect_timeout_s):
                await self._known.wait()
        except TimeoutError:
            raise self._connection.why_unavailable() from None
        self._check()

    async def close(self) -> None:
        """Say goodbye and let go of the socket; items under way are withdrawn. Closing twice is harmless."""
        self._unwatch()
        self._connection.withdraw()
        context = self._connection.leave()
        self._fail(InvalidArgument("this client is closed; make a new one"))
        if context is not None:
            await asyncio.to_thread(context.term)

    def start(self, job: Job, errand: Errand, timeout_s: float) -> asyncio.Future[Result]:
        """The result of a job that is sent now; one that cannot travel ends here. Cancelling it withdraws the item."""
        self._check()
        future: asyncio.Future[Result] = self._expect()

        def end(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(result_of(job, outcome))

        if errand != self._errand:  # the connection puts items of the very same errand into one request
            self._errand = errand
        try:
            number = self._connection.submit(self._errand, job.to_item(), timeout_s, end)
        except StreamfeatError as error:
            end(Outcome(None, None, error, 0.0))
            return future

        def ended(done: asyncio.Future[Result]) -> None:
            if done.cancelled():
                self._withdrawn.append(number)
                self._turn_later(0.0)

        future.add_done_callback(ended)
        self._turn_later(0.0)
        return future

    async def report(self, timeout_s: float) -> dict[str, Any]:
        """The broker's report.

        Raises
        ------
        Unavailable
            No report in time.
        """
        await self.connect()
        if not self._reporting:
            self._connection.take_report()  # one that was too late for who asked
        report: asyncio.Future[dict[str, Any]] = self._expect()
        self._reporting.add(report)
        report.add_done_callback(self._reporting.discard)
        try:
            async with asyncio.timeout(timeout_s):
                while not report.done():
                    pause_s = self._connection.heartbeat_s if self._connection.ask_report() else LOOK_EVERY_S
                    self._turn_later(0.0)
                    await asyncio.wait([report], timeout=pause_s)
                return report.result()
        except TimeoutError:
            raise self._connection.no_report(timeout_s) from None
        finally:
            report.cancel()

    def withdraw(self) -> int:
        """Give up all items; how many were open."""
        self._check()
        n_open = self._connection.withdraw()
        self._turn_later(0.0)
        return n_open

    def _turn(self) -> None:
        """Let the connection do what is due, and come again when more will be."""
        if not self._watched:  # closed, or failed
            return
        try:
            withdrawn, self._withdrawn = self._withdrawn, []
            if withdrawn:
                self._connection.withdraw(withdrawn)
            self._turn_later(self._connection.turn(0.0))
        except Exception as error:  # of a callback of the loop nobody would hear
            self._fail(error)
            return
        if self._reporting and (report := self._connection.take_report()) is not None:
            for future in self._reporting:
                if not future.done():
                    future.set_result(report)
        if self._connection.welcomed:
            self._known.set()

    def _turn_later(self, wait_s: float) -> None:
        """Have the next turn in that time; never, if it is infinite. What comes before makes its own."""
        if self._next_turn is not None:
            self._next_turn.cancel()
        self._next_turn = None
        if self._loop is None or wait_s == float("inf"):
            return
        self._next_turn = self._loop.call_later(wait_s, self._turn) if wait_s > 0 else self._loop.call_soon(self._turn)

    def _fail(self, error: Exception) -> None:
        """Tell everybody who waits, now or later."""
        self._failure = self._failure or error
        self._unwatch()
        self._known.set()
        for future in tuple(self._waiting):
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever is gone needs no reminder

    def _unwatch(self) -> None:
        self._turn_later(float("inf"))
        if self._loop is not None:
            for fileno in self._watched:
                self._loop.remove_reader(fileno)
        self._watched = ()

    def _expect(self) -> asyncio.Future[Any]:
        """A future that fails with the connection."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def _check(self) -> None:
        """Raise in another loop, thread or process than this client's, after `close`, and what ended the connection."""
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if loop is not self._loop:
            raise InvalidArgument("this client was used in another event loop; make a client in each")
        if self._failure is not None:
            raise self._failure
        self._connection.check_owner()
