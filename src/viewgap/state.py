"""The state of something fitted, in a form that can be written without pickle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class State:
    """Arrays for a tensor file, metadata for a JSON file."""

    arrays: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def part(self, prefix: str) -> dict[str, NDArray[np.generic]]:
        """The arrays whose name starts with `prefix`, without it."""
        start = len(prefix)
        return {k[start:]: v for k, v in self.arrays.items() if k.startswith(prefix)}

    def array(
        self, name: str, shape: tuple[int | None, ...], dtype: type[np.generic]
    ) -> NDArray[Any]:
        """An array, after its type and shape are checked (None: any length); else ValueError."""
        if name not in self.arrays:
            raise ValueError(f"the array {name!r} is missing")
        array = self.arrays[name]
        fits = array.ndim == len(shape) and all(
            expected in (None, size) for expected, size in zip(shape, array.shape, strict=True)
        )
        if not fits or array.dtype != dtype:
            raise ValueError(
                f"the array {name!r} must be {np.dtype(dtype)} of shape {shape}, "
                f"found {array.dtype} of shape {array.shape}"
            )
        return array
