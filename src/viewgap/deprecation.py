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
}
"""Parameters of viewgap's methods: old name -> new name."""


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
        result[new] = value
    return result
