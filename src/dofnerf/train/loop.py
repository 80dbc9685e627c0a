"""The loop: stage by stage, step by step, with checkpoints on the way.

`learn` is the whole of it. What surrounds a step: the search for the lens, a word to whoever watches, a checkpoint now
and then, an answer to Ctrl-C between two steps (never within one), and one new try, from the last checkpoint and at
half the rates, when the numbers fall apart.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

from dofnerf.models import NotFinite, Outcome, Steps, method
from dofnerf.models.base import BLURS
from dofnerf.models.data import TrainingData
from dofnerf.models.workers import ALONE, Workers
from dofnerf.train import checkpoint
from dofnerf.train.learner import Learner, Standing
from dofnerf.train.lens_search import SmallView, search_lens, sharp_pixels

_SMALL = 128  # pixels across that the search wants, of smaller photos more than half: with less, focus and aperture look alike
FINER = 2  # how much finer than the search looks a view is drawn for it: one ray a pixel has jagged edges


class Diverged(ValueError):
    """Training gave NaN twice."""


class Keeper(Protocol):
    """Where checkpoints go; `due` says whether it is time for one, `watch` sees every step."""

    def due(self) -> bool: ...

    def keep(self, learner: Learner) -> None: ...

    def last(self) -> bytes: ...

    def watch(self, learner: Learner, outcome: Outcome) -> None: ...

    def say(self, words: str) -> None: ...


class Onlooker:
    """The keeper of all processes but the first: keeps nothing, says nothing."""

    def due(self) -> bool:
        return False

    def keep(self, learner: Learner) -> None:
        pass

    def last(self) -> bytes:
        return b""

    def watch(self, learner: Learner, outcome: Outcome) -> None:
        pass

    def say(self, words: str) -> None:
        pass


def learn(learner: Learner, data: TrainingData, keeper: Keeper, workers: Workers = ALONE) -> Learner:
    """Train to the end, from wherever the learner stands. Returns what came of it: another learner, if it had to
    recover."""
    total, begun, before = learner.config.steps.total, time.monotonic(), learner.standing.seconds
    steps = steps_of(learner, data, workers)
    if learner.standing.step == 0:
        keeper.keep(learner)
    with _interruptible(at_once=workers.count == 1) as interrupted:
        while learner.standing.step < total:
            try:
                outcome = one_step(learner, steps)
                learner.standing.seconds = before + time.monotonic() - begun
                finished = learner.standing.step == total
                if finished:
                    _must_be_healthy(learner, workers)
                keeper.watch(learner, outcome)
                stop, due = workers.agree(interrupted.is_set(), keeper.due())
                if (stop or due) and not finished:
                    _must_be_healthy(learner, workers)
            except NotFinite as reason:
                learner = _recover(learner, keeper, str(reason), workers)
                steps = steps_of(learner, data, workers)
                continue
            if finished or stop or due:
                keeper.keep(learner)
            if stop:
                raise KeyboardInterrupt
    return learner


def steps_of(learner: Learner, data: TrainingData, workers: Workers = ALONE) -> Steps:
    """How this learner's model learns from the photos."""
    return method(learner.config.field).steps(data, learner.model, learner.lens, learner.config, workers)


def one_step(learner: Learner, steps: Steps) -> Outcome:
    """The next step of a run."""
    step, config = learner.standing.step, learner.config
    steps.before(step, learner.generator)
    if step in searches(learner):
        find_lens(learner, steps.data, step == config.steps.pinhole_steps, steps.workers)
    steps.in_focus = learner.in_focus
    try:
        outcome = steps(config.steps.stage_of(step), learner.generator)
    except NotFinite:
        if steps.workers.count == 1:
            raise
        nothing = torch.full((), torch.nan, device=learner.device)
        outcome = Outcome(nothing, nothing, 0)  # the others learn of it from the sum
    whole = learner.update(outcome, steps.workers)
    steps.after(step, learner.generator, learner.adam)
    return whole


def searches(learner: Learner) -> set[int]:
    """The steps before which the lens is searched for."""
    steps, lens = learner.config.steps, learner.config.lens
    if not lens.search or steps.pinhole_steps == steps.total or not (lens.learn_aperture or lens.learn_focus):
        return set()
    with_lens = steps.total - steps.pinhole_steps
    return {steps.pinhole_steps, *(steps.pinhole_steps + round(share * with_lens) for share in lens.refits)}


def find_lens(learner: Learner, data: TrainingData, coarse: bool, workers: Workers = ALONE) -> None:
    """Search for every photo's lens with the field as it is now, everywhere or nearby; note where things are."""
    config, stuck = learner.config.lens, not (coarse or learner.config.lens.refit_all)
    if stuck and bool((learner.lens.largest_radius >= BLURS).all()):
        return
    views = small_views(learner, data, workers)
    search_lens(
        learner.lens, views, config.light, config.learn_aperture, config.learn_focus, coarse, config.vote, stuck
    )
    for value in learner.lens.parameters():
        workers.same(value.data)
    learner.lens_adam.forget()
    if config.in_focus:
        learner.in_focus = workers.same(
            torch.stack([sharp_pixels(view, learner.lens, i) for i, view in enumerate(views)])
        )


def small_views(learner: Learner, data: TrainingData, workers: Workers = ALONE) -> list[SmallView]:
    """What the field shows of every photo's view; each process draws some of them."""
    (tall, wide), count = data.size, len(data.cameras)
    most = min(max(wide // 2, _SMALL), learner.config.lens.search_width)
    width, finer = (min(times * most, wide) for times in (1, FINER))
    height, taller = (max(1, round(tall * across / wide)) for across in (width, finer))
    drawn = torch.zeros(count, height, width, 4, device=learner.device)
    for i in range(count)[workers.part(count)]:
        shown = learner.model.view(data.cameras[i].resized(finer, taller))
        drawn[i] = shrunk(torch.cat([shown.image, shown.disparity[..., None]], dim=-1), width, height)
    if not bool(torch.isfinite(workers.add(drawn)).all()):
        raise NotFinite("the field gave a colour or a depth that is not a number")
    return [
        SmallView(one[..., :3].contiguous(), one[..., 3].contiguous(), shrunk(photo, width, height), width / wide)
        for one, photo in zip(drawn, data.photos, strict=True)
    ]


def shrunk(picture: Tensor, width: int, height: int) -> Tensor:
    """(H, W, C) at a smaller size, by means over its pixels."""
    return torch.nn.functional.interpolate(picture.permute(2, 0, 1)[None], (height, width), mode="area")[0].permute(
        1, 2, 0
    )


def _must_be_healthy(learner: Learner, workers: Workers) -> None:
    if any(workers.agree(not learner.healthy())):
        raise NotFinite("the field or the lens holds a value that is not a number")


def _recover(learner: Learner, keeper: Keeper, reason: str, workers: Workers) -> Learner:
    at = learner.standing
    if at.recoveries:
        raise Diverged(
            f"training broke down again at step {at.step} ({reason}); the last good checkpoint stays. Try a lower --rate"
        )
    good = checkpoint.unpack(workers.tell(keeper.last()), learner.device)
    good.standing = Standing(good.standing.step, good.standing.seconds, good.standing.caution / 2, 1)
    good.generator.manual_seed(learner.config.seed + 1 + at.step)  # the same dice would fall the same way
    keeper.say(f"step {at.step}: {reason}; going on from step {good.standing.step} at half the rates")
    return good


@contextlib.contextmanager
def _interruptible(at_once: bool = True) -> Iterator[threading.Event]:
    """Set when somebody pressed Ctrl-C; a second time it interrupts at once (unless others would be left waiting)."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        if event.is_set() and at_once:
            raise KeyboardInterrupt
        event.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
