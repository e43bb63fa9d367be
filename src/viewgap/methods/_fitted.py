"""A fitted model where one is asked for, or what to pass instead."""

from __future__ import annotations

import os
from typing import Any

from viewgap.errors import SettingError
from viewgap.methods.base import MultiViewClassifier


def as_method(model: Any) -> MultiViewClassifier:
    """Return the model; SettingError for anything that is no method of viewgap."""
    if not isinstance(model, MultiViewClassifier):
        advice = "of a pipeline, pass the last step, and the views as the steps before change them"
        if isinstance(model, str | os.PathLike):
            advice = "load a saved one by viewgap.load_model(path)"
        raise SettingError(
            f"model must be a fitted method of viewgap; found {type(model).__name__}: {advice}"
        )
    return model


def fitted_model(model: Any) -> MultiViewClassifier:
    """Return the model; SettingError for anything else, NotFittedError before `fit`."""
    method = as_method(model)
    method._check_fitted()
    return method
