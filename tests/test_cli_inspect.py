"""`viewgap inspect`: findings and tables in a terminal, JSON, one page, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from viewgap.cli import run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two views of 40 samples as tables: an unmeasured cell, absent rows, labels as words."""
    rng = np.random.default_rng(0)
    ids = pd.Index([f"P{i}" for i in range(40)], name="id")
    place = tmp_path / "patients"
    place.mkdir()
    genes = pd.DataFrame(rng.normal(size=(40, 3)), index=ids, columns=["TP53", "ATM", "MYC"])
    genes.iloc[3, 1] = np.nan
    genes.to_csv(place / "genes.csv")
    drugs = pd.DataFrame(rng.normal(size=(40, 2)), index=ids, columns=["a", "b"])
    drugs.iloc[5:].to_csv(place / "drugs.csv")
    words = np.where(rng.random((40, 2)) < 0.5, "yes", "no")
    pd.DataFrame(words, index=ids, columns=["IGHV", "del17p"]).to_csv(place / "labels.csv")
    return place


def test_tables_in_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(folder)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("40 samples, 2 views, 2 labels: 0 errors, 0 warnings,")
    assert "(--missing" in out  # the words of the command line
    for text in ("genes", "Pairs of views", "drugs + genes", "IGHV", "'yes' as 1"):
        assert text in out


def test_json_and_page(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert run(["inspect", str(folder), "--json", "--html", str(page)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {own["kind"] for own in found["findings"]} >= {"reading", "missing_values"}
    assert [own["columns"] for own in found["views"]] == [2, 3]
    assert "Inspection of patients" in page.read_text(encoding="utf-8")


def test_what_fit_refuses_ends_with_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "genes.csv").read_text().splitlines()
    text[1] = "P0,,,"
    (folder / "genes.csv").write_text("\n".join(text))
    assert run(["inspect", str(folder)]) == 1
    assert "1 sample of 40 without any view" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["nowhere/at/all"], 1, "nowhere"),
        (["{folder}", "--html", "{folder}"], 1, "it is a folder"),
        (["{folder}", "--labels", "{folder}/none.csv"], 1, "none.csv"),
        ([], 2, "Missing argument"),
    ],
)
def test_misuse(
    folder: Path, arguments: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled = [argument.format(folder=folder) for argument in arguments]
    assert run(["inspect", *filled]) == code
    assert text in capsys.readouterr().err
