"""The page on label sets shows the figures that are kept."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.label_sets import as_tables

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_kept_figures() -> None:
    content = json.loads((ROOT / "benchmarks" / "label_sets.json").read_text())
    page = (ROOT / "docs" / "label_sets.md").read_text()
    for table in as_tables(content).split("\n\n"):
        assert table in page
