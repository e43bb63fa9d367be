"""Where a fit runs: device, precision, and the processes that share a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from viewgap.constraints import Choice, Device, check
from viewgap.errors import SettingError, parameter
from viewgap.nn.reduce import LOCAL, Reducer

SMALL_NETWORK = 5_000_000
_PRECISIONS = {
    "highest": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.float32,
    "float64": torch.float64,
}
DEVICE = Device()
PRECISION = Choice("auto", *_PRECISIONS)


@dataclass(frozen=True)
class Runtime:
    """A device, a number format and a reducer.

    `precision`: `"highest"` computes in float32; `"tf32"` lets a GPU multiply matrices in TF32;
    `"bf16"` multiplies matrices in bfloat16 and adds in float32; `"float64"` computes in double
    precision.
    """

    device: torch.device
    precision: str = "highest"
    reducer: Reducer = LOCAL

    @property
    def dtype(self) -> torch.dtype:
        """The number format of parameters and data."""
        return _PRECISIONS[self.precision]

    @property
    def numpy_dtype(self) -> type[np.floating]:
        """The same as numpy calls it."""
        return np.float64 if self.dtype == torch.float64 else np.float32

    @property
    def matmul_dtype(self) -> torch.dtype | None:
        """The number format in which linear layers multiply, None = that of their weights."""
        return torch.bfloat16 if self.precision == "bf16" else None

    @property
    def _matmul_precision(self) -> str:
        """For products outside the linear layers: where bfloat16 is accepted, TF32 is too."""
        tf32 = self.precision == "tf32" or (self.precision == "bf16" and self.device.type == "cuda")
        return "high" if tf32 else "highest"

    @contextmanager
    def active(self) -> Iterator[None]:
        """Compute in this precision; the process-wide setting is put back afterwards."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(self._matmul_precision)
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)

    @contextmanager
    def threads_for(self, work: int) -> Iterator[int]:
        """Train a small network on one CPU thread; the process-wide setting is put back.

        Its operations are so short that handing them out costs more than it brings. Yields how many
        such networks can be trained at a time.
        """
        before = torch.get_num_threads()
        small = self.device.type == "cpu" and work < SMALL_NETWORK
        if small:
            torch.set_num_threads(1)
        try:
            yield before if small else 1
        finally:
            torch.set_num_threads(before)

    def generator(self, seed: int) -> torch.Generator:
        """A random generator of its own on this device."""
        return torch.Generator(device=self.device).manual_seed(seed)


def choose_runtime(device: str = "auto", precision: str = "auto", parameters: int = 0) -> Runtime:
    """Resolve `"auto"`: a CUDA device if there is one, and TF32 there, float32 on a CPU.

    Training a large network (of this many parameters) multiplies in bfloat16, where the device
    does that itself: `benchmarks/README.md` has the evidence that results stay the same.
    """
    check("device", DEVICE, device)
    check("precision", PRECISION, precision)
    if str(device) == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = torch.device(device)
    if chosen.type == "cuda":
        _check_cuda(chosen)
    if precision == "auto":
        large = parameters >= SMALL_NETWORK and _has_bf16(chosen)
        precision = "bf16" if large else "tf32" if chosen.type == "cuda" else "highest"
    return Runtime(chosen, precision)


def _check_cuda(device: torch.device) -> None:
    """Refuse a device that this machine does not have."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (device.index or 0) >= count:
        names = ", ".join(f"'cuda:{index}'" for index in range(count))
        here = f"only {names}" if count else "no CUDA device"
        raise SettingError(
            f"{parameter('device')} is {str(device)!r}, but this machine has {here}; use "
            f"{parameter('device', 'auto')}"
        )


def _has_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 itself (emulated, it would be slow)."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)  # from torch 2.7 on
    return bool(supported()) if supported else False
