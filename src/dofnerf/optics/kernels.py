"""Compile numba kernels once and run them on bands of rows in threads.

The kernels release the GIL, so plain Python threads run them side by side. numba's own parallel loops would tie us to a
threading layer that may be missing, and whose fallback aborts the process when two Python threads use it at once
(viewers do).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numba
import torch

_WORKER = "dofnerf"
_BANDS_PER_THREAD = 2  # so that a thread with a sharp band can help out with a blurred one
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's settings
_KEPT, _OWN_PAGES = 256 << 20, 32 << 20  # bytes; the second is the most that glibc allows


def _keep_memory() -> None:
    """Let glibc keep freed memory for the next picture. It gives large arrays back to the system, and to get them anew,
    page by page, takes a third of the time of a picture of two megapixels. The user's own settings win."""
    tuned = "malloc" in os.environ.get("GLIBC_TUNABLES", "") or any(name.startswith("MALLOC_") for name in os.environ)
    if sys.platform != "linux" or tuned:
        return
    with contextlib.suppress(AttributeError, OSError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_MMAP_THRESHOLD, _OWN_PAGES)


_keep_memory()


def compiled(function: Callable) -> Callable:
    """numba.njit with the GIL released and the machine code cached on disk (in memory only, where no folder is
    writable)."""
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": {"contract", "arcp", "nsz", "afn", "reassoc"},
        # Else a run that compiles may call another copy of a helper, rounded otherwise, than later runs.
        "forceinline": True,
    }
    try:
        made = numba.njit(cache=True, **options)(function)
    except RuntimeError:
        return numba.njit(**options)(function)
    _forgive_damage(made._cache)
    return made


def _forgive_damage(cache: Any) -> None:
    """Let numba drop a cache file that cannot be read, such as one that a full disk cut off, and compile again."""
    load = cache.load_overload

    def load_overload(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception:  # unpickling raises whatever the broken bytes lead to
            with contextlib.suppress(OSError):
                cache.flush()
            return None

    cache.load_overload = load_overload


class _Own(threading.local):
    threads = 0  # of the kernels that this thread calls, if not as many as torch uses


_own = _Own()


def _threads() -> int:
    return _own.threads or torch.get_num_threads()


@contextlib.contextmanager
def single_threaded_torch(alone: bool = True) -> Iterator[None]:
    """torch's own operations take one thread, our kernels as many as before: to wake up another one takes longer than
    it saves on small arrays. With `alone` false, nothing changes."""
    threads, before = torch.get_num_threads(), _own.threads
    if not alone or threads == 1:
        yield
        return
    _own.threads = threads
    torch.set_num_threads(1)
    try:
        yield
    finally:
        _own.threads = before
        torch.set_num_threads(threads)


def run_jobs(kernel: Any, rows: int, arguments: tuple, least: int = 1, per_thread: int = _BANDS_PER_THREAD) -> None:
    """Call kernel(first_row, last_row, *arguments) for bands of `least` rows or more, in as many threads as torch uses.

    More bands `per_thread` balance better where rows differ much in what they cost.
    """
    threads = 1 if threading.current_thread().name.startswith(_WORKER) else max(1, min(_threads(), rows))
    bands = max(1, min(rows // least, threads * per_thread if threads > 1 else 1))
    edges = [rows * i // bands for i in range(bands + 1)]
    if not kernel.overloads:
        with _say_if_slow(kernel):
            kernel(0, 0, *arguments)
    if bands == 1:
        kernel(0, rows, *arguments)
        return
    for job in [_pool(threads, os.getpid()).submit(kernel, a, b, *arguments) for a, b in pairwise(edges)]:
        job.result()


def run_each(work: Callable[[int], None], count: int) -> None:
    """Call work(i) for i in range(count), side by side in as many threads as torch uses.

    Kernels that `work` runs by `run_jobs` each stay in its thread.
    """
    threads = _threads()
    if threads == 1 or count == 1:
        for i in range(count):
            work(i)
        return
    for job in [_pool(threads, os.getpid()).submit(work, i) for i in range(count)]:
        job.result()


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """One pool per process: threads do not survive a fork."""
    return ThreadPoolExecutor(threads, thread_name_prefix=_WORKER)


class _say_if_slow:
    """Tells the user, after a second and once, that the silence is compilation, if it is: a cache may be slow to read,
    too."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    def __enter__(self) -> None:
        self.timer = threading.Timer(1.0, self._look)
        self.timer.daemon = True
        self.timer.start()

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()

    def _look(self) -> None:
        if self.kernel.stats.cache_misses:
            self._say()

    @staticmethod
    @cache
    def _say() -> None:
        print(
            "dofnerf: compiling the CPU kernels (once; later runs find them in a cache) …", file=sys.stderr, flush=True
        )
