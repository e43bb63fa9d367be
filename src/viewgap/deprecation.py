"""Names that have changed. The old ones keep working for one release, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any

from viewgap.errors import SettingError, ViewgapDeprecationWarning, parameter

RENAMED_PARAMETERS: Mapping[str, str] = {
    "clip": "max_grad_norm",
    "weight_average": "ema_decay",
    "members": "n_networks",
    "fusion_statistics": "pooling",
}
"""Parameters of viewgap's methods: old name -> new name."""

RENAMED_VALUES: Mapping[str, Mapping[str, str]] = {
    "fusion_statistics": {"held_out": "log_odds", "train": "network"},
}
"""Values that changed with the name of a parameter: old name -> old value -> new value."""

RENAMED_TENSORS: Mapping[str, str] = {"members.": "networks.", "votes.": "pooling."}
"""Beginnings of the names of tensors in model files of version 0.1 -> those of now."""


def current_names(
    parameters: Mapping[str, Any],
    known: Collection[str] | None = None,
    *,
    warn: bool = True,
    stacklevel: int = 2,
) -> dict[str, Any]:
    """Return the parameters under the names they have now.

    Parameters
    ----------
    parameters : mapping of str to object
        Parameters by name, old or new.
    known : collection of str, optional
        The names that the method has; an old name that is among them, or whose new name is not,
        stays as it is. Without it every old name is replaced.
    warn : bool, default=True
        Whether to warn of an old name. What is read from a file is not the user's to change.
    stacklevel : int, default=2
        Whose line the warning names, as in `warnings.warn`.

    Returns
    -------
    dict
        The same values in the same order.
    """
    result: dict[str, Any] = {}
    for name, value in parameters.items():
        new = RENAMED_PARAMETERS.get(name, name)
        if known is not None and (name in known or new not in known):
            new = name
        if new != name and new in parameters:
            raise SettingError(
                f"{parameter(name)} is the old name of {parameter(new)}: pass one of them"
            )
        if new != name and warn:
            warnings.warn(
                f"{parameter(name)} is now called {parameter(new)}; the old name will be removed "
                "in the next release",
                ViewgapDeprecationWarning,
                stacklevel=stacklevel + 1,
            )
        values = RENAMED_VALUES.get(name, {}) if new != name else {}
        result[new] = values.get(value, value) if isinstance(value, str) else value
    return result


def current_tensor_name(name: str) -> str:
    """Return the name that a tensor of a model file has now."""
    for old, new in RENAMED_TENSORS.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name
