"""How hard to try: settings for features, matches and mapping, from the usual to the most tolerant.

Defocus takes fine features away and leaves few, large ones of low contrast. So the later attempts take weaker features,
describe them over several sizes and along their slant (domain-size pooling, affine shape), look for more matches along
the epipolar lines once these are known (guided matching), and let a photo in with fewer of them. That costs time and
lets wrong matches in, which is why it is not how we begin. Strong blur also makes photos of one place look alike only
when they are small, and there grain counts for less, too: so one attempt works on small copies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Options = dict[str, Any]  # names of pycolmap's options → values or further names


@dataclass(frozen=True)
class Attempt:
    """`features` names what a database holds: attempts with the same share one. `small` asks for small copies of the
    photos.

    The rest are options of pycolmap.
    """

    name: str
    features: str
    extraction: Options = field(default_factory=dict)
    matching: Options = field(default_factory=dict)
    verification: Options = field(default_factory=dict)
    mapping: Options = field(default_factory=dict)
    small: bool = False


_USUAL_SIFT = {"peak_threshold": 0.004, "max_num_features": 6000}
_ROBUST_SIFT = {
    "peak_threshold": 0.0015, "max_num_features": 5000, "estimate_affine_shape": True, "domain_size_pooling": True,
}  # fmt: skip
_EASY = {
    "min_num_matches": 8,
    "init_num_trials": 500,
    "mapper": {
        "init_min_num_inliers": 40,
        "init_min_tri_angle": 4.0,
        "init_max_error": 6.0,
        "abs_pose_min_num_inliers": 12,
        "abs_pose_min_inlier_ratio": 0.1,
        "max_reg_trials": 8,
    },
}

LADDER = (
    Attempt("usual settings", "plain", {"sift": _USUAL_SIFT}),
    Attempt("usual features, mapped more tolerantly", "plain", {"sift": _USUAL_SIFT}, mapping=_EASY),
    Attempt(
        "weak features of small copies, affine and pooled over sizes, guided matching",
        "small",
        {"sift": _ROBUST_SIFT},
        {"guided_matching": True},
        mapping=_EASY,
        small=True,
    ),
    Attempt(
        "the same with large copies",
        "robust",
        {"sift": _ROBUST_SIFT},
        {"guided_matching": True, "sift": {"max_ratio": 0.85}},
        {"min_num_inliers": 10, "ransac": {"min_inlier_ratio": 0.1}},
        _EASY,
    ),
)
