"""Several processes that train one run together, as `torchrun` starts them.

Every process draws the whole batch from a generator with the same seed and takes its own rows or photos, so all parts
together are the batch of a single process. Each computes shares: losses, errors and gradients of all processes *add up*
to those of the batch, also where the parts differ in size. All then move the same parameters by the same gradients.
Only the first process writes; all decide together whether to stop, to write a checkpoint or to recover.
"""

from __future__ import annotations

import atexit
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn

# The last tensors given to gloo: the last to let go of one must not be its thread, which at Python's end would abort.
_handed: deque[Tensor] = deque(maxlen=8)


class Workers:
    """`count` processes, of which this has that `number`. A single one communicates with nobody."""

    def __init__(self, number: int = 0, count: int = 1) -> None:
        self.number, self.count = number, count

    @property
    def first(self) -> bool:
        return self.number == 0

    def part(self, total: int) -> slice:
        """The rows of `total` that are this process's: as even as can be, none if there are fewer rows than
        processes."""
        return slice(total * self.number // self.count, total * (self.number + 1) // self.count)

    def add(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place; the same bits for all."""
        if self.count > 1:
            _handed.append(tensor)
            _listen(lambda: dist.all_reduce(tensor))
        return tensor

    def same(self, tensor: Tensor) -> Tensor:
        """The first process's, in place."""
        if self.count > 1:
            _handed.append(tensor)
            _listen(lambda: dist.broadcast(tensor, 0))
        return tensor

    def join(self, own: Tensor, total: int, dim: int = 0, part: slice | None = None) -> Tensor:
        """The whole of which all processes hold their `part` along `dim`, by default `part(total)`; gradients reach
        only what is our own."""
        if self.count == 1:
            return own
        mine, rows = part or self.part(total), own.movedim(dim, 0)
        whole = torch.zeros(total, *rows.shape[1:], dtype=own.dtype, device=own.device)
        whole[mine] = rows.detach()
        self.add(whole)
        return torch.cat([whole[: mine.start], rows, whole[mine.stop :]]).movedim(0, dim)

    def counted_once(self, loss: Tensor) -> Tensor:
        """A share of a loss that every process found alike: their values add up to it, and each has its gradient in
        full."""
        return loss if self.count == 1 else loss - loss.detach() + loss.detach() / self.count

    def learned_once(self, value: Tensor) -> Tensor:
        """A value with which every process does the same: it is whole, and their gradients for it add up to one."""
        return value if self.count == 1 else value.detach() + (value - value.detach()) / self.count

    def agree(self, *flags: bool) -> list[bool]:
        """Each flag, set if it is for anyone."""
        if self.count == 1:
            return list(flags)
        return (self.add(torch.tensor(flags, dtype=torch.int32)) > 0).tolist()

    def tell(self, packed: bytes) -> bytes:
        """The first process's bytes."""
        if self.count == 1:
            return packed
        length = int(self.same(torch.tensor(len(packed))))
        told = (
            torch.frombuffer(bytearray(packed), dtype=torch.uint8)
            if self.first and length
            else torch.empty(length).byte()
        )
        return self.same(told).numpy().tobytes()

    def add_gradients(self, parameters: Iterable[nn.Parameter], others: Tensor) -> Tensor:
        """The sum of all processes' gradients, for all; one that nobody has stays None. Returns the sum of all `others`
        (N,), which go along: many messages take longer than one."""
        if self.count == 1:
            return others
        learning = [value for value in parameters if value.requires_grad]
        parts = [torch.zeros_like(value) if value.grad is None else value.grad for value in learning]
        there = others.new_tensor([value.grad is not None for value in learning])
        whole = self.add(torch.cat([others, there, *(part.reshape(-1) for part in parts)]))
        added, known, *sums = whole.split([len(others), len(there), *(part.numel() for part in parts)])
        for value, found, total in zip(learning, known.tolist(), sums, strict=True):
            value.grad = total.view_as(value) if found else None
        return added


ALONE = Workers()


def several() -> bool:
    """Whether torchrun (or whoever sets what it sets) started more processes than this one."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ and "MASTER_ADDR" in os.environ


def is_first_process() -> bool:
    """Whether this process prints: the first, or the only one."""
    return not several() or os.environ["RANK"] == "0"


@contextmanager
def gathered(device: torch.device) -> Iterator[Workers]:
    """All processes of the run: connected by gloo on CPUs and by NCCL on GPUs."""
    there = dist.is_available() and dist.is_initialized()
    if not (there or several()):
        yield ALONE
        return
    if not there:
        _listen(lambda: dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"))
        atexit.register(_leave)  # not sooner: a program may train several runs, and processes can meet only once
    try:
        yield Workers(dist.get_rank(), dist.get_world_size())
        _listen(dist.barrier)  # nobody ends while the first still writes
    except Exception:
        _leave()  # or the others would wait for us; Ctrl-C stops all at once
        raise


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
        _handed.clear()


def _listen(talk: Callable[[], object]) -> None:
    """When another process died, say so in one line."""
    try:
        talk()
        return
    except RuntimeError as error:
        time.sleep(0.5)  # gloo's thread lets go of the tensor meanwhile; were Python at its end, it would abort
        line = " ".join(str(error).split())[:160]
    # Not above: what it holds of gloo would live as long as this error.
    raise ConnectionError(f"the other processes of this run do not answer; one of them failed ({line})")
