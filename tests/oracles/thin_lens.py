"""The exact thin lens, Eq. 4 of the paper, of which Eq. 5 (`dofnerf.optics.coc_radius`) drops the factor F / (F −
f)."""


def coc_radius_exact(depth: float, aperture: float, focus_depth: float, focal_length: float) -> float:
    """Signed blur radius in pixels; depths and focal length in one unit, `aperture` in pixels × that unit."""
    return aperture * focus_depth / (focus_depth - focal_length) * (1 / focus_depth - 1 / depth)


def approximation_error(focus_depth: float, focal_length: float) -> float:
    """The share f / F by which Eq. 5 falls short of Eq. 4, at any depth."""
    return focal_length / focus_depth
