"""A view under another name is asked about: left out, it would be missing for every sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.cli import run
from viewgap.data.renamed_views import find_renamed
from viewgap.errors import ViewError, ViewgapWarning

IDS = [f"s{i:02d}" for i in range(30)]
RNG = np.random.default_rng(0)
SIZE = pd.DataFrame(RNG.normal(size=(30, 3)), IDS, ["a", "b", "c"])
COLOUR = pd.DataFrame(RNG.normal(size=(30, 2)), IDS, ["r", "g"])
Y = pd.DataFrame({"big": (SIZE["a"] > 0).astype(float)})


@pytest.fixture(scope="module")
def model() -> Any:
    return viewgap.LateFusionRidge(random_state=0).fit({"size": SIZE, "colour": COLOUR}, Y)


@pytest.fixture(scope="module")
def saved(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "model"
    viewgap.save_model(model, path)
    return path


@pytest.mark.parametrize(
    ("unknown", "absent", "expected"),
    [
        ({"x": ["a", "b"]}, {"size": ["a", "b"]}, ("x", "size", "all 2 columns of")),
        ({"x": ["a", "d"]}, {"size": ["a", "b"]}, ("x", "size", "1 of the 2 columns of")),
        ({"x": list("abcde")}, {"f": list("de"), "e": list("ab")}, ("x", "f", "all 2 columns of")),
        ({"w": ["q"], "x": 3}, {"size": 3}, ("x", "size", "as many columns (3) as")),
        ({"x": ["a", "b", "c"]}, {"size": 3}, ("x", "size", "as many columns (3) as")),
        ({"x": ["d"]}, {"size": ["a", "b"]}, None),
        ({"x": 4}, {"size": 3}, None),
        ({"x": ["a"]}, {}, None),
        ({}, {"size": 3}, None),
    ],
)
def test_which_view_it_could_be(unknown: Any, absent: Any, expected: Any) -> None:
    found = find_renamed(unknown, absent)
    assert (found and (found.given, found.known, found.reason)) == expected


def test_in_python(model: Any) -> None:
    X = {"size": SIZE, "color": COLOUR}
    message = "'color' is no view of the model, and has all 2 columns of its view 'colour'.*name it"
    with pytest.raises(ViewError, match=message):
        model.predict_proba(X)
    result = viewgap.check(model, X)
    assert [(one.severity, one.kind, one.view) for one in result.findings] == [
        ("error", "renamed_view", "color")
    ]
    with pytest.warns(ViewgapWarning, match="not given, treated as missing: colour"):
        model.predict_proba({"size": SIZE})
    model.predict_proba({"size": SIZE, "colour": None})  # it was said that it is missing


def test_a_view_that_is_there_is_not_looked_for(model: Any) -> None:
    result = viewgap.check(model, {"size": SIZE, "colour": COLOUR, "color": COLOUR})
    assert result.verdict == "fine"


def write(kind: str, folder: Path, **views: pd.DataFrame) -> Path:
    if kind == "csv":
        for name, view in views.items():
            view.to_csv(folder / f"{name}.csv", index_label="id")
        return folder
    if kind == "npz":
        arrays: Any = {name: view.to_numpy() for name, view in views.items()}
        np.savez(folder / "data.npz", sample_ids=IDS, **arrays)
        return folder / "data.npz"
    if kind == "wide":
        table = pd.concat(views, axis=1)
        table.columns = [":".join(names) for names in table.columns]
        table.to_csv(folder / "all.csv", index_label="id")
        return folder / "all.csv"
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(folder / "data.xlsx") as book:
        for name, view in views.items():
            view.rename_axis("id").reset_index().to_excel(book, sheet_name=name, index=False)
    return folder / "data.xlsx"


@pytest.mark.filterwarnings("ignore:views.*column names:viewgap.errors.ViewgapWarning")
@pytest.mark.parametrize("kind", ["csv", "npz", "wide", "xlsx"])
@pytest.mark.parametrize("command", ["predict", "check"])
def test_files(saved: Path, tmp_path: Path, capsys: Any, kind: str, command: str) -> None:
    data = write(kind, tmp_path, size=SIZE, color=COLOUR)
    assert run([command, str(saved), str(data)]) == 1
    printed = capsys.readouterr()
    said = " ".join((printed.out + printed.err).split())
    assert "is no view of the model, and has" in said
    assert "columns" in said
    assert "name it 'colour'" in said


def test_labelled_data(saved: Path, tmp_path: Path, capsys: Any) -> None:
    write("csv", tmp_path, size=SIZE, color=COLOUR, labels=Y)
    assert run(["evaluate", str(saved), str(tmp_path)]) == 1
    assert "name it 'colour'" in capsys.readouterr().err
