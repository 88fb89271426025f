"""What the C library does with memory that is freed: kept for what comes next.

Each picture lays out some 16 MB anew and frees the ones before. Left alone, glibc gives so much back to the kernel, and
takes it again page by page: 3,000 page faults a picture, a tenth of its time.
"""

from __future__ import annotations

import ctypes

# As <malloc.h> of glibc numbers them.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_MOST_MMAP = 32 << 20  # glibc takes no more on 64 bits
_KEPT = 256 << 20


def keep_freed() -> bool:
    """Ask for it, for this process, before threads begin; returns whether the C library knows how."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # A thread's own arena gives back whatever its top has free; under one lock of Python's, one arena is enough.
    wanted = ((_ARENA_MAX, 1), (_MMAP_THRESHOLD, _MOST_MMAP), (_TRIM_THRESHOLD, _KEPT))
    return all(mallopt(name, value) for name, value in wanted)
