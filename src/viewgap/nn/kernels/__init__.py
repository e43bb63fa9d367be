"""Fused GPU kernels in Triton, and whether they can be used.

Each module here names the plain PyTorch form that it must equal up to rounding; the plain form runs
wherever a kernel cannot: on a CPU, in other number formats, and where Triton is not installed. No
module of this package is imported before a CUDA tensor needs it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module, util
from typing import Any

import torch
from torch import Tensor


def kernels_for(x: Tensor, name: str) -> Any | None:
    """The module `viewgap.nn.kernels.<name>` if it can compute with `x`, else None."""
    supported = x.dtype in (torch.float32, torch.bfloat16)
    return _load_kernels(name) if x.is_cuda and supported else None


@cache
def _load_kernels(name: str) -> Any | None:
    return import_module(f"viewgap.nn.kernels.{name}") if util.find_spec("triton") else None
