"""The viewer's server: who visits, and what each button does."""

from __future__ import annotations

import contextlib
import io
import threading
from dataclasses import replace
from typing import Any

import viser
from PIL import Image

from dofnerf.files.pictures import to_bytes
from dofnerf.optics.lens import Lens, inverse
from dofnerf.scenes import Viewpoint
from dofnerf.studio.keyframes import Moment
from dofnerf.studio.viewer.darkroom import LAYERS, draw, photograph
from dofnerf.studio.viewer.film import film
from dofnerf.studio.viewer.look import held
from dofnerf.studio.viewer.stage import Stage
from dofnerf.studio.viewer.visitor import Visitor, same

MOST_KEYFRAMES = 100


class Server(viser.ViserServer):
    """viser's, which does not open itself to the world: no visitor may ask for a tunnel to it. `visitors` by their
    ids."""

    def __init__(self, **options: Any) -> None:
        self.visitors: dict[int, Visitor] = {}
        super().__init__(**options)

    def request_share_url(self, verbose: bool = True) -> str | None:
        return None


def serve(stage: Stage, host: str, port: int, title: str) -> Server:
    """Begin to serve; returns at once."""
    with contextlib.redirect_stdout(io.StringIO()):  # it would say where it is; we do
        server = Server(host=host, port=port, label=title, verbose=False)
    server.gui.configure_theme(dark_mode=True, show_logo=False, show_share_button=False)
    server.gui.main_panel.dock_right()
    visitors = server.visitors

    @server.on_client_connect
    def _(client: Any) -> None:
        visitor = visitors[client.client_id] = Visitor(client, stage)
        listen(visitor)
        visitor.enter()

    @server.on_client_disconnect
    def _(client: Any) -> None:
        visitor = visitors.pop(client.client_id, None)
        if visitor is not None:
            visitor.leave()

    return server


def listen(visitor: Visitor) -> None:
    """What each control does. viser tells only of what the visitor did, and we set values ourselves: those do not
    count."""
    panel, stage = visitor.panel, visitor.stage

    def by_hand(event: Any) -> bool:
        return event.client is not None

    def lens_changed(event: Any) -> None:
        if by_hand(event):
            look = panel.read(visitor.look.disparity, visitor.look.photo)
            values = {
                key: getattr(look, key) for key in ("radius", "blades", "rotation", "exposure", "overlay", "beside")
            }
            visitor.change(**values)

    for control in (panel.aperture, panel.blades, panel.rotation, panel.exposure, panel.overlay, panel.beside):
        control.on_update(lens_changed)

    @panel.focus.on_update
    def _(event: Any) -> None:
        if by_hand(event):
            visitor.change(disparity=panel.disparity(), at_once=True)

    @panel.photo.on_update
    def _(event: Any) -> None:
        if by_hand(event):
            visitor.change(photo=panel.photo.value if panel.photo.value in visitor.photos else "")
            panel.beside.value = visitor.look.beside
            if visitor.look.beside:
                stand(visitor, visitor.look.photo)

    @panel.sharp.on_click
    def _(_: Any) -> None:
        visitor.change(radius=0.0)
        panel.show(visitor.look)

    @panel.as_shot.on_click
    def _(_: Any) -> None:
        lens = stage.learned(visitor.look.photo)
        stand(visitor, visitor.look.photo)
        if lens is not None:
            visitor.change(radius=lens.aperture, disparity=lens.focus_disparity)
            panel.show(visitor.look)

    @panel.stand.on_click
    def _(_: Any) -> None:
        stand(visitor, visitor.look.photo)
        visitor.change(radius=0.0)
        panel.show(visitor.look)

    @panel.home.on_click
    def _(_: Any) -> None:
        visitor.go_to(stage.home.camera)

    @panel.save.on_click
    def _(_: Any) -> None:
        save(visitor)

    @visitor.client.scene.on_click()
    def _(event: Any) -> None:
        visitor.click(*event.screen_pos)

    keyframes(visitor)


def stand(visitor: Visitor, photo: str) -> None:
    """Where a photo was taken."""
    view = visitor.stage.views.get(photo)
    if view is not None:
        visitor.go_to(view.camera)


def save(visitor: Visitor) -> None:
    """The picture as it is now, whole, for the browser to download; drawn for that if it is on the screen only
    coarsely."""
    stage, camera, drawn = visitor.stage, visitor.camera(), visitor.drawn
    if drawn is None or not same(drawn.camera, camera) or drawn.camera.width < camera.width:
        drawn = draw(stage.subject.model, camera, LAYERS, cut=stage.cut)
        assert drawn is not None
    image = photograph(drawn, replace(visitor.look, beside=False), stage.subject.light)
    file = io.BytesIO()
    Image.fromarray(to_bytes(image)).save(file, "PNG")
    visitor.client.send_file_download("dofnerf-frame.png", file.getvalue(), save_immediately=True)


def keyframes(visitor: Visitor) -> None:
    """Record moments, and make a film of them."""
    panel, moments = visitor.panel, []  # type: ignore[var-annotated]

    def tell() -> None:
        panel.count.content = f"{len(moments)} keyframe{'s' * (len(moments) != 1)}." if moments else "No keyframes yet."
        panel.film.disabled = len(moments) < 2

    @panel.record.on_click
    def _(_: Any) -> None:
        if len(moments) < MOST_KEYFRAMES:
            look, camera = visitor.look, visitor.camera()
            lens = Lens(look.radius * camera.fx, inverse(look.disparity)) if look.radius > 0 else None
            moments.append(Moment(Viewpoint("keyframe", camera, lens), look.blades, look.rotation, look.exposure))
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
            threading.Thread(target=film, args=(visitor, timed, tell), daemon=True).start()
