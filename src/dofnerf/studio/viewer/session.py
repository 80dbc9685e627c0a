"""One session: a browser's camera and lens, and a thread that answers every change with a picture."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import numpy as np

from dofnerf.camera import Camera
from dofnerf.files.pictures import to_bytes
from dofnerf.studio.viewer.panel import Panel
from dofnerf.studio.viewer.renderer import LAYERS, Clock, Drawn, draw, photograph, quick_look, smaller
from dofnerf.studio.viewer.settings import Settings, Shared, camera_of, fitted, from_json

PULL = 0.6  # seconds of a focus pull
REST = 0.18  # seconds without a change after which the picture is made whole
MOMENT = 0.07  # seconds that a picture of something that moves may take
LEVELS = (8, 4, 2, 1)  # in which pictures of a volumetric field get finer when the camera rests


class Session:
    """`settings` is what is asked for; the focus that is shown moves towards its disparity."""

    def __init__(self, client: Any, shared: Shared) -> None:
        self.client, self.shared = client, shared
        self.photos = tuple(name for name in shared.views if name in shared.source.learned or name in shared.photos)
        self.panel = Panel(client, shared, self.photos)
        middle = shared.first.disparity_in_the_middle()
        begin = shared.start or Settings(0.25 * shared.widest, middle)
        self.settings = replace(begin, photo=self.photos[0] if self.photos else "")
        self.lock = threading.RLock()  # of what the session asked for: settings and pull
        self.pull = (self.settings.disparity, 0.0)  # from which disparity, since when
        self.drawn: Drawn | None = None  # the last whole picture's layers
        self.shown: Drawn | None = None  # what the picture on the screen was made of
        self.walking, self.turning = Clock(MOMENT), Clock(MOMENT)
        self.changed, self.resting, self.alive = threading.Event(), threading.Event(), True
        self.thread = threading.Thread(target=self._work, name="dofnerf-session", daemon=True)

    def enter(self) -> None:
        """Place the camera where it was when this browser was here last, or at the start; begin to answer."""
        try:
            kept = from_json(
                self.client.local_storage.get_item(self.shared.key, timeout=5.0), self.shared.widest, self.photos
            )
        except (RuntimeError, TimeoutError):
            kept = None
        if kept is None:
            self.go_to(self.shared.home.camera)
        else:
            settings, pose = kept
            if self.shared.start is None:  # flags are newer than what the browser kept
                self.settings = self._possible(settings)
            self._place(pose["position"], pose["look_at"], pose["up"], float(pose["fov"]))
        self.pull = (self.settings.disparity, 0.0)
        self.panel.show(self.settings)
        self.client.camera.on_update(lambda _: self.wake())
        self.thread.start()
        self.wake()

    def leave(self) -> None:
        self.alive = False
        self.wake()

    def wake(self) -> None:
        """Something has changed: a picture is wanted."""
        self.resting.clear()
        self.changed.set()

    def change(self, **values: Any) -> None:
        """Another settings; a new disparity is pulled to, unless `at_once`."""
        at_once = values.pop("at_once", False)
        with self.lock:
            before = self.focus()
            self.settings = self._possible(replace(self.settings, **values))
            if "disparity" in values:
                self.pull = (before, 0.0 if at_once else time.monotonic())
        self.wake()

    def _possible(self, settings: Settings) -> Settings:
        """A photo without a file cannot be shown beside the picture."""
        return replace(settings, beside=settings.beside and settings.photo in self.shared.photos)

    def focus(self) -> float:
        """The disparity in focus at this moment."""
        with self.lock:
            start, since = self.pull
            return eased(start, self.settings.disparity, (time.monotonic() - since) / PULL)

    def current(self) -> Settings:
        """The settings at this moment, on the way of a focus pull."""
        with self.lock:
            return replace(self.settings, disparity=self.focus())

    @property
    def pulling(self) -> bool:
        return time.monotonic() - self.pull[1] < PULL

    def click(self, x: float, y: float) -> None:
        """Focus on what is under a place of the window, 0 to 1 from the upper left."""
        shown = self.shown
        if shown is None:
            return
        if self.settings.beside:  # the picture has the left half, letterboxed
            u, v = to_pane(x, y, self._aspect(), shown.camera.width / shown.camera.height)
        else:
            u, v = x, y
        camera = shown.camera
        if 0 <= u < 1 and 0 <= v < 1:
            try:
                disparity = shown.picture.disparity_at(int(u * camera.width), int(v * camera.height))
            except ValueError:
                return  # nothing is there
            with self.lock:
                self.panel.show_focus(disparity)
                self.change(disparity=disparity)

    def go_to(self, camera: Camera) -> None:
        """Stand where a camera stands, with its vertical field of view."""
        pose = camera.camera_to_world
        far, near = self.shared.first.disparity_range()
        ahead = camera.position + camera.forward * 2 / max(near + far, 1e-6)
        self._place(camera.position, ahead, pose[:, 1], 2 * float(np.arctan(0.5 * camera.height / camera.fy)))

    def _place(self, position: Any, look_at: Any, up: Any, fov: float) -> None:
        with self.client.atomic():
            self.client.camera.up_direction = np.asarray(up, float)
            self.client.camera.position = np.asarray(position, float)
            self.client.camera.look_at = np.asarray(look_at, float)
            self.client.camera.fov = fov

    def _aspect(self) -> float:
        return float(np.clip(self.client.camera.aspect, 0.1, 10))

    def camera(self) -> Camera:
        """That of the whole picture, as the browser has it now."""
        seen, shared, settings = self.client.camera, self.shared, self.settings
        square = camera_of(seen.position, seen.wxyz, float(np.clip(seen.fov, 0.02, 3.0)), (100, 100))
        if settings.beside:
            photo = shared.photos[settings.photo]
            return fitted(square, photo.shape[1] / photo.shape[0], min(shared.longest, photo.shape[1]))
        longest = min(shared.longest, max(seen.image_width, seen.image_height, 64))
        return fitted(square, self._aspect(), longest)

    def _work(self) -> None:
        """Coarse at once, whole when nothing changes any more."""
        while self.alive:
            if not self.pulling:
                self.changed.wait()
            self.changed.clear()
            if not self.alive:
                return
            try:
                self._answer()
            except Exception as error:  # a window that closes while it is drawn for, above all
                if self.alive:
                    self.panel.words.content = f"⚠ {error}"
                time.sleep(0.2)

    def _answer(self) -> None:
        self._say("moving")
        camera, settings = self.camera(), self.current()
        model, light = self.shared.source.model, self.shared.source.light
        if self.drawn is not None and same(self.drawn.camera, camera):
            times = self.turning.divisor(self.drawn.camera) if settings.radius else 1
            drawn = smaller(self.drawn, times)
            begun = time.monotonic()
            picture = photograph(drawn, settings, light)
            self.turning.learn(drawn.camera, time.monotonic() - begun)
            self._send(drawn, picture, settings)
        else:
            small = camera.resized(
                *(max(8, side // self.walking.divisor(camera)) for side in (camera.width, camera.height))
            )
            begun = time.monotonic()
            drawn, picture = quick_look(model, small, settings, light)
            self.walking.learn(small, time.monotonic() - begun)
            self._send(drawn, picture, settings)
        if self.pulling or self.changed.wait(REST):
            return
        for times in (1,) if model.is_quick else LEVELS:
            size = max(8, camera.width // times), max(8, camera.height // times)
            if self.drawn is None or not same(self.drawn.camera, camera) or self.drawn.camera.width < size[0]:
                better = draw(
                    model, camera.resized(*size), LAYERS, lambda: not self.changed.is_set(), self.shared.source.cut
                )
                if better is None:
                    return
                self.drawn = better
            elif times > 1:
                continue
            settings = self.current()
            self._send(self.drawn, photograph(self.drawn, settings, light), settings, quality=92)
            if self.changed.is_set():
                return
        self._keep()
        self._say("resting")
        self.resting.set()

    def _say(self, words: str) -> None:
        if self.panel.words.content != words:
            self.panel.words.content = words

    def _send(self, drawn: Drawn, picture: np.ndarray, settings: Settings, quality: int = 80) -> None:
        self.shown = drawn
        if settings.beside:
            picture = side_by_side(picture, self.shared.photos[settings.photo], self._aspect())
        self.client.scene.set_background_image(to_bytes(picture), format="jpeg", jpeg_quality=quality)
        camera = drawn.camera
        blur = settings.radius * camera.fx / camera.width
        far, near = drawn.picture.disparity_range() if not drawn.picture.holes.all() else (0.0, 0.0)
        reach = max(abs(settings.disparity - far), abs(settings.disparity - near))
        self.panel.tell(settings, self.shared.stop(settings.radius, camera), blur * reach)

    def _keep(self) -> None:
        """In the browser, for a reload."""
        camera = self.client.camera
        parts = {"position": camera.position, "wxyz": camera.wxyz, "look_at": camera.look_at, "up": camera.up_direction}
        pose = {key: [float(value) for value in values] for key, values in parts.items()}
        self.client.local_storage.set_item(self.shared.key, self.settings.to_json({**pose, "fov": float(camera.fov)}))


def eased(start: float, end: float, share: float) -> float:
    """A `share` (0 to 1) of the way from start to end, slow at both ends."""
    share = min(max(share, 0.0), 1.0)
    return start + (end - start) * share * share * (3 - 2 * share)


def same(one: Camera, two: Camera) -> bool:
    """Whether two cameras see the same picture, if not with as many pixels."""
    views = [(camera.fx / camera.width, camera.height / camera.width) for camera in (one, two)]
    alike = np.allclose(views[0], views[1], rtol=2 / min(one.height, two.height))
    return alike and np.allclose(one.camera_to_world, two.camera_to_world, atol=1e-9)


def side_by_side(picture: np.ndarray, photo: np.ndarray, aspect: float) -> np.ndarray:
    """Both letterboxed, one in each half of a window of this shape, (H, W, 3)."""
    height, width = photo.shape[:2]
    if picture.shape != photo.shape:
        from PIL import Image

        picture = (
            np.asarray(Image.fromarray(to_bytes(picture)).resize((width, height), Image.Resampling.BILINEAR)) / 255
        )
    pane = max(width, round(height * aspect / 2)), max(height, round(2 * width / aspect))
    sheet = np.full((pane[1], 2 * pane[0], 3), 0.08, np.float32)
    for left, image in ((0, picture), (pane[0], photo)):
        x, y = left + (pane[0] - width) // 2, (pane[1] - height) // 2
        sheet[y : y + height, x : x + width] = image
    return sheet


def to_pane(x: float, y: float, aspect: float, shape: float) -> tuple[float, float]:
    """A place in the window → in the left picture of `side_by_side`, whose width : height is `shape`; beyond 0 … 1:
    outside."""
    pane = aspect / 2
    across, along = (1.0, shape / pane) if pane < shape else (pane / shape, 1.0)  # pane in pictures
    return (2 * x - 0.5) * across + 0.5, (y - 0.5) * along + 0.5
