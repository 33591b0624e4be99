"""What a learner and an index share: a feature log for each name below the state directory, and items on their way.

STATE/<name>/log.sqlite      what was acknowledged
STATE/<name>/model-NNNN/     a learner's views of it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from streamfeat.errors import ConfigError, InvalidArgument, NotFound, StreamfeatError, TooLarge
from streamfeat.featurelog import Entry, FeatureLog, Receipt
from streamfeat.payloads import item_to_feature
from streamfeat.wire.messages import Item

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

MOST_LOGS = 1000
"""Names that anybody may make by storing something under them: each costs four open files as long as the worker runs,
of the 16384 that `launch` asks for."""


class Logs:
    """The logs below a state directory, each opened once and held.

    Parameters
    ----------
    state : Path
        Made where it is not there.
    n_most : int
        Logs that may be there; those that are there already are opened in any case.

    Raises
    ------
    ConfigError
        The directory cannot be made; a log is held by another process, or is no log.
    """

    def __init__(self, state: Path, n_most: int = MOST_LOGS) -> None:
        self.state, self._n_most = state, n_most
        try:
            state.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"the state directory {state} cannot be made: {error.strerror}; name another with --state-dir, or "
                "give this user the right to make it"
            ) from error
        found = sorted(path.parent.name for path in state.glob("*/log.sqlite"))
        self._logs = {name: FeatureLog(self.folder(name) / "log.sqlite") for name in found}

    @property
    def names(self) -> list[str]:
        """Of the logs there are."""
        return list(self._logs)

    def folder(self, name: str) -> Path:
        """Where everything of that name lies."""
        if not NAME.fullmatch(name):
            raise InvalidArgument(f"a name is 1 to 64 of a-z 0-9 . _ - and starts with a letter or digit, got {name!r}")
        return self.state / name

    def get(self, name: str) -> FeatureLog:
        """The log of that name.

        Raises
        ------
        NotFound
            Nothing was ever stored under it.
        """
        if name not in self._logs:
            raise NotFound(f"nothing is known as {name!r}; there are: {', '.join(self._logs) or 'none'}")
        return self._logs[name]

    def append(
        self, name: str, items: Sequence[Item], beat: Callable[[int], None], *, need_label: bool
    ) -> list[Receipt | StreamfeatError]:
        """Store items, made into entries; on disk when this returns. An item that is refused fails alone."""
        read = [_entry_or_error(item, need_label=need_label) for item in items]
        refused = [entry for entry in read if isinstance(entry, StreamfeatError)]
        if len(refused) == len(read):  # nothing was stored under that name: no log is made
            return [*refused]
        log = self._open(name)
        receipts: list[Receipt | StreamfeatError] = []
        with log.transaction():
            for entry in read:
                try:
                    receipts.append(entry if isinstance(entry, StreamfeatError) else log.put(*entry))
                except StreamfeatError as error:
                    receipts.append(error)
                beat(0)
        return receipts

    def _open(self, name: str) -> FeatureLog:
        """The log of that name, made if there is none."""
        log = self._logs.get(name)
        if log is None:
            folder = self.folder(name)
            if len(self._logs) >= self._n_most:
                raise TooLarge(
                    f"{len(self._logs)} names are in use and no more may be; use one of them, or have one removed"
                )
            log = self._logs[name] = FeatureLog(folder / "log.sqlite")
        return log

    def close(self) -> None:
        """Let go of all of them."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()


def feature_of(item: Item) -> tuple[NDArray[Any], str]:
    """The feature that an item carries and the hash of its bank.

    Raises
    ------
    InvalidArgument
        No feature, or nobody said which bank it is of.
    """
    feature = item_to_feature(item)
    bank = item.fields.get("bank")
    if not bank:
        raise InvalidArgument("a feature needs the hash of its bank; name the bank in the request")
    return feature, str(bank)


def entry_of(item: Item, *, need_label: bool) -> tuple[Entry, str]:
    """The log entry that an item stands for, and the hash of its bank."""
    feature, bank = feature_of(item)
    fields = item.fields
    label = fields.get("label")
    if label is None and need_label:
        raise InvalidArgument("learning needs a label, got an item without one")
    entry = Entry(fields["stream"], fields["seq"], feature, label, fields.get("group"), fields.get("name"))
    return entry, bank


def _entry_or_error(item: Item, *, need_label: bool) -> tuple[Entry, str] | StreamfeatError:
    try:
        return entry_of(item, need_label=need_label)
    except StreamfeatError as error:
        return error


def committed(item: Item, receipt: Receipt) -> Item:
    """What is answered for an entry that is on disk."""
    key = {"stream": item.fields["stream"], "seq": item.fields["seq"]}
    return Item({"ok": True, "kind": "committed", **key, "duplicate": receipt.duplicate})


def known_options(options: Mapping[str, Any], known: Sequence[str], stage: str) -> None:
    """Refuse an option that the stage does not have."""
    for name in options:
        if name not in known:
            raise InvalidArgument(f"{stage} has no option {name!r}; it has {', '.join(known) or 'none'}")
