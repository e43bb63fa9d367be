"""Gathering of rows in another number format as a Triton kernel (plain: `nn.gather`)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from viewgap.nn.kernels.launch import kernel


@kernel(sizes=("R",), unaligned=("rows",))
def _gather(x, rows, out, R, F, COLUMNS: tl.constexpr):
    """Row `rows[i]` of x as row i, zeros for row number R; the format of `out` may differ."""
    i = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.load(rows + i)
    there = tl.where(row < R, F, 0)
    value = tl.load(x + row * F + col, mask=col < there, other=0.0)
    tl.store(out + i * F + col, value.to(out.dtype.element_ty), mask=col < F)


def gather(x: Tensor, rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Shape: x (R, F), rows (N,) -> (N, F) in `dtype`."""
    x, rows = x.contiguous(), rows.contiguous()
    out = torch.empty(len(rows), x.shape[1], dtype=dtype, device=x.device)
    if out.numel():
        grid = (len(rows), triton.cdiv(x.shape[1], 512))
        _gather[grid](x, rows, out, len(x), x.shape[1], COLUMNS=512)
    return out
