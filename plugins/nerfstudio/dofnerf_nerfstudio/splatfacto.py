"""`ns-train dofnerf-splatfacto`: splatfacto with a learned lens for every training photo.

gsplat draws the sharp scene and its depth, `dofnerf.scatter` blurs that by the lens of the photo, and the result is
compared with the photo. Evaluation and the viewer show the sharp scene, or a lens chosen with two sliders.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from nerfstudio.cameras.cameras import Cameras
from nerfstudio.configs.base_config import ViewerConfig
from nerfstudio.data.datamanagers.full_images_datamanager import FullImageDatamanagerConfig
from nerfstudio.engine.callbacks import TrainingCallback, TrainingCallbackAttributes, TrainingCallbackLocation
from nerfstudio.engine.optimizers import AdamOptimizerConfig
from nerfstudio.engine.schedulers import ExponentialDecaySchedulerConfig
from nerfstudio.engine.trainer import TrainerConfig
from nerfstudio.models.splatfacto import SplatfactoModel, SplatfactoModelConfig
from nerfstudio.pipelines.base_pipeline import VanillaPipelineConfig
from nerfstudio.plugins.types import MethodSpecification
from nerfstudio.utils.rich_utils import CONSOLE
from nerfstudio.viewer.viewer_elements import ViewerSlider
from torch import Tensor
from torch.nn import Parameter

from dofnerf import LearnedLens, coc_radius, scatter
from dofnerf.train.lens_search import LensSearch, SmallView
from dofnerf.train.photos.lens import LensConfig
from dofnerf_nerfstudio.scenes import DofnerfDataParserConfig

_LEAST, _MOST = 0.02, 0.98  # quantiles of the rendered depth: the range in which the lens focuses
_SEEN = 0.5  # accumulation below which a depth is ignored


@dataclass
class LensSplatfactoConfig(SplatfactoModelConfig):
    """Splatfacto, and how each photo's lens is found."""

    _target: type = field(default_factory=lambda: LensSplatfacto)
    output_depth_during_training: bool = True
    """Needed: blur depends on depth."""
    lens_searches: tuple[int, ...] = (2800, 8800)
    """Steps at which each photo's aperture and focus are searched for; before the first, photos count as sharp. Not
    soon after opacities are reset, every 3000 steps."""
    search_width: int = 256
    """Pixels across of the renders that the search compares with the photos, at the most."""
    max_radius: float = 32.0
    """The largest blur radius in pixels that a lens can learn, from one end of the depth range to the other."""
    gamma: float = 2.2
    """Of the photos: blur adds up in linear light."""


class LensSplatfacto(SplatfactoModel):
    """`lens` is one aperture (pixels of the photo × scene units) and focus for each training photo."""

    config: LensSplatfactoConfig
    lens_range: Tensor

    def populate_modules(self) -> None:
        super().populate_modules()
        self.lens = LearnedLens(self.num_train_data, 0.1, 10.0, self.config.max_radius)  # the range is set by a search
        self.lens_is_found = False
        # Disparities, far and near; in checkpoints, so that one from before the search is known: NaN until then.
        self.register_buffer("lens_range", torch.full((2,), torch.nan))
        self.opening = ViewerSlider("Blur at infinity (px)", 0.0, 0.0, 100.0, 0.5, hint="radius; 0 is a pinhole")
        self.focus = ViewerSlider("Focus depth", 1.0, 0.02, 10.0, 0.01, hint="scene units along the optical axis")

    def get_param_groups(self) -> dict[str, list[Parameter]]:
        return {**super().get_param_groups(), "lens": list(self.lens.parameters())}

    def load_state_dict(self, dict, **kwargs):  # type: ignore[override]
        super().load_state_dict(dict, **kwargs)
        self.lens_is_found = bool(self.lens_range.isfinite().all())
        if self.lens_is_found:
            self.lens.seen = self.lens_range.clone()

    def get_outputs(self, camera: Cameras) -> dict[str, Tensor]:
        outputs = super().get_outputs(camera)
        photo = (camera.metadata or {}).get("cam_idx")
        if outputs.get("depth") is None:
            return outputs
        disparity = 1 / outputs["depth"][..., 0].clamp(min=1e-3)
        if self.training and self.lens_is_found and photo is not None:
            radius = self.lens.coc_radius_from_disparity(disparity, int(photo)) / self._get_downscale_factor()
        elif not self.training and self.opening.value > 0:
            focus = 1 / self.focus.value
            radius = coc_radius(1 / disparity, self.opening.value * self.focus.value, focus)
        else:
            return outputs
        radius = radius.clamp(-2 * self.config.max_radius, 2 * self.config.max_radius)
        blurred = scatter(outputs["rgb"], radius, light=self.config.gamma).clamp(0, 1)
        return {**outputs, "rgb": blurred, "sharp": outputs["rgb"]}

    def get_training_callbacks(self, attributes: TrainingCallbackAttributes) -> list[TrainingCallback]:
        def search(step: int) -> None:
            if step in self.config.lens_searches:
                self.search_lens(attributes.pipeline.datamanager)

        where = [TrainingCallbackLocation.BEFORE_TRAIN_ITERATION]
        return [*super().get_training_callbacks(attributes), TrainingCallback(where, search)]

    @torch.no_grad()
    def search_lens(self, datamanager) -> None:
        """Set the lens of each training photo to the one whose blur brings the sharp render closest to it."""
        was_training = self.training
        self.eval()
        views, depths = [], []
        for i, data in enumerate(datamanager.cached_train):
            camera = datamanager.train_dataset.cameras[i : i + 1].to(self.device)
            scale = min(1.0, self.config.search_width / int(camera.width))
            camera.rescale_output_resolution(scale)
            drawn = SplatfactoModel.get_outputs(self, camera)
            depth, shape = drawn["depth"][..., 0], drawn["rgb"].shape[:2]
            depths.append(depth[drawn["accumulation"][..., 0] > _SEEN].flatten()[::7])
            photo = data["image"].to(self.device)[..., :3]
            photo = photo.float() / 255 if photo.dtype == torch.uint8 else photo
            counts = _shrunk(data["mask"].to(self.device).float(), shape)[..., 0] > 0.999 if "mask" in data else None
            parts = (drawn["rgb"], 1 / depth.clamp(min=1e-3), _shrunk(photo, shape))
            mask = None if counts is None else counts.float().cpu()
            views.append(SmallView(*(part.cpu().contiguous() for part in parts), scale, mask))
        self.train(was_training)
        self._set_range(torch.cat(depths))
        lens = LearnedLens(self.num_train_data, 0.1, 10.0, self.config.max_radius)
        lens.load_state_dict({name: value.cpu() for name, value in self.lens.state_dict().items()})
        lens.seen = self.lens.seen.cpu()
        LensSearch(lens, views, LensConfig(max_radius=self.config.max_radius), self.config.gamma).run()
        self.lens.load_state_dict(lens.state_dict())
        self.lens_is_found = True
        blurred = int((self.lens.largest_radius > 0.5).sum())
        CONSOLE.log(f"lens search: {blurred} of {self.num_train_data} photos have a lens that blurs")

    def _set_range(self, depths: Tensor) -> None:
        """Give the lens the range of depths that is seen, once; aperture and focus start anew in it."""
        if self.lens_is_found:
            return
        if len(depths) == 0:
            raise ValueError("lens search: training photos show nothing yet; search later (model.lens-searches)")
        some = depths[:: max(1, len(depths) // 1_000_000)].float()  # more than 16 million are too many for quantile
        near, far = torch.quantile(some, some.new_tensor([_LEAST, _MOST])).tolist()
        fresh = LearnedLens(self.num_train_data, near, max(far, 1.01 * near), self.config.max_radius)
        self.lens.load_state_dict(fresh.state_dict())
        self.lens.seen = fresh.seen.to(self.device)
        self.lens_range.copy_(self.lens.seen)


def _shrunk(picture: Tensor, shape: tuple[int, int]) -> Tensor:
    """(H, W, C) → (h, w, C), each pixel the mean of those that it covers."""
    return torch.nn.functional.interpolate(picture.permute(2, 0, 1)[None], shape, mode="area")[0].permute(1, 2, 0)


def _adam(rate: float, last: float | None = None, steps: int = 30000) -> dict:
    decay = None if last is None else ExponentialDecaySchedulerConfig(lr_final=last, max_steps=steps)
    return {"optimizer": AdamOptimizerConfig(lr=rate, eps=1e-15), "scheduler": decay}


METHOD = MethodSpecification(
    config=TrainerConfig(
        method_name="dofnerf-splatfacto",
        steps_per_eval_image=100,
        steps_per_eval_batch=0,
        steps_per_save=2000,
        steps_per_eval_all_images=1000,
        max_num_iterations=30000,
        mixed_precision=False,
        pipeline=VanillaPipelineConfig(
            datamanager=FullImageDatamanagerConfig(dataparser=DofnerfDataParserConfig(), cache_images_type="uint8"),
            model=LensSplatfactoConfig(),
        ),
        optimizers={  # those of splatfacto, and the lens
            "means": _adam(1.6e-4, 1.6e-6),
            "features_dc": _adam(0.0025),
            "features_rest": _adam(0.0025 / 20),
            "opacities": _adam(0.05),
            "scales": _adam(0.005),
            "quats": _adam(0.001),
            "camera_opt": _adam(1e-4, 5e-7),
            "bilateral_grid": _adam(2e-3, 1e-4),
            "lens": _adam(0.01, 0.001),
        },
        viewer=ViewerConfig(num_rays_per_chunk=1 << 15),
        vis="viewer",
    ),
    description="Splatfacto with a learned lens: blurred photos in, a sharp scene out.",
)
