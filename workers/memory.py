"""How a process keeps the memory that it uses again and again, an item after another."""

from __future__ import annotations

import ctypes
import gc

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""What glibc's malloc.h calls them."""

KEPT_BYTES = 64 << 20
"""Free memory at the end of the heap above which it goes back to the kernel."""

MAPPED_BYTES = 32 << 20
"""Longer arrays are mapped for themselves, and given back at once; the most that glibc takes."""

COLLECTED_OBJECTS = 50_000
"""New objects that a collection waits for. Next to nothing here is in a cycle, and after 700, the default, collections
went through ten thousand remembered replies again and again: a twentieth of the broker's time."""


def keep_memory() -> None:
    """Keep what the allocator freed, and leave what is there now alone when garbage is collected.

    Call it before the first item. By default the temporary arrays of a batch go back to the kernel, and the next one's
    pages are faulted in and cleared anew: an eighth of a fleet's CPU time where items are seconds of speech. A libc
    without mallopt goes on as it would.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTED_OBJECTS)
