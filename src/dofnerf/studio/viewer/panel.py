"""The controls of one session, and nothing but them: what they are, and how settings are shown on them."""

from __future__ import annotations

from typing import Any

from dofnerf.studio.viewer.settings import OVERLAYS, ROUND, STOPS, Settings, Shared, held, shape_choices


class Panel:
    """Made in the browser of one `client` of viser; its owner adds the handlers."""

    def __init__(self, client: Any, shared: Shared, photos: tuple[str, ...]) -> None:
        gui = client.gui
        self.shared = shared
        with gui.add_folder("Lens"):
            self.stop = gui.add_markdown("")
            self.aperture = gui.add_slider("Aperture", 0.0, 1.0, 0.005, 0.0, hint="0: all in focus")
            self.focus = gui.add_slider(
                "Focus", 0.0, 1.0, 0.002, 0.5, hint="0 is near, 1 is far. Or click on the picture."
            )
            self.blades = gui.add_dropdown("Blades", list(shape_choices()), initial_value=ROUND)
            self.rotation = gui.add_slider("Rotation", 0, 359, 1, 0, hint="of the blades, in degrees")
            self.exposure = gui.add_slider("Exposure", -STOPS, STOPS, 0.1, 0.0, hint="in stops")
            self.sharp = gui.add_button("All sharp")
        with gui.add_folder("Photos", visible=bool(photos)):
            self.photo = gui.add_dropdown("Photo", list(photos) or ["none"])
            self.as_shot = gui.add_button("As shot", hint="its pose, and the lens that was learned for it")
            self.stand = gui.add_button("Stand there, all sharp")
            self.beside = gui.add_checkbox(
                "Photo beside", initial_value=False, hint="the picture and the photo, side by side"
            )
        with gui.add_folder("Show"):
            self.overlay = gui.add_dropdown("Overlay", list(OVERLAYS), initial_value="none")
            self.save = gui.add_button("Save the frame")
            self.home = gui.add_button("Back to the start")
        with gui.add_folder("Film", expand_by_default=False):
            self.count = gui.add_markdown("No keyframes yet.")
            self.record = gui.add_button("Add a keyframe", hint="camera and lens as they are now")
            self.forget = gui.add_button("Forget all")
            self.seconds = gui.add_slider("Seconds between", 0.5, 10.0, 0.5, 2.0)
            self.film = gui.add_button(
                "Render the film", disabled=True, hint="an MP4 in the run's folder, and to download"
            )
            self.progress = gui.add_progress_bar(0.0, visible=False)
        self.words = gui.add_markdown("")

    def read(self, disparity: float, photo: str) -> Settings:
        """What the controls say, whatever a browser sends; focus and photo are kept elsewhere."""
        shape, blades = shape_choices().get(str(self.blades.value), ("", 0))
        overlay = self.overlay.value if self.overlay.value in OVERLAYS else OVERLAYS[0]
        beside = bool(self.beside.value) and photo in self.shared.photos
        radius = self.shared.widest * held(self.aperture.value, 0.0, 1.0) ** 2
        rotation, exposure = held(self.rotation.value, 0.0, 359.0), held(self.exposure.value, -STOPS, STOPS)
        return Settings(radius, disparity, blades, rotation, exposure, overlay, photo, beside, shape)

    def show(self, settings: Settings) -> None:
        """Set the controls to these settings."""
        self.aperture.value = round(min(settings.radius / self.shared.widest, 1.0) ** 0.5, 4)
        self.blades.value = settings.shape or (str(settings.blades) if settings.blades else ROUND)
        self.rotation.value = round(settings.rotation) % 360
        self.exposure.value = round(settings.exposure, 2)
        self.overlay.value = settings.overlay
        self.beside.value = settings.beside
        if settings.photo:
            self.photo.value = settings.photo
        self.show_focus(settings.disparity)

    def show_focus(self, disparity: float) -> None:
        """The focus slider runs evenly in disparity, as blur does."""
        far, near = self.shared.range
        self.focus.value = round(min(max((near - disparity) / (near - far), 0.0), 1.0), 4)

    def disparity(self) -> float:
        """What the focus slider says."""
        far, near = self.shared.range
        return near - (near - far) * held(self.focus.value, 0.0, 1.0)

    def tell(self, settings: Settings, stop: str, blur: float) -> None:
        """The aperture as `Shared.stop` names it, and as blur: the largest radius in per cent of the picture's
        width."""
        where = f"focus at **{1 / settings.disparity:.3g}**" if settings.disparity > 0 else "focus at infinity"
        stop = f"**{stop}** · " if stop else ""
        wide = "closed, all in focus" if settings.radius == 0 else f"{stop}blur up to {100 * blur:.1f} % of width"
        words = f"{wide} · {where}"
        if self.stop.content != words:
            self.stop.content = words
