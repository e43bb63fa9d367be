"""JSON that says exactly one thing: no duplicate keys, no NaN, no endless nesting.

Settings are Python values that JSON does not know (tuples, slices, infinity): `encode` writes them
as objects with one key that starts with `$`, and `decode` gives back equal values.
"""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any, NoReturn

from viewgap.errors import is_control

MAX_DEPTH = 32
MAX_RANGE = 2**20
"""Longest range: whoever goes through a longer one that came from a file could go on for ever."""


def dumps(value: Any) -> bytes:
    """Return `value` as UTF-8 JSON with a final newline; NaN and unknown types are refused."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def loads(data: bytes) -> Any:
    """Read UTF-8 JSON; raise ValueError for whatever a careful writer would not have written."""
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check_depth(value)
    if b"\\ud" in data.lower():  # text that could never be written or printed
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a text has half of a surrogate pair, which is no character") from None
    return value


def plain(value: Any) -> Any:
    """Figures as JSON holds them: None for what is not a finite number, lists for tuples.

    Objects with a method `to_dict` become what it returns.
    """
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    value = _python_scalar(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def printed(value: Any, indent: int | None = None) -> str:
    r"""JSON in UTF-8 letters, for a terminal: control characters that JSON allows are escaped, too.

    Examples
    --------
    >>> print(printed({"ü": "\x9b"}))
    {"ü": "\u009b"}
    """
    text = json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False)
    return re.sub(r"[^\n -~]", _escaped, text)


def _escaped(found: re.Match[str]) -> str:
    letter = found.group()
    return f"\\u{ord(letter):04x}" if is_control(letter) else letter


def encode(value: Any, where: str, depth: int = 0) -> Any:
    """Return what JSON can hold for a setting; TypeError names the setting that cannot be held."""
    if depth > MAX_DEPTH:
        raise TypeError(f"{where} is nested more than {MAX_DEPTH} levels deep")
    value = _python_scalar(value)
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if _is_numpy(value, "ndarray") and value.dtype.kind in "biufU":
        return [encode(item, where, depth + 1) for item in value.tolist()]
    if isinstance(value, (list, tuple)):
        items = [encode(item, where, depth + 1) for item in value]
        return {"$tuple": items} if isinstance(value, tuple) else items
    if isinstance(value, range) and not _is_short(value):
        raise TypeError(f"{where} is a range of more than {MAX_RANGE:,} numbers; use a slice")
    if isinstance(value, (slice, range)):
        ends = [encode(end, where) for end in (value.start, value.stop, value.step)]
        return {"$slice" if isinstance(value, slice) else "$range": ends}
    if isinstance(value, dict):
        return _encode_mapping(value, where, depth)
    raise TypeError(f"{where} is a {type(value).__name__}, which a JSON file cannot hold")


def decode(value: Any) -> Any:
    """Return the setting that `encode` had been given; ValueError if it cannot come from there."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    special = [key for key in value if key.startswith("$")]
    if not special:
        return {key: decode(item) for key, item in value.items()}
    if len(value) != 1:
        raise ValueError(f"{special[0]!r} must be the only key of its object")
    return _decode_special(special[0], value[special[0]])


def _python_scalar(value: Any) -> Any:
    """A number of numpy as Python's."""
    return value.item() if _is_numpy(value, "generic") else value


def _is_numpy(value: Any, kind: str) -> bool:
    """Whether a value is of a type of numpy, which is loaded where there is one, and not here."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, getattr(numpy, kind))


def _encode_mapping(value: dict[Any, Any], where: str, depth: int) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str) or key.startswith("$"):
            raise TypeError(f"{where} has the key {key!r}; keys must be text not starting with '$'")
    return {key: encode(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}


def _decode_special(kind: str, content: Any) -> Any:
    if kind == "$float" and content in ("nan", "inf", "-inf"):
        return float(content)
    if kind == "$tuple" and isinstance(content, list):
        return tuple(decode(item) for item in content)
    if kind in ("$slice", "$range") and isinstance(content, list) and len(content) == 3:
        if kind == "$range" and all(type(end) is int for end in content) and content[2] != 0:
            if _is_short(range(*content)):
                return range(*content)
            raise ValueError(f"a range of more than {MAX_RANGE:,} numbers")
        if kind == "$slice" and all(end is None or type(end) in (int, str) for end in content):
            return slice(*content)
    raise ValueError(f"{kind!r} holds {str(content)[:60]!r}, which means nothing here")


def _is_short(numbers: range) -> bool:
    return not numbers[MAX_RANGE:]  # `len` fails for what a machine cannot count


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(2 * MAX_DEPTH):  # encoding may add a level to each level of a setting
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise ValueError("nested too deeply")


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key[:60]!r} appears twice")
        result[key] = value
    return result


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number
