"""What all triton kernels share: the import, with an error that says how to get it, and how they are launched.

Without a GPU the same kernels run in triton's interpreter (TRITON_INTERPRET=1 before import), on tensors of the CPU.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
    from triton import JITFunction
except ImportError:
    raise ValueError("the gpu backend needs triton: pip install 'dofnerf[gpu]', or '.[gpu]' in a checkout") from None

__all__ = ["check_tensor", "on_device", "tl", "triton"]


def check_tensor(tensor: Tensor, kernel: Any) -> None:
    """ValueError unless the kernel can take the tensor: float32 on CUDA, or anywhere if the kernel is interpreted."""
    anywhere = not isinstance(kernel, JITFunction)
    if tensor.dtype != torch.float32 or not (anywhere or tensor.device.type == "cuda"):
        raise ValueError(f"the gpu backend takes float32 on CUDA, found {tensor.dtype} on {tensor.device}")


def on_device(tensor: Tensor) -> AbstractContextManager:
    """triton launches on the current device, which need not be the tensor's."""
    return torch.cuda.device(tensor.device) if tensor.device.type == "cuda" else nullcontext()
