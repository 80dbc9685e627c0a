"""Cameras, lenses and sharp views in a folder that nerfstudio reads: `--cameras`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dofnerf.files import write_image, write_json
from dofnerf.scenes import Viewpoint, plain_stems
from dofnerf.scenes.export import plain_lens, plain_view
from dofnerf.studio.export import MARK, Job, Kind, check_ours, register

LIST = "transforms.json"


@register
class CameraFolder(Kind):
    """transforms.json and images/: the sharp view of every photo, with the pose of its camera and, as `learned_lens`,
    the lens that the run found for it. (`lens`, which our reader knows, would say that of the picture itself, and that
    is sharp.)"""

    name = "cameras"
    about = (
        "A folder that nerfstudio reads: transforms.json with the pose and the learned lens of every photo, and its "
        "sharp view."
    )
    of_files = False

    def target(self, job: Job, view: Viewpoint | None) -> Path:
        return job.out / "nerfstudio" / LIST

    def steps(self, job: Job) -> int:
        return len(job.source.views) + 1

    def check(self, job: Job, view: Viewpoint | None) -> None:
        if not job.source.views:
            raise ValueError(
                f"{job.source.path}: the run has no cameras.json (it was trained by an older version); train it again"
            )
        check_ours(self.target(job, view))

    def write(self, job: Job, view: Viewpoint | None) -> str:
        from dofnerf.studio.shoot import sharp_picture

        source, file = job.source, self.target(job, view)
        entries, split = [], {False: [], True: []}  # type: ignore[var-annotated]
        for name, one in zip(plain_stems([view.name for view in source.views]), source.views, strict=True):
            image = f"images/{name}.png"
            write_image(file.parent / image, sharp_picture(source.model, one.camera)[1].image)
            entry = plain_view(replace(one, lens=None)) | {"file_path": image}
            if one.name in source.learned:
                entry["learned_lens"] = plain_lens(source.learned[one.name])
            entries.append(entry)
            split[one.held_out].append(image)
            job.tick()
        held = split[True]
        names = {"train_filenames": split[False], "val_filenames": held, "test_filenames": held} if held else {}
        write_json(file, {"made_by": MARK, "camera_model": "OPENCV", **names, "frames": entries})
        return f"{len(entries)} cameras, their lenses where known, and sharp pictures"
