"""What an operator may change in a running broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamfeat.errors import InvalidArgument, NotFound
from streamfeat.wire.messages import Message

if TYPE_CHECKING:
    from streamfeat.wire.peers import Worker
    from streamfeat.wire.routing import Broker


def operate(broker: Broker, order: Message) -> list[Worker]:
    """Carry out an ADMIN message; the workers that it is about.

    drain: they get nothing new and finish what they have. resume: they get work again. reload: the caller is to send
    them RELOAD.

    Raises
    ------
    InvalidArgument
        drain and resume are about one worker, which was not named.
    NotFound
        No worker of that name is here.
    """
    act, name = order.fields["act"], order.fields.get("worker")
    if name is None and act != "reload":
        raise InvalidArgument(f"{act} is about one worker: name it")
    about = [worker for worker in broker.workers.values() if name in (None, worker.name)]
    if not about:
        names = ", ".join(sorted(worker.name for worker in broker.workers.values())[:20])
        raise NotFound(f"no worker {name or ''} is here; there are: {names or 'none'}")
    for worker in about:
        if act == "reload":
            continue
        worker.resting = act == "drain"
        if worker.resting or worker.draining:
            broker.services.leave(worker)
        else:
            broker.services.join(worker)
    return about
