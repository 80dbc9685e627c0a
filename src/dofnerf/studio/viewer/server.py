"""The viewer's server: its sessions, what each control does, and films of a session's keyframes."""

from __future__ import annotations

import contextlib
import io
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import viser
from PIL import Image

from dofnerf.files import write_video
from dofnerf.files.pictures import to_bytes
from dofnerf.models import Blur
from dofnerf.optics import Lens
from dofnerf.optics.lens import inverse
from dofnerf.scenes import Viewpoint
from dofnerf.studio.film import photograph_moment
from dofnerf.studio.keyframes import Moment, between, write_keyframes
from dofnerf.studio.viewer.renderer import BUSY, LAYERS, draw, photograph
from dofnerf.studio.viewer.session import Session, same
from dofnerf.studio.viewer.settings import Shared, held

FPS = 24
FILMS = "films"
MOST_KEYFRAMES = 100


class Server(viser.ViserServer):
    """viser's, which does not open itself to the world: no session may ask for a tunnel to it. `sessions` by their
    ids."""

    def __init__(self, **options: Any) -> None:
        self.sessions: dict[int, Session] = {}
        super().__init__(**options)

    def request_share_url(self, verbose: bool = True) -> str | None:
        return None


def serve(shared: Shared, host: str, port: int, title: str) -> Server:
    """Begin to serve; returns at once."""
    with contextlib.redirect_stdout(io.StringIO()):  # it would say where it is; we do
        server = Server(host=host, port=port, label=title, verbose=False)
    server.gui.configure_theme(dark_mode=True, show_logo=False, show_share_button=False)
    server.gui.main_panel.dock_right()
    sessions = server.sessions

    @server.on_client_connect
    def _(client: Any) -> None:
        session = sessions[client.client_id] = Session(client, shared)
        listen(session)
        session.enter()

    @server.on_client_disconnect
    def _(client: Any) -> None:
        session = sessions.pop(client.client_id, None)
        if session is not None:
            session.leave()

    return server


def listen(session: Session) -> None:
    """What each control does. viser also tells of values that we set, and we set values ourselves: those do not
    count."""
    panel = session.panel

    def by_hand(event: Any) -> bool:
        return event.client is not None

    def lens_changed(event: Any) -> None:
        if by_hand(event):
            settings = panel.read(session.settings.disparity, session.settings.photo)
            names = ("radius", "blades", "shape", "rotation", "exposure", "overlay", "beside")
            session.change(**{name: getattr(settings, name) for name in names})

    for control in (panel.aperture, panel.blades, panel.rotation, panel.exposure, panel.overlay, panel.beside):
        control.on_update(lens_changed)

    def focus_changed(event: Any) -> None:
        if by_hand(event):
            session.change(disparity=panel.disparity(), at_once=True)

    def photo_changed(event: Any) -> None:
        if by_hand(event):
            session.change(photo=panel.photo.value if panel.photo.value in session.photos else "")
            panel.beside.value = session.settings.beside
            if session.settings.beside:
                stand(session)

    def as_shot(_: Any) -> None:
        lens = session.shared.learned(session.settings.photo)
        stand(session)
        if lens is not None:
            session.change(radius=lens.aperture, disparity=lens.focus_disparity)
            panel.show(session.settings)

    def sharp(_: Any) -> None:
        session.change(radius=0.0)
        panel.show(session.settings)

    panel.focus.on_update(focus_changed)
    panel.photo.on_update(photo_changed)
    panel.sharp.on_click(sharp)
    panel.as_shot.on_click(as_shot)
    panel.stand.on_click(lambda _: stand(session))
    panel.stand.on_click(sharp)
    panel.home.on_click(lambda _: session.go_to(session.shared.home.camera))
    panel.save.on_click(lambda _: save(session))
    session.client.scene.on_click()(lambda event: session.click(*event.screen_pos))
    keyframes(session)


def stand(session: Session) -> None:
    """Where the chosen photo was taken."""
    view = session.shared.views.get(session.settings.photo)
    if view is not None:
        session.go_to(view.camera)


def save(session: Session) -> None:
    """The picture as it is now, whole, for the browser to download; drawn for that if it is on the screen only
    coarsely."""
    shared, camera, drawn = session.shared, session.camera(), session.drawn
    if drawn is None or not same(drawn.camera, camera) or drawn.camera.width < camera.width:
        drawn = draw(shared.source.model, camera, LAYERS, cut=shared.source.cut)
        assert drawn is not None
    image = photograph(drawn, replace(session.settings, beside=False), shared.source.light)
    file = io.BytesIO()
    Image.fromarray(to_bytes(image)).save(file, "PNG")
    session.client.send_file_download("dofnerf-frame.png", file.getvalue(), save_immediately=True)


def keyframes(session: Session) -> None:
    """Record moments, and make a film of them."""
    panel, moments = session.panel, []  # type: ignore[var-annotated]

    def tell() -> None:
        panel.count.content = f"{len(moments)} keyframe{'s' * (len(moments) != 1)}." if moments else "No keyframes yet."
        panel.film.disabled = len(moments) < 2

    @panel.record.on_click
    def _(_: Any) -> None:
        if len(moments) < MOST_KEYFRAMES:
            settings, camera = session.settings, session.camera()
            lens = Lens(settings.radius * camera.fx, inverse(settings.disparity)) if settings.radius > 0 else None
            view, shape = Viewpoint("keyframe", camera, lens), settings.shape or None
            moments.append(Moment(view, settings.blades, settings.rotation, settings.exposure, shape=shape))
        tell()

    @panel.forget.on_click
    def _(_: Any) -> None:
        moments.clear()
        tell()

    @panel.film.on_click
    def _(_: Any) -> None:
        timed = [replace(moment, time=i * held(panel.seconds.value, 0.5, 10.0)) for i, moment in enumerate(moments)]
        if len(timed) > 1:
            panel.film.disabled = True
            threading.Thread(target=film, args=(session, timed, tell), daemon=True).start()


def film(session: Session, moments: Sequence[Moment], done: Callable[[], None]) -> None:
    """Render and write RUN/films/film-N.mp4, and its keyframes beside it, which go if it fails; shows how far it is."""
    panel, shared = session.panel, session.shared
    folder = shared.folder / FILMS
    times = np.arange(0, moments[-1].time + 1e-9, 1 / FPS)
    shots = between(
        moments, [float(time) for time in times], min(shared.longest, moments[0].view.camera.width) // 2 * 2
    )

    def frames() -> Iterator[np.ndarray]:
        for i, shot in enumerate(shots):
            panel.progress.value = 100 * i / len(shots)
            with BUSY:
                picture = photograph_moment(shared.source, shot, Blur(LAYERS, shared.source.light))  # as in the viewer
            yield picture
            if not session.alive:
                raise RuntimeError("the browser has gone")

    panel.progress.visible = True
    path = None
    try:
        path = reserve(folder)
        write_keyframes(path.with_suffix(".json"), moments)
        write_video(path, frames(), FPS)
        session.client.send_file_download(path.name, path.read_bytes(), save_immediately=False)
        panel.count.content = f"Wrote {FILMS}/{path.name} in the run's folder."
        panel.film.disabled = False
    except (OSError, ValueError, RuntimeError) as error:
        if session.alive:
            done()
            panel.count.content = f"⚠ {error}"
    finally:
        if path is not None and not path.exists():
            path.with_suffix(".json").unlink(missing_ok=True)
        if session.alive:
            panel.progress.visible = False


def reserve(folder: Path) -> Path:
    """The next film-N.mp4 that nobody has; its .json, empty as yet, keeps others from taking it."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        path = folder / f"film-{number}.mp4"
        if not path.exists():
            try:
                path.with_suffix(".json").open("x").close()
            except FileExistsError:
                continue
            return path
    raise AssertionError  # it counts for ever
