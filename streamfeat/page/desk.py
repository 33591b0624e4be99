"""The desk behind the page: one thread asks the fleet how it is, one tries what browsers drop, nothing else grows."""

from __future__ import annotations

import asyncio
import hmac
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from streamfeat.admin import ask
from streamfeat.client import Client
from streamfeat.config import Settings
from streamfeat.deadletters import DeadLetters
from streamfeat.decoding import Decoder, Limits
from streamfeat.errors import (
    CallerError,
    ConfigError,
    InternalError,
    OperatorError,
    Overloaded,
    PermissionDenied,
    StreamfeatError,
)
from streamfeat.inquiry import credentials_for, fleet_report
from streamfeat.page.gallery import Gallery
from streamfeat.page.history import History
from streamfeat.page.trial import Asked, Stages, Trial
from streamfeat.wire.messages import Message

EVERY_S = 1.0
MOST_ASKING = 4
"""Files that are being read, wait or are tried; one more is told to come back."""

N_LETTERS = 20
SHORTEST_KEY = 16
LIMITS = Limits(seconds=5.0, memory_bytes=512 << 20)

T = TypeVar("T")

log = logging.getLogger("streamfeat.page")


class Desk:
    """What the page knows and may do.

    Parameters
    ----------
    settings : Settings
        Endpoints, keys and waits.
    connect : str, optional
        The broker's endpoint for clients, where it is not that of the settings.
    stages : Stages
        Models and indexes that are asked.
    gallery : Gallery, optional
    letters : DeadLetters, optional
        Where it can be looked at.
    admin_key : str, optional
        Who says it may give orders; None: nobody may.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        connect: str | None = None,
        stages: Stages | None = None,
        gallery: Gallery | None = None,
        letters: DeadLetters | None = None,
        admin_key: str | None = None,
    ) -> None:
        self.history = History()
        self._settings, self._connect, self._gallery = settings, connect, gallery
        self._letters, self._admin_key = letters, admin_key
        self._decoder = Decoder(LIMITS)
        self._trial = Trial(self._decoder, stages or Stages(), gallery)
        self._pool = ThreadPoolExecutor(1, "trial")
        self._n_asking = 0
        self._shown_letters: dict[str, dict[str, Any]] = {}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def takes_orders(self) -> bool:
        """Whether an admin key was given."""
        return self._admin_key is not None

    def start(self, orphaned: Callable[[], bool] = lambda: False, leave: Callable[[], None] = lambda: None) -> None:
        """Begin to ask the fleet; `leave` is called once `orphaned` is true."""
        self._threads = [threading.Thread(target=self._watch, args=(orphaned, leave), name="watch", daemon=True)]
        if self._gallery is not None:
            self._threads.append(threading.Thread(target=self._fill, name="gallery", daemon=True))
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop asking, end the decoding process."""
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)
        self._decoder.close()
        self._threads[0].join(1 + self._settings.client.connect_timeout_s)

    def state(self, since: int) -> dict[str, Any]:
        """What a browser that knows sample number `since` is told."""
        about = {"letters": list(self._shown_letters.values()), "orders": self.takes_orders}
        return {**self.history.since(since), **about, "n_gallery": len(self._gallery or ())}

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place among those who ask: taken before a file is read, so that few files are in memory at once.

        Raises
        ------
        Overloaded
            All are taken.
        """
        if self._n_asking >= MOST_ASKING:
            raise Overloaded(f"{MOST_ASKING} others ask already; try again in a moment")
        self._n_asking += 1
        try:
            yield
        finally:
            self._n_asking -= 1

    async def answer(self, asked: Asked) -> dict[str, Any]:
        """See `Trial.answer`."""
        return await self._in_turn(lambda client: self._trial.answer(client, asked))

    async def curve(self, asked: Asked) -> dict[str, Any]:
        """See `Trial.curve`."""
        return await self._in_turn(lambda client: self._trial.curve(client, asked))

    async def order(self, key: str, act: str, worker: str | None) -> dict[str, Any]:
        """Have the broker drain, resume or reload.

        Raises
        ------
        PermissionDenied
            No admin key was given to the page, or another one.
        StreamfeatError
            What the broker says against it.
        """
        if self._admin_key is None:
            raise PermissionDenied("this page is read-only; start it with --admin-key to give orders here")
        if not hmac.compare_digest(key.encode(), self._admin_key.encode()):
            raise PermissionDenied("that is not the admin key of this page")
        if self._connect is not None:
            raise PermissionDenied("this page was told a front alone; start it without --connect to give orders here")
        fields = {"act": act} if worker is None else {"act": act, "worker": worker}
        admin = self._settings.fleet.admin
        keys = credentials_for(admin, self._settings)
        return await asyncio.to_thread(ask, admin, Message("ADMIN", fields), credentials=keys)

    async def _in_turn(self, act: Callable[[Client], T]) -> T:
        """Do it in the one thread that has the decoder, with a client of its own."""

        def turn() -> T:
            with self._client() as client:
                return act(client)

        return await asyncio.get_running_loop().run_in_executor(self._pool, turn)

    def _client(self) -> Client:
        endpoint, waits = self._connect or self._settings.fleet.front, self._settings.client
        keys = credentials_for(endpoint, self._settings)
        return Client(endpoint, timeout_s=waits.timeout_s, connect_timeout_s=waits.connect_timeout_s, credentials=keys)

    def _watch(self, orphaned: Callable[[], bool], leave: Callable[[], None]) -> None:
        while not self._stop.wait(EVERY_S):
            if orphaned():
                leave()
            try:
                self._look()
            except Exception:  # a bug, or a report of another version: said, and looked at again
                log.exception("the fleet's report cannot be shown")
                self.history.miss(time.time(), InternalError.code)

    def _look(self) -> None:
        """One sample, and the newest dead letters."""
        try:
            report = fleet_report(self._settings, self._connect)
        except StreamfeatError as error:
            self.history.miss(time.time(), error.code)
            return
        self.history.add(time.time(), report)
        if self._letters is not None:
            names = self._letters.names()[-N_LETTERS:]
            known = self._shown_letters
            self._shown_letters = {name: known.get(name) or _letter(self._letters, name) for name in names}

    def _fill(self) -> None:
        """The gallery, once a fleet is there that can encode it."""
        assert self._gallery is not None
        while not self._stop.is_set():
            try:
                with self._client() as client:
                    banks = [digest for _, digest in sorted(client.status()["banks"].items())]
                    if banks:
                        self._gallery.fill(client, banks)
                        return
            except CallerError as error:
                log.error("corpus: %s", error)
                return
            except OperatorError as error:
                log.info("corpus: %s; asking again", error.code)
            self._stop.wait(EVERY_S)


def open_admin_key(file: Path) -> str:
    """The admin key in a file that its owner alone can read.

    Raises
    ------
    ConfigError
        No such file, one that others can read, or a key that is too short.
    """
    try:
        mode, key = file.stat().st_mode, file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"admin key {file}: cannot be read as text: {error}; write a long secret into it") from error
    if mode & 0o077:
        raise ConfigError(f"admin key {file}: others may read it; chmod 600 it")
    if len(key) < SHORTEST_KEY:
        raise ConfigError(f"admin key {file}: {len(key)} characters, {SHORTEST_KEY} are needed; write a longer secret")
    return key


def _letter(letters: DeadLetters, name: str) -> dict[str, Any]:
    """A dead letter as a browser shows it; of the item's name no folder."""
    try:
        filed = letters.open(name)
    except StreamfeatError as error:
        return {"at": 0, "reason": f"a letter that cannot be read ({error.code})", "route": [], "item": ""}
    item = str(filed.letter.item.fields.get("name", "")).rpartition("/")[2]
    route = list(filed.letter.route)
    return {"at": filed.written, "reason": filed.letter.reason, "route": route, "item": item}
