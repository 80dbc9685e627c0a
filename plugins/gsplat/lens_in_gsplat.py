"""gsplat's own training script with a learned lens: blurred photos in, a sharp scene out.

Copy this file beside gsplat's examples/simple_trainer.py and add one line there, before `def main(`:

    from lens_in_gsplat import with_lens; Runner = with_lens(Runner)

Training renders go through the lens of their photo; evaluation and the viewer stay sharp. It has not seen a GPU.
"""

from __future__ import annotations

import torch

from dofnerf import LearnedLens, scatter


def with_lens(runner: type) -> type:
    """`simple_trainer.Runner`, with an aperture and a focus for each training photo, learned along with the splats."""

    class LensRunner(runner):
        def __init__(self, *args, **kwargs) -> None:
            super().__init__(*args, **kwargs)
            points, poses = (torch.as_tensor(a).double() for a in (self.parser.points, self.parser.camtoworlds))
            points = points[:: 1 + len(points) // 10_000, None]  # some will do
            depth = ((points - poses[:, :3, 3]) * poses[:, :3, 2]).sum(-1).flatten()  # along the optical axes
            depth = depth[depth > 0].sort().values
            self.near, far = float(depth[len(depth) // 50]), float(depth[-len(depth) // 50])
            self.lens = LearnedLens(len(self.trainset), self.near, far).to(self.device)
            self.app_optimizers.append(torch.optim.Adam(self.lens.parameters(), lr=1e-2))  # a list that it steps anyway

        def rasterize_splats(self, *args, image_ids=None, **kwargs):
            if image_ids is None:  # evaluation and viewer
                return super().rasterize_splats(*args, **kwargs)
            kwargs |= {"render_mode": "RGB+ED", "image_ids": image_ids}  # colours and expected depth
            renders, alphas, info = super().rasterize_splats(*args, **kwargs)
            radius = self.lens.coc_radius(renders[..., 3].clamp(min=self.near / 2), photo=image_ids)
            blurred = scatter(renders[..., :3].clamp(0, 1), radius)
            return torch.cat([blurred, renders[..., 3:]], dim=-1), alphas, info

    return LensRunner
