"""Every example in a docstring is executed, and Parameters sections name what can be passed."""

import doctest
import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import viewgap

SOURCE = Path(__file__).parents[1] / "src"
EXAMPLES = [path for path in SOURCE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")]


def test_there_are_examples() -> None:
    assert EXAMPLES


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path: Path) -> None:
    if "viewgap.tune(" in path.read_text(encoding="utf-8"):
        pytest.importorskip("optuna")
    module = importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def documented(function: Callable[..., Any]) -> list[str]:
    """The names in the Parameters section of a docstring."""
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}|\Z)",
        inspect.getdoc(function) or "",
        re.M | re.S,
    )
    lines = section[1].splitlines() if section else []
    entries = [line.split(" : ")[0] for line in lines if line and not line.startswith(" ")]
    return [name.strip(" *") for entry in entries for name in entry.split(",")]


PUBLIC = [
    getattr(viewgap, name) for name in viewgap.__all__ if name not in ("__version__", "errors")
]


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda thing: thing.__name__)
def test_documented_parameters_can_be_passed(thing: Any) -> None:
    members = [value for _, value in inspect.getmembers(thing, inspect.isfunction)]
    for function in [thing, *(m for m in members if m.__module__.startswith("viewgap"))]:
        assert set(documented(function)) <= set(inspect.signature(function).parameters)
