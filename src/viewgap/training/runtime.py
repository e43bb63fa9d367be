"""Where a fit runs: device, precision, and who shares the batch. Decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from viewgap.errors import SettingError
from viewgap.nn.reduce import LOCAL, Reducer

_SMALL_NETWORK = 5_000_000
_PRECISIONS = {"highest": torch.float32, "tf32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Runtime:
    """A device, a number format and a reducer.

    `precision`: `"highest"` computes in float32; `"tf32"` lets a GPU multiply matrices in TF32;
    `"float64"` computes in double precision.
    """

    device: torch.device
    precision: str = "highest"
    reducer: Reducer = LOCAL

    @property
    def dtype(self) -> torch.dtype:
        """The number format of parameters and data."""
        return _PRECISIONS[self.precision]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Compute in this precision; the process-wide setting is put back afterwards."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if self.precision == "tf32" else "highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)

    @contextmanager
    def threads_for(self, parameters: int) -> Iterator[None]:
        """Train a small network on one CPU thread; the process-wide setting is put back.

        Its operations are so short that handing them out costs more than it brings.
        """
        before = torch.get_num_threads()
        if self.device.type == "cpu" and parameters < _SMALL_NETWORK:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def generator(self, seed: int) -> torch.Generator:
        """A random generator of its own on this device."""
        return torch.Generator(device=self.device).manual_seed(seed)


def choose_runtime(device: str = "auto", precision: str = "auto") -> Runtime:
    """Resolve `"auto"`: a CUDA device if there is one, and TF32 there."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise SettingError(
            f"device must be 'auto', 'cpu' or 'cuda[:N]', found {device!r}"
        ) from error
    if chosen.type not in ("cpu", "cuda"):
        raise SettingError(f"device must be 'auto', 'cpu' or 'cuda[:N]', found {device!r}")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise SettingError(
            f"device {device!r} asked for, but no CUDA device is available; use 'cpu'"
        )
    if precision == "auto":
        precision = "tf32" if chosen.type == "cuda" else "highest"
    if precision not in _PRECISIONS:
        raise SettingError(
            f"precision must be 'auto' or one of {', '.join(_PRECISIONS)}, found {precision!r}"
        )
    return Runtime(chosen, precision)
