"""Where cells are done: in this process, in a pool of processes on this machine, or by the workers of a Ray cluster.

A worker that is lost (killed, out of memory, its machine gone) costs its cell and nothing else: cells keep checkpoints
and findings in their folders, which all workers must see.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from dofnerf.evaluate.lpips import LpipsConfig
from dofnerf.files.extras import how_to_install
from dofnerf.lab.bench.cell import Cell
from dofnerf.lab.bench.work import do_cell
from dofnerf.plugins import load_plugins

LOST = "its worker was lost"
PATIENCE = 30.0  # seconds that interrupted workers have for a last checkpoint
load_plugins()  # a worker imports this module, and then unpickles a cell whose field may come from a plug-in


class Engine(Protocol):
    """Does `slots` cells at once. `end` comes last, `interrupted` or not."""

    slots: int

    def begin(self, cell: Cell) -> None: ...

    def next(self) -> tuple[Cell, str]:
        """Wait for a cell; returns it and what went wrong, or ""."""
        ...

    def end(self, interrupted: bool) -> None: ...


def attempt(cell: Cell, out: Path, lpips: LpipsConfig, threads: int | None) -> str:
    """Do a cell; returns the message of a failure, or ""."""
    try:
        do_cell(cell, out, lpips, threads)
    except Exception as error:  # whatever it is, the other cells go on
        words, name = " ".join(str(error).split()), type(error).__name__
        return (words or name) if isinstance(error, ValueError | OSError | MemoryError) else f"{name}: {words}"
    return ""


class Here:
    """This process, one after the other."""

    slots = 1

    def __init__(self, out: Path, lpips: LpipsConfig) -> None:
        self.out, self.lpips = out, lpips
        self.cell: Cell | None = None

    def begin(self, cell: Cell) -> None:
        self.cell = cell

    def next(self) -> tuple[Cell, str]:
        cell, self.cell = self.cell, None
        assert cell is not None
        return cell, attempt(cell, self.out, self.lpips, None)

    def end(self, interrupted: bool) -> None:
        pass


class Processes:
    """A new process for each cell, `jobs` at once, which share the cores."""

    def __init__(self, out: Path, lpips: LpipsConfig, jobs: int) -> None:
        self.out, self.lpips, self.slots = out, lpips, jobs
        self.threads = max(1, len(os.sched_getaffinity(0)) // jobs) if hasattr(os, "sched_getaffinity") else 1
        self.context = multiprocessing.get_context("spawn")
        self.running: dict[Connection, tuple[BaseProcess, Cell]] = {}

    def begin(self, cell: Cell) -> None:
        mine, theirs = self.context.Pipe(duplex=False)
        arguments = theirs, cell, self.out, self.lpips, self.threads
        process = self.context.Process(target=_child, args=arguments, daemon=True)
        with handled(signal.SIGINT, signal.SIG_IGN):  # it does not hear Ctrl-C: we do, and tell it once
            process.start()
        theirs.close()
        self.running[mine] = process, cell

    def next(self) -> tuple[Cell, str]:
        ready = wait(list(self.running))[0]
        assert isinstance(ready, Connection)
        process, cell = self.running.pop(ready)
        try:
            words = ready.recv()
        except EOFError:
            words = ""
            process.join()
            if process.exitcode:
                words = f"{LOST} ({'signal' if process.exitcode < 0 else 'exit'} {abs(process.exitcode)})"
        process.join()
        ready.close()
        return cell, words

    def end(self, interrupted: bool) -> None:
        """Ask the processes to stop, which then write a checkpoint; those that take too long are killed."""
        for process, _ in self.running.values():
            process.terminate()
        until = time.monotonic() + (PATIENCE if interrupted else 0)
        for process, _ in self.running.values():
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self.running.clear()


Handler = Callable[[int, Any], Any] | signal.Handlers


@contextmanager
def handled(number: signal.Signals, by: Handler) -> Iterator[None]:
    """Another handler for a signal, for a while; only possible in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, by)
    try:
        yield
    finally:
        signal.signal(number, before)


def as_by_ctrl_c(number: int, frame: FrameType | None) -> None:
    """SIGTERM is handled as Ctrl-C, also where Ctrl-C itself is ignored, as in a shell's background."""
    by_ctrl_c = signal.getsignal(signal.SIGINT)
    if not callable(by_ctrl_c):
        raise KeyboardInterrupt
    by_ctrl_c(number, frame)  # which decides the exit code


def _child(answer: Connection, cell: Cell, out: Path, lpips: LpipsConfig, threads: int) -> None:
    """The process of a cell: stops with a checkpoint when told to, or when its parent is gone."""
    if hasattr(os, "setsid"):
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, as_by_ctrl_c)
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    try:
        answer.send(attempt(cell, out, lpips, threads))
    except KeyboardInterrupt:
        with suppress(OSError):
            answer.send("interrupted")


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


class Ray:
    """The workers of a Ray cluster, or of one that is started on this machine (`address` "local")."""

    def __init__(self, out: Path, lpips: LpipsConfig, jobs: int, address: str) -> None:
        try:
            import ray
        except ImportError:
            raise ValueError(f"--ray needs the package ray: {how_to_install('ray')}") from None
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        self.ray, self.out, self.lpips, self.slots = ray, out.absolute(), lpips, jobs
        options: dict[str, Any] = {"logging_level": "ERROR"}
        if address == "local":
            options |= {"num_cpus": jobs, "log_to_driver": False, "include_dashboard": False}
        try:
            ray.init(address=address, **options)
        except (ConnectionError, ValueError, OSError) as error:
            raise ValueError(f"--ray {address}: no cluster there ({' '.join(str(error).split())[:120]})") from None
        remote: Callable[..., Any] = ray.remote(num_cpus=1, max_retries=0)
        self.task = remote(attempt)
        self.running: dict[Any, Cell] = {}

    def begin(self, cell: Cell) -> None:
        self.running[self.task.remote(cell, self.out, self.lpips, 1)] = cell

    def next(self) -> tuple[Cell, str]:
        (ready,), _ = self.ray.wait(list(self.running), num_returns=1)
        cell = self.running.pop(ready)
        try:
            return cell, self.ray.get(ready)
        except self.ray.exceptions.RayTaskError as error:
            return cell, " ".join(str(error.cause or error).split())[-200:]
        except self.ray.exceptions.RayError as error:
            return cell, f"{LOST} ({type(error).__name__})"

    def end(self, interrupted: bool) -> None:
        self.running.clear()
        self.ray.shutdown()


def engine(out: Path, lpips: LpipsConfig, jobs: int, address: str | None) -> Engine:
    """The engine for these flags."""
    if address is not None:
        return Ray(out, lpips, jobs, address)
    return Here(out, lpips) if jobs == 1 else Processes(out, lpips, jobs)
