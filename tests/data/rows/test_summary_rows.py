"""Rows of sums and means under a table are refused by their id and their numbers together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import viewgap
from viewgap.data.formats import read_data
from viewgap.data.rows.summary_rows import named_like_summary
from viewgap.errors import ViewError

RNG = np.random.default_rng(0)
GENES = pd.DataFrame(
    RNG.normal(20, 6, size=(12, 3)).round(1), [f"s{i}" for i in range(12)], ["a", "b", "c"]
)


def with_row(name: str, values: Any, frame: pd.DataFrame = GENES) -> pd.DataFrame:
    return pd.concat([frame, pd.DataFrame([np.asarray(values)], [name], frame.columns)])


@pytest.mark.parametrize(
    ("name", "values", "what"),
    [
        ("Total", GENES.sum(), "sums"),
        ("Summe:", GENES.sum(), "sums"),
        ("\u03a3", GENES.sum(), "sums"),
        ("Grand total", GENES.sum().astype(np.float32), "sums"),
        ("total (n=12)", [*GENES.sum()[:2], np.nan], "sums"),
        ("MEAN", GENES.mean(), "means"),
        ("Average", GENES.mean().round(1), "means"),
    ],
)
def test_sums_and_means_are_refused(name: str, values: Any, what: str) -> None:
    table = with_row(name, values)
    with pytest.raises(ViewError, match=f"view 'genes': row .* are the {what} of .*Delete") as told:
        viewgap.ViewSet({"genes": table, "other": GENES})
    assert name in str(told.value)
    with pytest.raises(ViewError, match="another id"):
        viewgap.ViewSet({"genes": table.to_numpy()}, sample_ids=table.index)
    assert len(viewgap.ViewSet({"genes": table.rename(index={name: "s12"})})) == 13


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Total", GENES.sum() + 1),  # a formula over other rows: `inspect` tells of it
        ("Total", GENES.mean()),
        ("mean", GENES.iloc[0]),
        ("s12", GENES.sum()),
        ("totally", GENES.sum()),
        ("Total", [np.nan] * 3),
    ],
)
def test_neither_the_id_nor_the_numbers_alone_are_enough(name: str, values: Any) -> None:
    views = viewgap.ViewSet({"genes": with_row(name, values), "other": with_row(name, [1, 2, 3])})
    assert name in views.sample_ids.tolist()


def test_other_rows_of_statistics_do_not_count_as_samples() -> None:
    table = with_row("SD", GENES.std(), with_row("Total", GENES.sum()))
    with pytest.raises(ViewError, match=r"'Total'.*look at SD"):
        viewgap.ViewSet({"genes": table})


def test_sparse_views() -> None:
    counts = pd.DataFrame(RNG.poisson(1, size=(12, 5)), GENES.index)
    table = with_row("Total", counts.sum(), counts)
    with pytest.raises(ViewError, match="5 of the 5"):
        viewgap.ViewSet({"genes": sparse.csr_array(table)}, sample_ids=table.index)


def test_values_under_the_mask_are_not_read() -> None:
    table = with_row("Total", GENES.sum())
    views = {"genes": table, "other": table * 2 + 1}
    observed = np.ones((13, 2), dtype=bool)
    observed[-1, 0] = False
    assert len(viewgap.ViewSet(views, observed)) == 13
    observed[-1, 0] = True
    with pytest.raises(ViewError, match="'genes'"):
        viewgap.ViewSet(views, observed)


def test_whole_numbers_that_a_rounded_mean_would_meet_by_chance_are_no_proof() -> None:
    coin = pd.DataFrame({"x": [0, 1, 0, 0, 1, 0]}, [*"abcdef"])
    assert len(viewgap.ViewSet({"coin": with_row("mean", [0], coin)})) == 7


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".xlsx"])
def test_files(tmp_path: Path, suffix: str) -> None:
    table = with_row("Total", GENES.sum()).rename_axis("id")
    labels = pd.DataFrame({"y": [0, 1] * 6}, GENES.index).rename_axis("id")
    if suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        with pd.ExcelWriter(tmp_path / "data.xlsx") as book:
            table.reset_index().to_excel(book, sheet_name="genes", index=False)
            labels.reset_index().to_excel(book, sheet_name="labels", index=False)
    elif suffix == ".parquet":
        pytest.importorskip("pyarrow")
        table.to_parquet(tmp_path / "genes.parquet")
        labels.to_parquet(tmp_path / "labels.parquet")
    else:
        separator = "\t" if suffix == ".tsv" else ","
        table.to_csv(tmp_path / f"genes{suffix}", sep=separator)
        labels.to_csv(tmp_path / f"labels{suffix}", sep=separator)
    with pytest.raises(ViewError, match=r"view 'genes': row 'Total' is no sample"):
        read_data(tmp_path / "data.xlsx" if suffix == ".xlsx" else tmp_path)


def test_names_of_statistics() -> None:
    names = ["Total", "Grand Total:", "sum of columns", "\u2211", "Std", "ALL_1", "total RNA", "s1"]
    assert named_like_summary([*names, 7]) == names[:5]
