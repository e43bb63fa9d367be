"""What a value may be, and what is said when it is not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import pytest
import torch

from viewgap.constraints import (
    AnyOf,
    Choice,
    Columns,
    Constraint,
    Device,
    Flag,
    Integer,
    OrNone,
    RandomState,
    Real,
    SequenceOf,
    check,
    declared,
)
from viewgap.errors import SettingError, command_line_words, parameter_words

LAYERS = SequenceOf(Integer(1, 1000), 1, 3, (64,))
RIGHT: list[tuple[Constraint, list[Any]]] = [
    (Integer(1, 5), [1, 5, np.int64(3), np.uint8(2)]),
    (Integer(0), [0, 10**30]),
    (Integer(None, -1), [-1, -7]),
    (Real(0, 1), [0, 1, 0.5, np.float32(0.25), np.int8(1)]),
    (Real(0, 1, closed="left"), [0, 0.999]),
    (Real(0, 1, closed="right"), [1e-300, 1]),
    (Real(0, None, closed="neither"), [1e-300, 1e38, np.float64(2)]),
    (Flag(), [True, False, np.True_]),
    (Choice("a", "b"), ["a", np.str_("b")]),
    (LAYERS, [[1], (1, 2, 3), np.array([4, 5])]),
    (OrNone(Integer(1)), [None, 1]),
    (AnyOf(Choice("sqrt"), Integer(1), Real(0, 1)), ["sqrt", 3, 0.5]),
    (Device(), ["auto", "cpu", "cuda", "cuda:12", torch.device("cpu")]),
    (Columns(), [None, {}, {"a": slice(0, 2), "b": [1], "c": "x", "d": range(3), "e": 4}]),
    (
        RandomState(),
        [None, 0, 2**200, np.int64(1), np.random.RandomState(0), np.random.default_rng(0)],
    ),
]
NOT_NUMBERS = ["1", b"1", None, True, np.True_, 1 + 0j, [1], Decimal(1), Fraction(1), object()]
WRONG: list[tuple[Constraint, list[Any]]] = [
    (Integer(1, 5), [*NOT_NUMBERS, 0, 6, 2.0, np.float64(2), math.nan, np.array(2)]),
    (Integer(None, -1), [0, 1]),
    (Real(0, 1), [*NOT_NUMBERS, -1e-9, 1.1, math.nan, math.inf, np.array(0.5)]),
    (Real(0, 1, closed="left"), [1, 1.0]),
    (Real(0, 1, closed="right"), [0, -0.0]),
    (Real(0, None, closed="neither"), [0, math.inf, 1e39, 10**400, np.float32("nan")]),
    (Flag(), [0, 1, "true", None, 1.0]),
    (Choice("a", "b"), ["c", "", None, 5, ["a"], True]),
    (LAYERS, [64, "64", [], [1, 2, 3, 4], [0], [2.5], ["x"], [True], [[1], [2]], np.ones((2, 2))]),
    (LAYERS, [[[1, 2], [3]], {1, 2}, {1: 2}, iter([1]), None]),
    (OrNone(Integer(1)), [0, "x"]),
    (AnyOf(Choice("sqrt"), Integer(1), Real(0, 1)), ["log", -1, 1.5, None]),
    (Device(), ["gpu", "cpu:7", "mps", "meta", "", "cuda:", "cuda:x", 5, None, ["cpu"]]),
    (Columns(), [5, "a", [1], {"a": 5.5}, {"a": None}, {"a": b"x"}]),
    (RandomState(), [-1, np.int64(-1), "a", 1.5, True, [1, 2], np.random]),
]


@pytest.mark.parametrize(("constraint", "values"), RIGHT)
def test_right_values_pass(constraint: Constraint, values: list[Any]) -> None:
    for value in values:
        assert constraint.accepts(value), value
        check("some", constraint, value)


@pytest.mark.parametrize(("constraint", "values"), WRONG)
def test_wrong_values_are_refused_by_name(constraint: Constraint, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(SettingError, match=r"^some must be .+, found .+"):
            check("some", constraint, value)


@pytest.mark.parametrize(
    ("constraint", "value", "message"),
    [
        (Integer(1), 2.5, "n must be a whole number of at least 1, found 2.5"),
        (Integer(1, 9), 10, "n must be a whole number from 1 to 9, found 10"),
        (Real(0, None, closed="neither"), 0, "n must be a number above 0, found 0"),
        (Real(0, None), -1, "n must be a number of at least 0, found -1"),
        (Real(None, 2, closed="neither"), 2, "n must be a number below 2, found 2"),
        (Real(0, 1, closed="left"), "x", "n must be a number in [0, 1), found 'x'"),
        (Real(0, None), math.nan, "n must be a finite number of at least 0, found nan"),
        (Real(0, None), 1e300, "n must be between -1e+38 and 1e+38, found 1e+300"),
        (Flag(), 1, "n must be True or False, found 1"),
        (Choice("a", "b"), "c", "n must be one of 'a', 'b', found 'c'"),
        (
            LAYERS,
            64,
            "n must be a sequence such as [64], 1 to 3 values, each a whole number from 1 to "
            "1000, found 64",
        ),
        (OrNone(Integer(1)), 0, "n must be a whole number of at least 1, or None, found 0"),
        (RandomState(), -1, "n must be a whole number of at least 0, found -1"),
    ],
)
def test_messages_say_what_was_expected(constraint: Constraint, value: Any, message: str) -> None:
    with pytest.raises(SettingError) as caught:
        check("n", constraint, value)
    assert str(caught.value) == message


def test_values_are_kept_as_plain_python() -> None:
    kept = [
        check("n", LAYERS, np.array([4, 5])),
        check("n", Real(), np.float32(0.5)),
        check("n", Integer(), np.int64(3)),
        check("n", Flag(), np.True_),
        check("n", OrNone(Integer()), None),
    ]
    assert kept == [(4, 5), 0.5, 3, True, None]
    assert [type(value) for value in kept] == [tuple, float, int, bool, type(None)]
    assert type(kept[0][0]) is int


def test_long_values_are_shown_in_one_short_line() -> None:
    with pytest.raises(SettingError) as caught:
        check("n", Flag(), np.ones((100, 100)))
    assert len(str(caught.value)) < 150
    assert "\n" not in str(caught.value)


def test_the_command_line_names_options() -> None:
    with command_line_words():
        with pytest.raises(SettingError, match=r"^--set max_grad_norm must be"):
            check("max_grad_norm", Real(0, None), -1)
        with pytest.raises(SettingError, match=r"^--seed must be"):
            check("random_state", RandomState(), -1)
        with parameter_words(), pytest.raises(SettingError, match=r"^max_grad_norm must be"):
            check("max_grad_norm", Real(0, None), -1)


def test_constraints_are_read_from_annotations() -> None:
    @dataclass
    class Settings:
        free: int
        size: Annotated[int, Integer(1)]
        share: Annotated[float, Real(0, 1)] | None

    def build(C: Annotated[float, Real(0, None)] = 1.0, other: str = "x") -> None: ...

    Settings.__annotations__ = {  # what `from __future__ import annotations` hides in a function
        "free": int,
        "size": Annotated[int, Integer(1)],
        "share": Annotated[float, Real(0, 1)] | None,
    }
    assert declared(Settings) == {"size": Integer(1), "share": OrNone(Real(0, 1))}
    build.__annotations__ = {"C": Annotated[float, Real(0, None)], "other": str}
    assert declared(build) == {"C": Real(0, None)}
