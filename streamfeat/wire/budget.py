"""The payload held for all clients together, and what each may have of it.

Part of the limit is divided among as many clients as may ever connect: each has its `reserve`, whatever the others do.
The rest is a pool, of which a client may hold as much as is left over. So one alone gets half of the pool; where n want
more than there is, each comes to hold about 1 / (n + 1) of it, without anyone counting them, and as much is left for
the next to come. He waits for no more than a few answers to those who hold more: they get no more until they hold less
than is free. First come, first served would let the greedy take each byte that comes free.

The rule for the pool is that of dynamic queue thresholds (Choudhury and Hahne, IEEE/ACM Transactions on Networking
6(2), 1998) with factor 1.
"""

from __future__ import annotations

from streamfeat.wire.peers import Client

_RESERVED = 4
"""One part in four is reserved: of the usual limits, 131 kB for each of 1000 clients, three seconds of speech."""


class Budget:
    """Bytes in use, by all and beyond the reserves.

    Parameters
    ----------
    limit : int
        Bytes for all clients together.
    max_clients : int
        As many have a reserve.
    """

    def __init__(self, limit: int, max_clients: int) -> None:
        self.limit = limit
        self.reserve = limit // _RESERVED // max_clients
        self.pool = limit - self.reserve * max_clients
        self.n_bytes = 0
        self._pooled = 0

    def room(self, client: Client) -> int:
        """Bytes that the client may be given now; none if less than nothing."""
        return self.reserve - client.held + max(0, self.pool - self._pooled)

    def move(self, client: Client, n_bytes: int) -> None:
        """So many more are held for the client, or fewer.

        Only the door keeps to `room`: what grew on its way, a feature larger than its signal, is held all the same,
        and until that much is free again the pool is closed.
        """
        before = max(0, client.held - self.reserve)
        client.held += n_bytes
        self.n_bytes += n_bytes
        self._pooled += max(0, client.held - self.reserve) - before
