"""Photos with shallow depth of field in; a sharp scene, every photo's lens, and a virtual lens out."""

import os
import signal
import sys

# The command itself: Ctrl-C during the imports ends it without a traceback, until `process.start` takes over.
_is_command = os.path.basename(sys.argv[0] if sys.argv else "") in ("dofnerf", "-m")
if _is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import importlib  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

# torch's OpenMP threads otherwise spin after each operation and take the cores from our own kernels. Only counts when
# dofnerf is imported before torch; the user's own setting wins.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# These two functions have the name of their package. Imported here, before anything else imports the packages, they are
# what `dofnerf.train` and `dofnerf.capture` mean; `from dofnerf.train import …` finds the packages all the same.
from dofnerf.capture import capture  # noqa: E402
from dofnerf.train import train  # noqa: E402

if TYPE_CHECKING:
    from dofnerf import scenes
    from dofnerf.camera import Camera
    from dofnerf.optics import LearnedLens, Lens, coc_radius, scatter, scatter_layers
    from dofnerf.scenes import Scene
    from dofnerf.studio.notebook import SplatFile, load
    from dofnerf.train.config import preset
    from dofnerf.train.run import Run

__all__ = [
    "Camera", "LearnedLens", "Lens", "Run", "Scene", "SplatFile", "capture", "coc_radius", "load", "preset", "scatter",
    "scatter_layers", "scenes", "train",
]  # fmt: skip
__version__ = "0.1.0"
_HOMES = {
    "Camera": "camera", "Run": "train.run", "Scene": "scenes", "SplatFile": "studio.notebook",
    "load": "studio.notebook", "preset": "train.config",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """The other public names, imported when first used: torch takes seconds, and `dofnerf --help` needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module 'dofnerf' has no attribute {name!r}")
    if name == "scenes":
        return importlib.import_module("dofnerf.scenes")
    return getattr(importlib.import_module(f"dofnerf.{_HOMES.get(name, 'optics')}"), name)
