"""`--set key=value`: how the text of a parameter becomes its value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from viewgap.errors import SettingError

_WORDS = {"true": True, "false": False, "none": None, "null": None}


def parse_settings(entries: Sequence[str]) -> dict[str, Any]:
    """Parameters from texts like `alpha=0.1`, `hidden=[256,128]`, `quantise=false`, `device=cpu`.

    A value that is JSON is read as JSON; everything else stays text.
    """
    settings: dict[str, Any] = {}
    for entry in entries:
        key, sign, text = entry.partition("=")
        if not sign or not key.strip().isidentifier():
            raise SettingError(f"--set takes key=value, found {entry!r}")
        if key.strip() in settings:
            raise SettingError(f"--set gives {key.strip()!r} twice")
        settings[key.strip()] = _value(text.strip())
    return settings


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # the latter for brackets without end
        return text
