"""`viewgap explain` and `viewgap suggest`: tables, JSON, files, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.cli import run


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    data: Any = viewgap.load_dataset("synthetic")
    folder = tmp_path_factory.mktemp("model") / "model"
    viewgap.save_model(viewgap.LateFusionRidge().fit(data.views, data.labels), folder)
    return str(folder)


def test_explain_prints_json_that_adds_up_and_writes_it(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lines.csv"
    asked = ["explain", saved, "synthetic", "--sample", "3", "--label", "label0"]
    assert run([*asked, "--json", "--out", str(file)]) == 0
    lines = json.loads(capsys.readouterr().out)
    total = sum(line["contribution"] for line in lines)
    assert total == pytest.approx(lines[0]["probability"] - lines[0]["base"])
    assert pd.read_csv(file)["view"].tolist() == [line["view"] for line in lines]
    assert run(asked) == 0
    assert "without any view" in capsys.readouterr().out


def test_misuse_is_told(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    for more, words in (
        (["--sample", "nobody"], "unknown: nobody"),
        ([], "give --sample"),
        (["--sample", "3", "--out", "x.txt"], ".html, .svg; found the ending '.txt'"),
    ):
        assert run(["explain", saved, "synthetic", *more]) == 2
        assert words in capsys.readouterr().err
    asked = ["suggest", saved, "synthetic", "--reference", "synthetic"]
    assert run([*asked, "--cost", "view0"]) == 2
    assert "view=number" in capsys.readouterr().err


def test_suggest_says_that_no_sample_lacks_a_view_or_ranks(
    saved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["suggest", saved, "synthetic", "--reference", "synthetic", "--sample", "3"]
    assert run([*asked, "--cost", "view0=3", "--json"]) == 0
    said = capsys.readouterr()
    assert isinstance(json.loads(said.out), list)
    assert "every view looks better" in said.err  # the model was fitted on the reference


def test_a_sample_that_lacks_no_view_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    ids = [f"s{i}" for i in range(80)]
    views = {name: pd.DataFrame(rng.normal(size=(80, 2)), ids, ["x", "y"]) for name in "ab"}
    labels = pd.DataFrame({"u": views["a"]["x"] > 0, "v": views["b"]["y"] > 0}, dtype=float)
    half = {name: table[:40] for name, table in views.items()}
    viewgap.save_model(viewgap.LateFusionRidge().fit(half, labels[:40]), tmp_path / "m")
    (tmp_path / "new").mkdir()
    views["a"][40:].to_csv(tmp_path / "new" / "a.csv")
    views["b"][41:].to_csv(tmp_path / "new" / "b.csv")
    labels[40:].astype(int).to_csv(tmp_path / "new" / "labels.csv")
    model, new = str(tmp_path / "m"), str(tmp_path / "new")
    asked = ["suggest", model, new, "--reference", new, "--sample", "s40", "--sample", "s50"]
    assert run([*asked, "--json"]) == 0
    said = capsys.readouterr()
    assert [(line["sample"], line["view"]) for line in json.loads(said.out)] == [("s40", "b")]
    assert "note: s50: no view is missing" in said.err


def test_drawings_are_written(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["explain", saved, "synthetic", "--sample", "3", "--sample", "5"]
    for name, beginning in (("page.html", "<!doctype html>"), ("picture.svg", "<svg xmlns")):
        assert run([*asked, "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text("utf-8").lstrip().startswith(beginning)
        assert "2 samples" in capsys.readouterr().err


def test_columns_of_a_view_are_ranked(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["explain", saved, "synthetic", "--columns", "view0", "--repeats", "2"]
    assert run([*asked, "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)
    model, data = viewgap.load_model(saved), viewgap.load_dataset("synthetic")
    expected = viewgap.column_importance(model, data.views, data.labels, view="view0", n_repeats=2)
    assert [line["group"] for line in lines] == expected["group"].tolist()
    assert [line["importance"] for line in lines] == expected["importance"].tolist()
    assert run(asked) == 0
    assert "average precision" in capsys.readouterr().out
    for more, words in (
        (["--sample", "3"], "--sample is for single samples"),
        (["--label", "label0"], "--label is for contributions"),
        (["--group-by", "_"], "--group-by: the columns of view 'view0' have no names"),
        (["--out", str(tmp_path / "x.html")], "'.html'"),
    ):
        assert run([*asked, *more]) == 2
        assert words in capsys.readouterr().err
    assert run(["explain", saved, "synthetic", "--sample", "3", "--repeats", "2"]) == 2
    assert "--repeats is for --columns VIEW" in capsys.readouterr().err


def test_nearest_samples_are_listed_or_refused(
    saved: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data: Any = viewgap.load_dataset("synthetic")
    network = viewgap.SCSD(
        max_epochs=1, n_networks=1, hidden=(8,), embedding=4, codebook_size=8, device="cpu"
    ).fit(data.views[:60], data.labels[:60])
    viewgap.save_model(network, tmp_path / "scsd")
    asked = ["explain", str(tmp_path / "scsd"), "synthetic", "--sample", "3"]
    asked += ["--nearest", "synthetic", "--neighbours", "2"]
    assert run([*asked, "--json"]) == 0
    assert [line["rank"] for line in json.loads(capsys.readouterr().out)] == [1, 2]
    assert run(asked) == 0
    assert "shared_views" in capsys.readouterr().out
    assert run(["explain", saved, "synthetic", "--sample", "3", "--nearest", "synthetic"]) == 2
    assert "methods that have one: SCSD" in capsys.readouterr().err
