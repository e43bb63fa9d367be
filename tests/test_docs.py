"""Every block of the documentation runs, Python and command lines; those of a page in its order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from viewgap.cli import run

DOCS = Path(__file__).parents[1] / "docs"


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```(python|bash)\n(.*?)^```", text, re.M | re.S)


def run_page(page: Path) -> dict[str, Any]:
    """Run the blocks and return the names that those in Python share."""
    names: dict[str, Any] = {"__name__": "docs"}
    for number, (language, block) in enumerate(blocks(page), 1):
        if language == "python":
            exec(compile(block, f"{page.name}, block {number}", "exec"), names)
            continue
        for line in block.strip().splitlines():
            program, *arguments = shlex.split(line)
            assert program == "viewgap"
            assert run(arguments) == 0, line
    return names


PAGES = [page for page in sorted(DOCS.glob("*.md")) if blocks(page)]
pytestmark = pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")  # shown on purpose


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)


def test_own_data_becomes_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page(DOCS / "own_data.md")
    assert len(Path("predictions.csv").read_text().splitlines()) == 5
    assert names["apart"].observed.sum(axis=0).tolist() == [20, 20]
    assert names["data"].views.feature_names["drugs"] == ("ibrutinib", "venetoclax")
