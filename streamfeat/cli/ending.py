"""SIGTERM and Ctrl-C: how a command that runs in the foreground is told to end."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

AGAIN_S = 0.05
"""After which a signal is sent again that came where nothing can be raised."""
COMPILER = "llvmlite."
"""Numba's compiler. C code of it calls Python code of it, and drops what is raised there with a line on standard error:
a signal that comes meanwhile, which is handled in the first Python code that runs, would be lost."""


def take_signals() -> None:
    """SIGTERM ends a command as Ctrl-C does: a fleet of its own is stopped, its directory removed. Main thread only.

    Where Ctrl-C is ignored, as by commands behind `&` in a script, it stays so.
    """
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: FrameType | None) -> None:
    if _compiles(frame):
        threading.Timer(AGAIN_S, os.kill, (os.getpid(), number)).start()
    elif number == signal.SIGINT:
        raise KeyboardInterrupt
    else:
        raise SystemExit(128 + number)


def _compiles(frame: FrameType | None) -> bool:
    """Whether a frame, or what called it, is the compiler's."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(COMPILER):
            return True
        frame = frame.f_back
    return False
