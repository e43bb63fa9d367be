"""Every fault of docs/faults.md has its number, and a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "faults.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (F\d\d) \|.*\| `([\w/]+\.py)::(test_\w+)` \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE)
NUMBERS = [*range(1, 28), *range(30, 42), *range(50, 60), *range(60, 66), *range(70, 78)]


def test_every_fault_is_there_once() -> None:
    assert [number for number, _, _ in ROWS] == [f"F{number:02}" for number in NUMBERS]


@pytest.mark.parametrize(("number", "file", "name"), ROWS)
def test_its_test_is_there(number: str, file: str, name: str) -> None:
    source = (TESTS / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", source, re.MULTILINE), number
