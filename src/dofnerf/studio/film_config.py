"""What a film is: flags → where the camera goes, and what the lens does meanwhile."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from dofnerf.files.outputs import check_file
from dofnerf.studio.lens_config import FocusConfig, check_aperture, check_positive
from dofnerf.studio.numbers import vector

if TYPE_CHECKING:
    from dofnerf.studio.shot_config import ShotConfig
    from dofnerf.studio.shot_files import ShotFilesConfig
    from dofnerf.studio.viewpoint_config import ViewpointConfig

SUFFIXES = (".mp4", ".gif")
FPS = 0.1, 240.0
MOST_FRAMES = 10_000
_OPTIONAL = tyro.conf.arg(help_behavior_hint="(optional)")


@dataclass(frozen=True)
class FilmConfig:
    """A film instead of pictures: --path, --keyframes, --rack-focus or --aperture-to make one, as MP4 (H.264) or GIF by
    --out. It begins at the first of the views. Stopped and started again, it keeps the frames that are done. With
    --focus-at, focus stays on that pixel whatever comes to lie there; with --focus, at that depth."""

    path: Annotated[
        Literal["still", "spiral", "orbit", "ellipse", "dolly-zoom"] | None,
        tyro.conf.arg(help_behavior_hint="(optional)"),
    ] = None
    """spiral: two small rounds. orbit: around what is in the middle. ellipse: between the photos' cameras. dolly-zoom:
    away, with a longer lens, so that what is in the middle stays as large. still: only the lens moves."""
    keyframes: Annotated[Path | None, _OPTIONAL] = None
    """A JSON of cameras (transforms.json) whose poses, lenses, blades and exposures are passed through smoothly."""
    rack_focus: bool = False
    """Focus from near to far, and back unless --once."""
    aperture_to: Annotated[float | None, _OPTIONAL] = None
    """Open (or close) the lens from --aperture to this, and back unless --once."""
    follow: Annotated[str | None, tyro.conf.arg(metavar="X,Y,Z", help_behavior_hint="(optional)")] = None
    """Keep this point of the scene in focus."""
    frames: Annotated[int | None, tyro.conf.arg(help_behavior_hint="(default: 96; by the times of --keyframes)")] = None
    """Frames of the film, 2 to 10000."""
    fps: float = 24.0
    """Frames a second, 0.1 to 240."""
    once: bool = False
    """One way only; otherwise the film comes back and loops."""
    degrees: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: 30)")] = None
    """How far an orbit swings; 360 is full circle."""
    reach: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: 6 % of the distance to the middle)")] = (
        None
    )
    """Radius of a spiral in scene units."""
    zoom: Annotated[float | None, tyro.conf.arg(help_behavior_hint="(default: 1.6)")] = None
    """How many times farther a dolly-zoom goes; below 1, nearer."""

    @property
    def asked(self) -> bool:
        """Whether this is about a film at all."""
        return self.path is not None or self.keyframes is not None or self.rack_focus or self.aperture_to is not None

    def check(self, shot: ShotConfig, focus: FocusConfig, files: ShotFilesConfig, viewpoint: ViewpointConfig) -> None:
        """Refuse what no scene could make right."""
        if not self.asked:
            self._check_idle()
            return
        if self.keyframes is not None:
            self._check_keyframes(shot, focus, viewpoint)
        focuses = {"--rack-focus": self.rack_focus or None, "--follow": self.follow, "--focus": focus.focus,
                   "--focus-at": focus.focus_at}  # fmt: skip
        named = [flag for flag, value in focuses.items() if value is not None]
        if len(named) > 1:
            raise ValueError(f"{named[0]} and {named[1]} both say where the focus is: give one of them")
        for flag, unfit in (("--as-shot", shot.as_shot or None), ("--format", files.format), ("--depth", files.depth),
                            ("--alpha", files.alpha)):  # fmt: skip
            if unfit is not None:
                raise ValueError(f"{flag} is for pictures, not for films: leave it away")
        if self.frames is not None and not 2 <= self.frames <= MOST_FRAMES:
            raise ValueError(f"--frames must be 2 to {MOST_FRAMES}, found {self.frames}")
        if not FPS[0] <= self.fps <= FPS[1]:  # NaN too
            raise ValueError(f"--fps must be {FPS[0]:g} to {FPS[1]:g}, found {self.fps:g}")
        check_aperture("--aperture-to", self.aperture_to)
        check_positive(("--degrees", self.degrees), ("--reach", self.reach), ("--zoom", self.zoom))
        if self.zoom is not None and not 0.1 <= self.zoom <= 10:
            raise ValueError(f"--zoom must be 0.1 to 10, found {self.zoom:g}")
        for flag, value, path in (("--degrees", self.degrees, "orbit"), ("--reach", self.reach, "spiral"),
                                  ("--zoom", self.zoom, "dolly-zoom")):  # fmt: skip
            if value is not None and self.path != path:
                raise ValueError(f"{flag} is for --path {path}")
        if self.follow is not None:
            vector("--follow", self.follow)
        if files.out is not None:
            check_file("--out", files.out, SUFFIXES)

    def _check_keyframes(self, shot: ShotConfig, focus: FocusConfig, viewpoint: ViewpointConfig) -> None:
        """Refuse what the moments of the file say themselves."""
        given = {"--path": self.path, "--rack-focus": self.rack_focus or None, "--aperture-to": self.aperture_to,
                 "--follow": self.follow, "--once": self.once or None, "--focus": focus.focus, "--focus-at": focus.focus_at,
                 "--aperture": shot.aperture, "--paper-k": shot.paper_k, "--fstop": shot.fstop, "--blades": shot.blades or None,
                 "--rotation": shot.rotation or None, "--exposure": shot.exposure or None, "--view": viewpoint.view or None,
                 "--views": viewpoint.views, "--camera": viewpoint.camera, "--eye": viewpoint.eye,
                 "--look-at": viewpoint.look_at, "--up": viewpoint.up, "--fov": viewpoint.fov,
                 "--height": viewpoint.height}  # fmt: skip
        other = [flag for flag, value in given.items() if value is not None]
        if other:
            raise ValueError(f"--keyframes say where the camera is and what its lens does; leave {other[0]} away")

    def _check_idle(self) -> None:
        given = {"--follow": self.follow, "--frames": self.frames, "--once": self.once or None, "--degrees": self.degrees,
                 "--reach": self.reach, "--zoom": self.zoom}  # fmt: skip
        wrong = [flag for flag, value in given.items() if value is not None]
        if wrong:
            raise ValueError(f"{wrong[0]} is for films: give --path, --keyframes, --rack-focus or --aperture-to too")

    def length(self, seconds: float | None = None) -> int:
        """How many frames."""
        if self.frames is not None:
            return self.frames
        if seconds is None:
            return 96
        if not seconds * self.fps < MOST_FRAMES:
            raise ValueError(
                f"{self.keyframes}: {seconds:g} seconds at {self.fps:g} frames a second are more than {MOST_FRAMES} frames; "
                "give --frames, or a smaller --fps"
            )
        return max(2, math.floor(seconds * self.fps) + 1)
