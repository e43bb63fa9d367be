"""F53: weights that are not numbers are refused at loading, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viewgap.errors import ModelFileError
from viewgap.model_file import load_model


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["weights.0", "intercepts.1", "scaler.scale_1"])
def test_not_a_number(saved: Any, name: str, value: float) -> None:
    dtype = np.float32 if name.startswith("scaler") else np.float64
    shape = {"weights.0": (3, 2), "intercepts.1": (2,), "scaler.scale_1": (2,)}[name]
    array = np.zeros(shape, dtype=dtype)
    array.flat[-1] = value
    saved.forge_arrays(**{name.replace(".", "_dot_"): array})
    with pytest.raises(ModelFileError, match=f"'{name}' holds NaN or infinity"):
        load_model(saved.folder)


def test_nan_in_the_description(saved: Any) -> None:
    start = b'"label_frequency": ['
    saved.forge("model.json", saved.original["model.json"].replace(start, start + b"NaN,"))
    with pytest.raises(ModelFileError, match="NaN is not JSON"):
        load_model(saved.folder)
