"""DS-NeRF: the paper's field, taught by sparse depth as well (Deng et al. 2022). The loss is
`render.sparse_depth_loss`."""

from dofnerf.models.volume.fields.base import FieldKind
from dofnerf.models.volume.fields.nerf import NerfConfig, NerfField

FIELD = FieldKind("dsnerf", NerfConfig, NerfField, sampling="coarse-fine", depth_weight=0.1)
