"""The dead letter: what is kept of an item that ended too many workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamfeat.wire.leases import Lease
from streamfeat.wire.messages import Item


@dataclass(frozen=True, slots=True)
class Letter:
    """An item that was quarantined: enough to look at it, and to send it again from where it was.

    Parameters
    ----------
    route : tuple of str
        The stages that were left, as a client names them.
    bank : str or None
        Hash of the bank that the route is about.
    options : dict
        For the last stage.
    client, id : str and int
        Whose it was, and under which number.
    attempt : int
    lost_with : tuple of str
        Names of the workers that went away while they had it.
    reason : str
    item : Item
        As the workers got it.
    """

    route: tuple[str, ...]
    bank: str | None
    options: dict[str, Any]
    client: str
    id: int
    attempt: int
    lost_with: tuple[str, ...]
    reason: str
    item: Item

    @classmethod
    def of(cls, lease: Lease, reason: str) -> Letter:
        """The letter about a lease that is about to be given up."""
        left = lease.route.stages[lease.step :]
        return cls(
            route=tuple("features" if stage.startswith("features:") else stage for stage in left),
            bank=lease.route.bank,
            options=dict(lease.route.options),
            client=lease.client.run,
            id=lease.id,
            attempt=lease.attempt,
            lost_with=tuple(lease.lost_with),
            reason=reason,
            item=Item(dict(lease.fields), lease.arrays),
        )
