"""What can go wrong, sorted by who must act.

    StreamfeatError
    ├── CallerError          the one who sent it: mend the input
    │   ├── InvalidArgument  INVALID_ARGUMENT
    │   ├── BankMismatch     BANK_MISMATCH     features of another bank
    │   ├── NotFound         NOT_FOUND         no such bank, model or index
    │   ├── TooLarge         TOO_LARGE
    │   ├── ItemFailed       ITEM_FAILED       this item could not be computed, its neighbours could
    │   ├── Cancelled        CANCELLED
    │   ├── Quarantined      QUARANTINED       the item ended three workers
    │   ├── PermissionDenied PERMISSION_DENIED the key is known and may not do that
    │   └── VersionMismatch  VERSION_MISMATCH
    ├── OperatorError        the one who runs the fleet: start, free or configure something
    │   ├── ConfigError      CONFIG            exit status 78, not restarted
    │   │   └── Unauthenticated  UNAUTHENTICATED  the broker does not know the key: unknown, or revoked
    │   │       ├── NoKey             it wants keys, and there is none here
    │   │       ├── WrongServerKey    it is another one than the key here is of
    │   │       └── ServerWithoutKeys it takes none, and there is one here
    │   ├── Overloaded       OVERLOADED        try again after retry_after_ms
    │   ├── Unavailable      UNAVAILABLE       nobody there, or nobody that serves it
    │   │   ├── NobodyListens    no process at the endpoint
    │   │   ├── Unreachable      no answer from the network: a wrong address, a firewall
    │   │   └── BrokerSilent     a process is there and says nothing: stopped, stuck, or no broker
    │   ├── WorkerLost       WORKER_LOST
    │   └── DeadlineExceeded DEADLINE_EXCEEDED
    └── InternalError        INTERNAL          us: a bug

Every class carries the code that travels on the wire; `error_from_code` is the way back.
A message says what was needed, what came, and what to do.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_SOME_FAILED = 3
EXIT_USAGE = 64
EXIT_UNAVAILABLE = 69
EXIT_INTERNAL = 70
EXIT_CONFIG = 78


class StreamfeatError(Exception):
    """Root of every error that streamfeat raises on purpose."""

    code = "INTERNAL"
    exit_status = EXIT_INTERNAL

    @property
    def reason(self) -> str:
        """The message alone, as it travels on the wire."""
        return str(self)


class CallerError(StreamfeatError):
    """The input is at fault; sending it again unchanged gives the same answer."""

    code = "INVALID_ARGUMENT"
    exit_status = EXIT_USAGE


class InvalidArgument(CallerError, ValueError):
    """A value, file or message breaks a stated rule."""


class BankMismatch(CallerError):
    """Features of one bank met a learner or an index of another."""

    code = "BANK_MISMATCH"


class NotFound(CallerError):
    """No bank, model or index of that name."""

    code = "NOT_FOUND"


class TooLarge(CallerError):
    """Over a limit of size; the message names the limit."""

    code = "TOO_LARGE"


class ItemFailed(CallerError):
    """This item could not be computed; its neighbours are not touched."""

    code = "ITEM_FAILED"


class Cancelled(CallerError):
    """Withdrawn before it was computed."""

    code = "CANCELLED"


class Quarantined(CallerError):
    """The item was with a worker when it died, too many times."""

    code = "QUARANTINED"


class PermissionDenied(CallerError):
    """The key is known to the broker, which did not give it the right."""

    code = "PERMISSION_DENIED"


class VersionMismatch(CallerError):
    """The two sides speak no common protocol version."""

    code = "VERSION_MISMATCH"


class OperatorError(StreamfeatError):
    """The fleet or its settings are at fault; the same input may work later."""

    code = "UNAVAILABLE"
    exit_status = EXIT_UNAVAILABLE


class ConfigError(OperatorError):
    """A setting is missing, unknown or impossible. Restarting does not help."""

    code = "CONFIG"
    exit_status = EXIT_CONFIG


class Unauthenticated(ConfigError):
    """The broker does not take the key: unknown to it, or revoked."""

    code = "UNAUTHENTICATED"


class NoKey(Unauthenticated):
    """The broker wants keys, and this peer has none."""


class WrongServerKey(Unauthenticated):
    """The broker is not the one whose public key this peer has."""


class ServerWithoutKeys(Unauthenticated):
    """This peer has keys, and whoever listens there takes none: not the broker that it was meant for."""


class Overloaded(OperatorError):
    """A queue or a credit is used up; `retry_after_ms` says when to come back."""

    code = "OVERLOADED"

    def __init__(self, message: str, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class Unavailable(OperatorError):
    """Nobody answers, or nobody serves what was asked for."""


class NobodyListens(Unavailable):
    """There is no process at the endpoint."""


class Unreachable(Unavailable):
    """The network does not answer: neither a connection nor a refusal."""


class BrokerSilent(Unavailable):
    """A process is there and does not answer: stopped, stuck, or no broker."""


class WorkerLost(OperatorError):
    """The workers that held the item went away and none is left to take it."""

    code = "WORKER_LOST"


class DeadlineExceeded(OperatorError, TimeoutError):
    """The time to live ran out before the answer was there."""

    code = "DEADLINE_EXCEEDED"


class InternalError(StreamfeatError):
    """A bug of ours; the log has the trace."""


_BY_CODE: dict[str, type[StreamfeatError]] = {
    c.code: c
    for c in (
        InvalidArgument,
        BankMismatch,
        NotFound,
        TooLarge,
        ItemFailed,
        Cancelled,
        Quarantined,
        PermissionDenied,
        VersionMismatch,
        ConfigError,
        Unauthenticated,
        Overloaded,
        Unavailable,
        WorkerLost,
        DeadlineExceeded,
        InternalError,
    )
}
CODES = tuple(_BY_CODE)


def error_from_code(code: str, reason: str, retry_after_ms: int = 0) -> StreamfeatError:
    """The error that a wire code stands for.

    An unknown code (a newer peer) becomes `InternalError` with the code in its message.
    """
    if code == Overloaded.code:
        return Overloaded(reason, retry_after_ms)
    cls = _BY_CODE.get(code)
    if cls is None:
        return InternalError(f"{code}: {reason}")
    return cls(reason)
