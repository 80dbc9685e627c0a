"""The loop: stage by stage, step by step, with checkpoints on the way.

`learn` is the whole of it. Around a step there are: the search for the lens, a record of the step, a checkpoint now and
then, an answer to Ctrl-C between two steps (never within one), and one new try, from the last checkpoint and at half
the learning rates, when numbers become NaN.
"""

from __future__ import annotations

import contextlib
import math
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from dofnerf import process
from dofnerf.camera import Camera
from dofnerf.models import NotFinite, Outcome, Steps, View, method
from dofnerf.models.base import BLURS, Blur
from dofnerf.models.data import TrainingData, shrunk_mask
from dofnerf.models.splat.start.bundle import Free, Tracks, adjusted
from dofnerf.models.workers import ALONE, Workers
from dofnerf.optics import Lens, scatter
from dofnerf.optics.kernels import single_threaded_torch
from dofnerf.optics.shapes import RealLens
from dofnerf.train import checkpoint
from dofnerf.train.character import fit_character
from dofnerf.train.displacement import places, sightings, tracks_of
from dofnerf.train.learner import Learner, Progress
from dofnerf.train.lens_search import LensSearch, in_focus_mask, small_views
from dofnerf.train.photos.base import CameraQuantity
from dofnerf.train.precision import measure
from dofnerf.train.registration import Target

_REGISTRATIONS = (0.25, 0.4, 0.55, 0.7)  # shares of the steps with a lens, before which cameras are adjusted
_SMALL = 100_000  # pixels of a photo, below which torch's operations are quicker in one thread
_HOPELESS = 2  # rounds without effect, after which there are no more
_CHARACTER = (0.0, 0.15, 0.3, 0.45, 0.65)  # shares of the last stage, at which the character is searched for
_WIDEST = 400  # pixels across of the pictures that are registered
_PLACES, _PLACES_EACH = 2000, 10  # of the scene that are looked for in them, in all and for each photo, at the least
_WRITING = 20.0  # seconds that a checkpoint, or the step of another process, may take after Ctrl-C


class Diverged(ValueError):
    """Training gave NaN twice."""


class NullRecorder:
    """What the loop tells of a run, and asks of who records it. This one records nothing: for all processes but the
    first."""

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return False

    def is_worth_keeping(self) -> bool:
        """Whether enough was done since the last checkpoint for another one before something long."""
        return False

    def keep(self, learner: Learner) -> None:
        """Write a checkpoint."""

    def last(self) -> bytes:
        """The last checkpoint."""
        return b""

    def watch(self, learner: Learner, outcome: Outcome) -> None:
        """Called after every step."""

    def say(self, words: str) -> None:
        """Tell the user something."""


def learn(learner: Learner, data: TrainingData, recorder: NullRecorder, workers: Workers = ALONE) -> Learner:
    """Train to the end, from wherever the learner is. Returns the trained one: another learner, if it had to
    recover."""
    total, begun, before = learner.config.method.total, time.monotonic(), learner.progress.seconds
    steps = steps_of(learner, data, workers)
    if learner.progress.step == 0:
        recorder.keep(learner)
    small = math.prod(data.size) < _SMALL
    with single_threaded_torch(small), _interruptible(at_once=workers.count == 1) as interrupted:
        while learner.progress.step < total:
            long = _is_next(learner, searches(learner) | registrations(learner) | character_steps(learner))
            if long and recorder.is_worth_keeping():
                recorder.keep(learner)
            interrupted.raises = long and workers.count == 1  # nothing is lost, so no signal waits for the end of it
            try:
                if _is_next(learner, character_steps(learner)):
                    find_character(learner, data, recorder, workers)
                outcome = one_step(learner, steps)
                interrupted.raises = False
                learner.progress.seconds = before + time.monotonic() - begun
                finished = learner.progress.step == total
                if finished:
                    _must_be_healthy(learner, workers)
                    if learner.lens.shape is not None:
                        find_character(learner, data, recorder, workers)
                    if total > learner.config.method.pinhole_steps:
                        learner.precision = measure(learner, data, workers)
                recorder.watch(learner, outcome)
                stop, due = workers.agree(interrupted.is_set(), recorder.is_due())
                if (stop or due) and not finished:
                    _must_be_healthy(learner, workers)
            except NotFinite as reason:
                learner = _recover(learner, recorder, str(reason), workers)
                steps = steps_of(learner, data, workers)
                continue
            if finished or stop or due:
                with process.patient(_WRITING):
                    recorder.keep(learner)
            if stop:
                raise KeyboardInterrupt
    return learner


def steps_of(learner: Learner, data: TrainingData, workers: Workers = ALONE) -> Steps:
    """How this learner's model learns from the photos."""
    make = method(learner.config.field).steps
    return make(data, learner.model, learner.quantities, learner.config, learner.memory, workers)


def one_step(learner: Learner, steps: Steps) -> Outcome:
    """The next step of a run, or those that are taken together."""
    step, own = learner.progress.step, learner.config.method
    steps.before(step, learner.generator)
    if _is_next(learner, searches(learner)):
        find_lens(learner, steps, step == own.pinhole_steps)
    if _is_next(learner, registrations(learner)):
        register_photos(learner, steps)
    steps.in_focus = learner.in_focus
    try:
        outcome = steps(own.stage_of(step), learner.generator)
    except NotFinite:
        if steps.workers.count == 1:
            raise
        nothing = torch.full((), torch.nan, device=learner.device)
        outcome = Outcome(nothing, nothing, 0, steps.data.numbers[:0])  # the other processes see it in the sum
    whole = learner.update(outcome, steps.workers)
    steps.after(step, learner.generator, learner.adam)
    return whole


def _is_next(learner: Learner, steps: set[int]) -> bool:
    """Whether one of `steps` is to be taken now."""
    return not steps.isdisjoint(learner.config.method.together(learner.progress.step))


def searches(learner: Learner) -> set[int]:
    """The steps before which the lens is searched for."""
    own, lens = learner.config.method, learner.config.lens
    if not learner.quantities.searches or not (lens.learn_aperture or lens.learn_focus):
        return set()
    with_lens = own.total - own.pinhole_steps
    return {own.pinhole_steps, *(own.pinhole_steps + round(share * with_lens) for share in lens.refits)}


def find_lens(learner: Learner, steps: Steps, everywhere: bool) -> None:
    """Search for every photo's lens with the model as it is now, over the whole range or nearby; note what is in
    focus."""
    config, data, workers = learner.config, steps.data, steps.workers
    unresolved_only = not (everywhere or config.lens.refit_all)
    if unresolved_only and bool((learner.lens.largest_radius >= BLURS).all()):
        return
    cameras = tuple(learner.quantities.camera(camera, i) for i, camera in enumerate(data.cameras))
    views = small_views(learner.model, replace(data, cameras=cameras), config.lens.search_width, workers)
    search = LensSearch(learner.lens, views, config.lens, config.light, learner.quantities.develop_light, workers)
    search.run(everywhere, unresolved_only)
    for value in learner.lens.parameters():
        workers.same(value.data)
    learner.row_adams["lens"].forget()
    if steps.needs_in_focus:
        masks = torch.stack([in_focus_mask(view, learner.lens, i) for i, view in enumerate(views)])
        learner.in_focus = workers.same(masks)


def character_steps(learner: Learner) -> set[int]:
    """The steps before which the lens's character is searched for, if it is: in turn with the last stage, from its
    beginning on, so that the scene does not absorb what a disc gets wrong."""
    own = learner.config.method
    last = getattr(own, list(own.STAGES.values())[-1])
    shares = _CHARACTER if learner.config.lens.character and last > 1 else ()
    return {own.total - last + round(share * last) for share in shares}


def find_character(learner: Learner, data: TrainingData, recorder: NullRecorder, workers: Workers = ALONE) -> None:
    """Search for the lens's character with the model as it is now; take it over if it pays, else go on with a disc. Of
    several processes the first one's counts. Blades are searched for each time: without them their softness goes into
    the profile, and training teaches the scene that."""
    found = fit_character(learner, data)
    if found is None:
        recorder.say("the lens's character was not fitted: no photo shows blurred what another shows sharp")
        return
    own = torch.tensor([found.pays, found.factor, found.disc_factor], dtype=torch.float64)
    pays, factor, disc_factor = workers.same(own).tolist()
    had, shape = learner.lens.shape is not None, RealLens.of(workers.same(found.shape.tensor()))
    learner.lens.shape = shape if pays else None
    if (pays or had) and not learner.lens.frozen[0]:  # a disc that explains the photos as well has another aperture
        learner.lens.widen(factor if pays else disc_factor)
    won = 10 * math.log10(found.before / max(found.after, 1e-12))
    words = shape.describe() if pays else "no character of the lens that held-back pixels confirm"
    recorder.say(f"{words} ({won:+.2f} dB on held-back pixels of the most blurred photos)")


def registrations(learner: Learner) -> set[int]:
    """The steps before which cameras are adjusted to the scene, once there is a lens: blur hides where things are."""
    own = learner.config.method
    before = own.pinhole_steps if own.pinhole_steps < own.total else 0
    shares = _REGISTRATIONS if _movable(learner) else ()
    return {before + round(share * (own.total - before)) for share in shares}


def _movable(learner: Learner) -> list[CameraQuantity]:
    return [one for one in learner.quantities.by_name.values() if isinstance(one, CameraQuantity)]


@torch.no_grad()
def register_photos(learner: Learner, steps: Steps) -> None:
    """Move the photos' cameras, and change their focal lengths, all together, to where the scene and all photos agree
    best; all stay if held-back pixels do not agree better then. If none has moved in the first `_HOPELESS` rounds, none
    will."""
    quantities, data, workers = learner.quantities, steps.data, steps.workers
    tall, wide = data.size
    width = min(wide, _WIDEST)
    height = max(1, round(tall * width / wide))
    before = [quantities.camera(camera, i) for i, camera in enumerate(data.cameras)]
    past = sum(step < learner.progress.step for step in registrations(learner))
    if past >= _HOPELESS and all(one is given for one, given in zip(before, data.cameras, strict=True)):
        return
    small = [camera.resized(width, height) for camera in before]
    tracks, judges = _sightings(learner, steps, small)
    free = Free("pose" in quantities.by_name, "focal" in quantities.by_name)
    found, _, words = adjusted(small, tracks, 1.0, free, judges)
    for quantity in _movable(learner) if words else ():
        quantity.move(data.cameras, [b.resized(a.width, a.height) for a, b in zip(before, found, strict=True)])
        for value in quantity.buffers():
            workers.same(value)


def _sightings(learner: Learner, steps: Steps, cameras: list[Camera]) -> tuple[Tracks, Tracks]:
    """Places of the scene as it is now, and where photos show them, to smaller `cameras` of theirs: by most pixels,
    and by those that are held back."""
    data, workers, count = steps.data, steps.workers, len(cameras)
    width, height = cameras[0].width, cameras[0].height
    (far, near), scale, mine = learner.setting.disparities, width / data.size[1], workers.part(count)
    each, step = max(_PLACES // count, _PLACES_EACH), learner.progress.step
    own = [places(learner.model.view(cameras[i]), cameras[i], each, (step, i)) for i in range(count)[mine]]
    points = workers.join(torch.from_numpy(np.array(own).reshape(-1, each, 3)), count).flatten(0, 1).numpy()
    found = []
    for i in range(count)[mine]:
        mask = data.mask(i)
        counts = None if mask is None else shrunk_mask(mask, width, height)
        target = Target(data.shrunk(i, width, height), learner.config.light, counts)
        found.append(sightings(target, _as_photo(learner, i, scale, cameras[i]), cameras[i], points, near - far))
    sets = workers.join(torch.from_numpy(np.array(found).reshape(-1, 2, len(points), 5)), count).numpy()
    return tracks_of(points, sets[:, 0]), tracks_of(points, sets[:, 1])


def _as_photo(learner: Learner, photo: int, scale: float, camera: Camera) -> View:
    """What the scene shows to a camera through the lens of a photo, whose size is 1 / `scale` of the camera's."""
    view, lens, light = learner.model.view(camera), learner.lens, learner.config.light
    if learner.progress.step >= learner.config.method.pinhole_steps and float(lens.largest_radius[photo]) >= BLURS:
        through = Lens(scale * lens.aperture[photo], focus_disparity=lens.focus_disparity[photo], shape=lens.shape)
        if lens.shape is None:
            image = scatter(view.image, through.coc_radius_from_disparity(view.disparity), light=light)
        else:  # a cat's eye displaces what is out of focus: through a disc, cameras would move to make up for it
            image = learner.model.view(camera, through, Blur(light=light)).image
        view = view._replace(image=image)
    return view._replace(image=learner.quantities.develop(view.image, photo))


def _must_be_healthy(learner: Learner, workers: Workers) -> None:
    if any(workers.agree(not learner.healthy())):
        raise NotFinite("the field or the lens holds a value that is not a number")


def _recover(learner: Learner, recorder: NullRecorder, reason: str, workers: Workers) -> Learner:
    at = learner.progress
    if at.recoveries:
        flags = method(learner.config.field).rate_flags
        raise Diverged(
            f"training broke down again at step {at.step} ({reason}); the last good checkpoint stays. Try a lower "
            f"{flags}"
        )
    good = checkpoint.unpack(workers.tell(recorder.last()), learner.device)
    good.progress = Progress(good.progress.step, good.progress.seconds, good.progress.rate_scale / 2, 1)
    good.generator.manual_seed(learner.config.seed + 1 + at.step)  # the same random numbers would end the same way
    recorder.say(f"step {at.step}: {reason}; going on from step {good.progress.step} at half the rates")
    return good


class _Interrupt(threading.Event):
    """Set by a signal, or, while it `raises`, KeyboardInterrupt."""

    raises = False


@contextlib.contextmanager
def _interruptible(at_once: bool = True) -> Iterator[_Interrupt]:
    """Set by Ctrl-C or SIGTERM; a second time it interrupts at once (unless others would be left waiting)."""
    event = _Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: object) -> None:
        if event.raises or (event.is_set() and at_once):
            raise KeyboardInterrupt
        event.set()

    for number in before:
        signal.signal(number, note)
    try:
        with process.patient(0.0 if at_once else _WRITING):
            yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
