"""A method as a model file describes it: by its name and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viewgap.deprecation import current_names
from viewgap.methods.base import MultiViewClassifier
from viewgap.methods.registry import get, names


def restore_method(name: Any, params: Mapping[str, Any], device: str | None) -> MultiViewClassifier:
    """An unfitted method; ValueError for what no method has.

    `device` takes the place of the stored one.
    """
    if name not in names():
        raise ValueError(f"there is no method {str(name)[:60]!r} in this viewgap")
    kind = get(name)
    known = set(kind._get_param_names())
    params = current_names(params, known, warn=False)
    unknown = set(params) - known
    if unknown:
        raise ValueError(f"{kind.__name__} has no parameter {str(min(unknown))[:60]!r}")
    if device is not None and "device" in known:
        params["device"] = device
    model = kind(**params)
    model._check_parameters()
    return model
