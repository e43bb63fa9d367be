"""The README tells the truth: its code runs, its tree is whole, its results are the records."""

import re
from pathlib import Path

import pytest

from viewgap.bench.grid import read_records
from viewgap.bench.tables import as_markdown, summarise

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_quick_start_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (quick_start,) = blocks("python")
    assert len(quick_start.strip().splitlines()) <= 12
    exec(compile(quick_start, "README.md", "exec"), {"__name__": "readme"})


def test_tree_lists_every_source_file() -> None:
    (tree,) = [block for block in blocks("text") if "errors.py" in block]
    for path in (ROOT / "src" / "viewgap").rglob("*.py"):
        if path.name != "__init__.py":
            assert f" {path.name} " in f" {' '.join(tree.split())} ", f"{path} is not in the tree"


def test_result_table_is_the_records() -> None:
    folders = [ROOT / "results" / "corel5k" / profile for profile in ("paper", "default")]
    records = [record for folder in folders for record in read_records(folder)]
    for line in as_markdown(summarise(records)).splitlines():
        assert line in README


def test_every_method_is_named() -> None:
    from viewgap import methods

    for name in methods.names():
        assert f"`{name}`" in README
