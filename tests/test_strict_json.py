"""JSON that says exactly one thing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viewgap.strict_json as strict_json

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
ENDS = st.none() | st.integers()
STARTS = st.integers()
RANGES = st.builds(
    lambda start, n: range(start, start + n), STARTS, st.integers(-5, strict_json.MAX_RANGE)
)
SPECIAL = st.builds(slice, ENDS, ENDS, ENDS) | RANGES
KEYS = st.text().filter(lambda key: not key.startswith("$"))
SETTINGS = st.recursive(
    PLAIN | SPECIAL,
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=10,
)


@given(SETTINGS)
@settings(max_examples=100)
def test_settings_survive(value: Any) -> None:
    data = strict_json.dumps(strict_json.encode(value, "it"))
    again = strict_json.decode(strict_json.loads(data))
    assert again == value
    assert repr(again) == repr(value)  # 1, 1.0 and True are equal but not the same


def test_numpy_values_become_plain() -> None:
    value = {"a": np.float64(0.5), "b": np.int32(3), "c": np.arange(3), "d": np.array(["x", "y"])}
    encoded = strict_json.encode(value, "it")
    assert encoded == {"a": 0.5, "b": 3, "c": [0, 1, 2], "d": ["x", "y"]}
    assert math.isnan(strict_json.decode(strict_json.encode(float("nan"), "it")))


@pytest.mark.parametrize(
    "value", [object(), {1: 2}, {"$tuple": []}, {"a": {3}}, b"x", 1j, np.array([object()])]
)
def test_what_json_cannot_hold_is_named(value: Any) -> None:
    with pytest.raises(TypeError, match="parameter 'p'"):
        strict_json.encode(value, "parameter 'p'")


@pytest.mark.parametrize("half", [r"\ud800", r"\uDFFF x", r"\udc00\ud800"])
def test_text_that_is_none_is_refused(half: str) -> None:
    for text in (f'{{"a": ["{half}"]}}', f'{{"{half}": 1}}'):
        with pytest.raises(ValueError, match="half of a surrogate pair"):
            strict_json.loads(text.encode())
    assert strict_json.loads(rb'["\ud83d\ude00", "\\ud800"]') == ["\U0001f600", "\\ud800"]


def test_endless_nesting_is_refused_both_ways() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="nested"):
        strict_json.encode(endless, "it")
    for depth in (100, 100_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            strict_json.loads(b"[" * depth + b"]" * depth)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        "NaN",
        "[-Infinity]",
        "1e999",
        "[1,]",
        "{'a': 1}",
        "",
        "1 2",
        "\ufeff1",
        "9" * 5000,
    ],
)
def test_sloppy_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        strict_json.loads(text.encode())


def test_bytes_that_are_not_text_are_refused() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        strict_json.loads(b"\xff\xfe")


@pytest.mark.parametrize(
    "value",
    [
        {"$tuple": [], "b": 1},
        {"$unknown": 1},
        {"$tuple": 3},
        {"$float": "1.5"},
        {"$range": [0, 3, 0]},
        {"$range": [0, 3]},
        {"$range": [0, 3, 1.5]},
        {"$slice": [0, [], None]},
        {"$float": ["nan"]},
    ],
)
def test_specials_that_encode_never_writes_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"\$"):
        strict_json.decode([value])


@pytest.mark.parametrize("stop", [strict_json.MAX_RANGE + 1, 10**18, 10**30])
def test_a_range_too_long_to_go_through_is_neither_written_nor_read(stop: int) -> None:
    with pytest.raises(TypeError, match="use a slice"):
        strict_json.encode(range(stop), "it")
    with pytest.raises(ValueError, match="a range of more than"):
        strict_json.decode({"$range": [0, stop, 1]})
