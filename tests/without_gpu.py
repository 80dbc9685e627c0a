"""Triton kernels on a machine without a GPU: interpreted, or compiled for one that is not there.

Whether triton compiles or interprets is settled when the kernels are defined: once, for the whole process. So the
interpreter lives in a process of its own, started with TRITON_INTERPRET=1 and fed from the tests. Their process stays
free to import triton as it is, to run the kernels on a GPU if there is one, and to be a pytest-xdist worker with other
tests before and after.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def new_process(**environment: str) -> Iterator[Callable[..., Any]]:
    """Gives a function that calls functions of test modules in a fresh process with these variables set."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            pool.submit(os.getpid).result()  # the process starts, and takes the environment with it, here
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Callable[..., Any]]:
    with new_process(TRITON_INTERPRET="1", PYTHONWARNINGS="ignore::RuntimeWarning") as call:
        yield call


class StandInDriver:
    """Tells triton that there is a GPU of this compute capability, so that it compiles for it. Nothing can run."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: int) -> int:
        return 0


class CompileOnly:
    """Stands in for a kernel: a launch compiles it for the arguments at hand and keeps the assembly, then calls
    `instead` with them, which may write what the kernel would have written."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.assembly: list[str] = []
        self.instead: Callable[..., object] = lambda *_: None

    def __getitem__(self, grid: tuple[int, ...]) -> Callable:
        def launch(*args: Any, **kwargs: Any) -> None:
            self.assembly.append(self.kernel.warmup(*args, grid=grid, **kwargs).asm["ptx"])
            self.instead(*args)

        return launch


def compile_only(module: Any, names: tuple[str, ...], capability: int) -> dict[str, CompileOnly]:
    """Make the kernels of a module compile instead of run. Spoils triton for the rest of the process."""
    from triton.runtime import driver

    driver.set_active(StandInDriver(capability))
    kernels = {name: CompileOnly(getattr(module, name)) for name in names}
    for name, kernel in kernels.items():
        setattr(module, name, kernel)  # not a JITFunction, so tensors of the CPU are taken, too
    return kernels
