"""The README tells the truth: its code runs, its tree is whole, its results are the records."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.bench.run.runner import read_records
from viewgap.bench.show.tables import as_markdown, summarise
from viewgap.metrics import average_precision

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


SMALL_SETS = README[README.index("| AP | emotions") : README.index("**MultiDigits**, ten")]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.slow
def test_quick_start_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (quick_start,) = blocks("python")
    assert len(quick_start.strip().splitlines()) <= 25
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(quick_start, "README.md", "exec"), names)
    truth, probabilities = names["truth"].loc[names["new"]], names["probabilities"]
    # Label frequencies alone have 0.77, and the block 0.996: a first look must not mislead.
    assert average_precision(truth, probabilities, variant="clean") > 0.9


def test_result_table_is_the_records() -> None:
    parts = ("solvers", "baselines", "paper", "default")
    folders = [ROOT / "results" / "corel5k" / part for part in parts]
    records = [record for folder in folders for record in read_records(folder)]
    assert as_markdown(summarise(records)) in README


@pytest.mark.parametrize(
    ("line", "parts", "wanted", "figure"),
    [
        ("calibration error", ("calibration", "default"), {}, "beyond chance"),
        ("macro F1", ("calibration", "default"), {}, "macro F1"),
        ("70 % of the views", ("robustness",), {"view_rate": 0.7, "test_view_rate": 0.7}, "AP"),
        ("trained with 30 %", ("robustness",), {"view_rate": 0.3, "test_view_rate": 0.7}, "AP"),
        ("trained with 70 %", ("robustness",), {"view_rate": 0.7, "test_view_rate": 0.3}, "AP"),
        ("nothing missing", ("complete",), {"view_rate": 0.0, "label_rate": 0.0}, "AP"),
    ],
)
def test_paper_and_default_are_compared_by_the_records(
    line: str, parts: tuple[str, ...], wanted: dict[str, float], figure: str
) -> None:
    records = [r for part in parts for r in read_records(ROOT / "results" / "corel5k" / part)]
    shown = []
    for profile in ("paper", "default"):
        own = [r for r in records if r.profile == profile and wanted.items() <= r.settings.items()]
        assert sorted(record.fold for record in own) == list(range(10))
        values = [{**r.metrics, **r.details}[figure] for r in own]
        digits = 4 if figure == "beyond chance" else 3
        shown.append(f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}")
    (found,) = [text for text in README.splitlines() if text.startswith("| ") and line in text]
    assert found.endswith(f"| {shown[0]} | {shown[1]} |")


@pytest.mark.parametrize(
    ("line", "parts"),
    [("as published", ("baselines", "paper")), ("prepared features", ("prepared", "default"))],
)
def test_prepared_features_are_compared_by_the_records(line: str, parts: tuple[str, ...]) -> None:
    records = [r for part in parts for r in read_records(ROOT / "results" / "corel5k" / part)]
    (head,) = [text for text in README.splitlines() if text.startswith("| AP | ddinet")]
    (shown,) = [text for text in README.splitlines() if text.startswith(f"| {line} |")]
    columns = (text.strip("| ").replace("†", "").split(" | ")[1:] for text in (head, shown))
    for title, value in zip(*columns, strict=True):
        name, _, only = title.partition(", folds ")
        method, _, profile = name.partition(" ")
        wanted = profile.strip("()") or ("default" if method == "scsd" else "paper")
        folds = 3 if only == "0-2" else 10
        own = [r for r in records if (r.method, r.profile) == (method, wanted) and r.fold < folds]
        assert sorted(record.fold for record in own) == ([] if value == "–" else [*range(folds)])
        if own:
            assert value == f"{np.mean([record.metrics['AP'] for record in own]):.3f}"


def test_the_figure_without_validation_rows_is_the_records() -> None:
    (row,) = summarise(read_records(ROOT / "results" / "corel5k" / "holdout"))
    assert row.folds == 10
    assert f"**{row.mean['AP']:.3f} ± {row.spread['AP']:.3f}**" in README


@pytest.mark.parametrize(
    ("table", "parts"),
    [("table2", ("solvers", "baselines", "paper")), ("ablation", ("ablation",))],
)
def test_rendered_tables_are_the_records(table: str, parts: tuple[str, ...]) -> None:
    folder = ROOT / "results" / "corel5k"
    records = [record for part in parts for record in read_records(folder / part)]
    rendered = (folder / f"{table}.md").read_text(encoding="utf-8")
    assert rendered == as_markdown(summarise(records), published=True)


@pytest.mark.parametrize(("dataset", "place"), [("emotions", 2), ("3sources", 3)])
def test_table_of_small_sets_is_the_records(dataset: str, place: int) -> None:
    for row in summarise(read_records(ROOT / "results" / dataset)):
        shown = f"{row.mean['AP']:.3f} ± {row.spread['AP']:.3f}"
        title = re.escape(row.title.replace("†", ""))
        (line,) = re.findall(rf"^\| {title} \| \S+ .*\|.*$", SMALL_SETS, flags=re.MULTILINE)
        assert line.split("|")[place].strip() == shown


@pytest.mark.parametrize("dataset", ["multidigits", "3sources_natural"])
def test_other_small_sets_are_the_records(dataset: str) -> None:
    rows = {row.title: row for row in summarise(read_records(ROOT / "results" / dataset))}
    words = " ".join(README.split())
    for title in ("scsd", "scsd (paper)", "late_fusion_ridge"):
        assert rows[title].folds == 10
        shown = f"{rows[title].mean['AP']:.3f} ± {rows[title].spread['AP']:.3f}"
        assert re.search(rf"{shown}[ ,;)(]", words)


def test_table_of_methods_is_what_the_methods_say() -> None:
    from viewgap.methods._catalogue import as_markdown as table_of_methods

    assert f"<!-- methods -->\n{table_of_methods()}<!-- /methods -->" in README
