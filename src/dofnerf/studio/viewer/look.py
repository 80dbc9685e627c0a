"""What one visitor has set: the lens and how the picture is shown. As JSON, the browser keeps it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

Overlay = Literal["none", "focus peaking", "depth"]
OVERLAYS = get_args(Overlay)
BLADES = (0, 3, 4, 5, 6, 7, 8, 9)
STOPS = 4.0


@dataclass(frozen=True)
class Look:
    """`radius` of the lens in scene units (0: all in focus), `disparity` of the focus, `rotation` in degrees,
    `exposure` in stops.

    With `beside`, the photo is shown next to the picture, both as it was framed."""

    radius: float = 0.0
    disparity: float = 0.0
    blades: int = 0
    rotation: float = 0.0
    exposure: float = 0.0
    overlay: Overlay = "none"
    photo: str = ""
    beside: bool = False

    def to_json(self, pose: dict[str, Any]) -> str:
        """This and where the camera is."""
        return json.dumps({"look": asdict(self), "camera": pose})


def from_json(text: str | None, widest: float, photos: tuple[str, ...]) -> tuple[Look, dict[str, Any]] | None:
    """What `to_json` wrote, or None if the text is anything else: browsers keep what anybody put there."""
    try:
        data = json.loads(text or "")
        look = Look(**{key: data["look"][key] for key in (field.name for field in fields(Look))})
        numbers = look.radius, look.disparity, look.rotation, look.exposure
        pose = {key: [float(value) for value in data["camera"][key]] for key in ("position", "wxyz", "look_at", "up")}
        pose["fov"] = float(data["camera"]["fov"])  # type: ignore[assignment]
        lengths = [len(pose[key]) for key in ("position", "wxyz", "look_at", "up")]
        flat = [*pose["position"], *pose["wxyz"], *pose["look_at"], *pose["up"]]
    except (ValueError, KeyError, TypeError):
        return None
    right = (
        lengths == [3, 4, 3, 3]
        and all(isinstance(value, int | float) and math.isfinite(value) for value in (*numbers, *flat))
        and 0.02 < pose["fov"] < 3  # type: ignore[operator]
        and 0 <= look.radius <= widest
        and look.disparity >= 0
        and look.blades in BLADES
        and abs(look.exposure) <= STOPS
        and look.overlay in OVERLAYS
        and (look.photo in photos or look.photo == "")
        and isinstance(look.beside, bool)
    )
    return (look, pose) if right else None


def held(value: Any, low: float, high: float) -> float:
    """A number kept within `low` … `high`; NaN is `low`."""
    return min(max(low, float(value)), high)


def eased(start: float, end: float, share: float) -> float:
    """A `share` (0 to 1) of the way from start to end, slow at both ends."""
    share = min(max(share, 0.0), 1.0)
    return start + (end - start) * share * share * (3 - 2 * share)
