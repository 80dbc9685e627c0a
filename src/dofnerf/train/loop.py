"""The loop: stage by stage, step by step, with checkpoints on the way.

`learn` is the whole of it. What surrounds a step: the search for the lens, a word to whoever watches, a checkpoint now and
then, an answer to Ctrl-C between two steps (never within one), and one new try, from the last checkpoint and at half the
rates, when the numbers fall apart.
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

from dofnerf.train.data import TrainingData
from dofnerf.train.learner import Learner, Standing
from dofnerf.train.lens_search import SmallView, search_lens, sharp_pixels
from dofnerf.train.methods import NotFinite, Outcome, Steps, method

FINER = 2  # how much finer than the search looks a view is drawn for it: one ray a pixel has jagged edges


class Diverged(ValueError):
    """Training gave NaN twice."""


class Keeper(Protocol):
    """Where checkpoints go; `due` says whether it is time for one, `watch` sees every step."""

    def due(self) -> bool: ...

    def keep(self, learner: Learner) -> None: ...

    def last(self, device: torch.device) -> Learner: ...

    def watch(self, learner: Learner, outcome: Outcome) -> None: ...

    def say(self, words: str) -> None: ...


def learn(learner: Learner, data: TrainingData, keeper: Keeper) -> Learner:
    """Train to the end, from wherever the learner stands. Returns what came of it: another learner, if it had to recover."""
    total, begun, before = learner.config.steps.total, time.monotonic(), learner.standing.seconds
    steps = steps_of(learner, data)
    if learner.standing.step == 0:
        keeper.keep(learner)
    with _interruptible() as interrupted:
        while learner.standing.step < total:
            try:
                outcome = one_step(learner, steps)
                learner.standing.seconds = before + time.monotonic() - begun
                finished = learner.standing.step == total
                if (finished or interrupted.is_set() or keeper.due()) and not learner.healthy():
                    raise NotFinite("the field or the lens holds a value that is not a number")
            except NotFinite as reason:
                learner = _recover(learner, keeper, str(reason))
                steps = steps_of(learner, data)
                continue
            keeper.watch(learner, outcome)
            if finished or interrupted.is_set() or keeper.due():
                keeper.keep(learner)
            if interrupted.is_set():
                raise KeyboardInterrupt
    return learner


def steps_of(learner: Learner, data: TrainingData) -> Steps:
    """How this learner's model learns from the photos."""
    return method(learner.config.field).steps(data, learner.model, learner.lens, learner.config)


def one_step(learner: Learner, steps: Steps) -> Outcome:
    """The next step of a run."""
    step, config = learner.standing.step, learner.config
    steps.before(step, learner.generator)
    if step in searches(learner):
        find_lens(learner, steps.data, coarse=step == config.steps.pinhole_steps)
    steps.in_focus = learner.in_focus
    outcome = steps(config.steps.stage_of(step), learner.generator)
    learner.update(outcome)
    steps.after(step, learner.generator, learner.adam)
    return outcome


def searches(learner: Learner) -> set[int]:
    """The steps before which the lens is searched for."""
    steps, lens = learner.config.steps, learner.config.lens
    if not lens.search or steps.pinhole_steps == steps.total or not (lens.learn_aperture or lens.learn_focus):
        return set()
    with_lens = steps.total - steps.pinhole_steps
    return {steps.pinhole_steps, *(steps.pinhole_steps + round(share * with_lens) for share in lens.refits)}


def find_lens(learner: Learner, data: TrainingData, coarse: bool) -> None:
    """Search for every photo's lens with the field as it is now, everywhere or nearby; note where things are."""
    config, views = learner.config.lens, []
    for camera, photo in zip(data.cameras, data.photos, strict=True):
        width, finer = (min(times * config.search_width, camera.width) for times in (1, FINER))
        height, taller = (max(1, round(camera.height * across / camera.width)) for across in (width, finer))
        shown = learner.model.view(camera.resized(finer, taller))
        if not bool(torch.isfinite(shown.image).all() & torch.isfinite(shown.disparity).all()):
            raise NotFinite("the field gave a colour or a depth that is not a number")
        sharp, disparity, small = (shrunk(part, width, height) for part in (shown.image, shown.disparity[..., None], photo))
        views.append(SmallView(sharp, disparity[..., 0].contiguous(), small, width / camera.width))
    search_lens(learner.lens, views, config.light, config.learn_aperture, config.learn_focus, coarse)
    learner.lens_adam.forget()
    if config.in_focus:
        learner.in_focus = torch.stack([sharp_pixels(view, learner.lens, i) for i, view in enumerate(views)])


def shrunk(picture: Tensor, width: int, height: int) -> Tensor:
    """(H, W, C) at a smaller size, by means over its pixels."""
    return torch.nn.functional.interpolate(picture.permute(2, 0, 1)[None], (height, width), mode="area")[0].permute(1, 2, 0)


def _recover(learner: Learner, keeper: Keeper, reason: str) -> Learner:
    at = learner.standing
    if at.recoveries:
        raise Diverged(
            f"training broke down again at step {at.step} ({reason}); the last good checkpoint stays. Try a lower --rate"
        )
    good = keeper.last(learner.device)
    good.standing = Standing(good.standing.step, good.standing.seconds, good.standing.caution / 2, 1)
    good.generator.manual_seed(learner.config.seed + 1 + at.step)  # the same dice would fall the same way
    keeper.say(f"step {at.step}: {reason}; going on from step {good.standing.step} at half the rates")
    return good


@contextlib.contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Set when somebody pressed Ctrl-C; a second time it interrupts at once."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: object) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
