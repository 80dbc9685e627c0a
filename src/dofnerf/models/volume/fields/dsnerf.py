"""DS-NeRF: the paper's field, with sparse depth in the loss (Deng et al. 2022)."""

from dofnerf.models.volume.fields import FieldKind
from dofnerf.models.volume.fields.nerf import NerfConfig, NerfField

FIELD = FieldKind("dsnerf", NerfConfig, NerfField, sampling="coarse-fine", depth_weight=0.1)
