"""Disparity of a single photo from a network of `transformers` (extra `[depth]`).

The paper uses DPT. DPT, MiDaS and Depth Anything are trained on disparity up to scale and shift: their
`predicted_depth` *is* disparity, larger is nearer. Metric networks (ZoeDepth, Depth Pro, GLPN, the metric Depth
Anything) give depth, which is inverted here.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from dofnerf.files.extras import how_to_install

# Networks whose `predicted_depth` is a depth in metres, by their configuration's model_type.
DEPTH_NETWORKS = ("zoedepth", "depth_pro", "glpn", "prompt_depth_anything")


class MonocularNetwork:
    """A depth network by its name on the hub, or the path of a folder with its files. `library` stands in for
    transformers."""

    def __init__(self, name: str, library: Any = None) -> None:
        self.name = name
        library = _transformers() if library is None else library
        try:
            self.processor = library.AutoImageProcessor.from_pretrained(name)
            self.model = library.AutoModelForDepthEstimation.from_pretrained(name, use_safetensors=True).eval()
        except (OSError, ValueError, ImportError, KeyError, RuntimeError) as error:
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            words = f"--model {name}: cannot be loaded ({first})"
            raise ValueError(f"{words}; it is fetched once, from the Hugging Face hub, or give a folder") from None
        config = self.model.config
        metric = getattr(config, "depth_estimation_type", None) == "metric"
        self.gives_depth = metric or getattr(config, "model_type", None) in DEPTH_NETWORKS

    def disparity(self, image: np.ndarray) -> np.ndarray:
        """Photo (H, W, 3) display values → relative disparity (H, W) float32: no unit, no zero, larger is nearer."""
        import torch
        from PIL import Image

        from dofnerf.files.pictures import to_bytes

        size = image.shape[:2]
        with torch.no_grad():
            inputs = self.processor(images=Image.fromarray(to_bytes(image)), return_tensors="pt")
            values = self._at_size(self.model(**inputs), size).float().cpu().numpy().reshape(size)
        if not np.isfinite(values).all():
            raise ValueError(f"--model {self.name}: gives NaN or infinity")
        return 1 / np.maximum(values, 1e-3) if self.gives_depth else values

    def _at_size(self, output: Any, size: tuple[int, ...]) -> Any:
        """The prediction in the photo's own size, by the network's own way where it has one (it may have padded)."""
        import torch

        finish = getattr(self.processor, "post_process_depth_estimation", None)
        if finish is not None:
            sizes = {"source_sizes": [size]} if "source_sizes" in inspect.signature(finish).parameters else {}
            return finish(output, target_sizes=[size], **sizes)[0]["predicted_depth"]
        predicted = output.predicted_depth
        predicted = predicted.reshape(1, 1, *predicted.shape[-2:]).float()
        return torch.nn.functional.interpolate(predicted, size=size, mode="bicubic", align_corners=False)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        words = how_to_install("depth")
        raise ValueError(f"a depth network needs transformers, which is not installed: {words}") from None
    return transformers
