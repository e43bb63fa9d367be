"""What a NaN inside an observed row means: the three choices, everywhere the same."""

from __future__ import annotations

from viewgap.errors import SettingError

NAN_POLICIES = ("mean", "error", "missing_view")


def check_nan_policy(nan: object) -> None:
    """Refuse anything that is not one of the choices."""
    if not isinstance(nan, str) or nan not in NAN_POLICIES:
        raise SettingError(f"nan must be 'mean', 'error' or 'missing_view', found {nan!r}")
