"""`viewgap calibrate` and `viewgap decide`: what is printed, files, exit codes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.cli import run

N = 240
IDS = [f"s{i:03d}" for i in range(N)]
TRAIN, REST = slice(0, 90), slice(90, N)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Training rows, other rows, and a model of the first."""
    rng = np.random.default_rng(0)
    index = pd.Index(IDS, name="id")
    size = pd.DataFrame(rng.normal(size=(N, 3)), index=index, columns=list("abc"))
    colour = pd.DataFrame(rng.normal(size=(N, 2)), index=index, columns=list("rg"))
    labels = pd.DataFrame({"=big": size["a"] > 0, "red": colour["r"] > 0.2}).astype(float)
    labels.iloc[::7, 1] = np.nan
    found = []
    for name, rows in (("train", TRAIN), ("rest", REST)):
        folder = tmp_path_factory.mktemp(name)
        size[rows].to_csv(folder / "size.csv")
        colour[rows].iloc[20:].to_csv(folder / "colour.csv")
        labels[rows].to_csv(folder / "labels.csv")
        found.append(folder)
    model = tmp_path_factory.mktemp("models") / "model"
    asked = ["fit", str(found[0]), "--method", "late_fusion_ridge", "--out", str(model)]
    assert run(asked) == 0
    return found[0], found[1], model


@pytest.fixture
def sets(folders: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    file = tmp_path / "sets.json"
    asked = ["calibrate", str(folders[2]), str(folders[1]), "--out", str(file)]
    assert run([*asked, "--risk", "coverage", "--target-level", "0.7"]) == 0
    capsys.readouterr()
    return file


def test_calibrate_prints_promise_assumption_and_counts(
    folders: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["calibrate", str(folders[2]), str(folders[1]), "--out", str(tmp_path / "s.json")]
    assert run(asked) == 0
    told = capsys.readouterr()
    for words in ("promise: ", "assumed: ", "colour + size", "effective", "positives", "150"):
        assert words in told.out
    assert "fitted on" not in told.err
    assert run([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["risk"] == "missed positives"
    by_views = {tuple(own["views"]): own for own in found["patterns"]}
    assert {len(views) for views in by_views} == {1, 2}
    assert by_views["size",]["n_rows"] == 150
    assert by_views["colour",]["n_rows"] == 130
    assert by_views["size",]["n_positives"][1] < by_views["size",]["n_positives"][0]


def test_too_few_rows_to_decide_anything_are_told_with_the_fewest(
    folders: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, rest, model = folders
    few = tmp_path / "few"
    few.mkdir()
    for name in ("size", "colour", "labels"):
        table = pd.read_csv(rest / f"{name}.csv", index_col=0)
        table[table.index.isin(IDS[100:120])].to_csv(few / f"{name}.csv")
    asked = ["calibrate", str(model), str(few), "--out", str(tmp_path / "s.json")]
    assert run(asked) == 0
    told = capsys.readouterr().out
    assert "too few rows to decide anything: this promise takes at least 22 effective" in told
    assert run(["calibrate", str(model), str(rest), "--out", str(tmp_path / "t.json")]) == 0
    assert "too few rows" not in capsys.readouterr().out


def test_gaps_that_tell_a_label_are_warned_of(
    folders: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size, colour, labels = (
        pd.read_csv(folders[1] / f"{name}.csv", index_col="id")
        for name in ("size", "colour", "labels")
    )
    red = labels.index[labels["red"] == 1]
    size.to_csv(tmp_path / "size.csv")
    colour[colour.index.isin(red)].to_csv(tmp_path / "colour.csv")  # only who is red has a colour
    labels.to_csv(tmp_path / "labels.csv")
    out = str(tmp_path.parent / "s.json")
    for folder, telling in ((folders[1], False), (tmp_path, True)):
        assert run(["calibrate", str(folders[2]), str(folder), "--out", out]) == 0
        assert ("what is missing predicts labels (red)" in capsys.readouterr().err) is telling


def test_decide_writes_the_words_of_the_api_in_every_kind_of_file(
    folders: Any, sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = viewgap.load_model(folders[2])
    views = viewgap.data.formats.read_views(folders[1])
    expected = viewgap.LabelSets.load(sets, model).predict(views)
    assert set(expected.to_numpy().ravel()) == {"certain", "possible", "ruled out"}
    asked = ["decide", str(folders[2]), str(folders[1]), "--sets", str(sets)]
    for ending in ("csv", "parquet", "json"):
        assert run([*asked, "--out", str(tmp_path / f"d.{ending}")]) == 0
    assert "promise: " in capsys.readouterr().err
    with (tmp_path / "d.csv").open() as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["sample", "no_view", "'=big", "red"]
    assert [line[2:] for line in lines[1:]] == expected.to_numpy().tolist()
    assert [line[0] for line in lines[1:]] == expected.index.tolist()
    table = pd.read_parquet(tmp_path / "d.parquet")
    assert table[["=big", "red"]].to_numpy().tolist() == expected.to_numpy().tolist()
    records = json.loads((tmp_path / "d.json").read_text())
    assert [list(own["decisions"].values()) for own in records] == expected.to_numpy().tolist()
    assert run(asked) == 0
    assert capsys.readouterr().out == (tmp_path / "d.csv").read_text()


def test_blocks_change_no_answer(
    folders: Any, sets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["decide", str(folders[2]), str(folders[1]), "--sets", str(sets)]
    assert run(asked) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr("viewgap.decide.blocks.rows_of_a_block", lambda model: 7)
    assert run(asked) == 0
    assert capsys.readouterr().out == whole


def test_training_rows_are_warned_of_or_taken_out_of_fold(
    folders: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["calibrate", str(folders[2]), str(folders[0]), "--out", str(tmp_path / "s.json")]
    assert run(asked) == 0
    assert "--out-of-fold" in capsys.readouterr().err
    assert run([*asked, "--out-of-fold", "--folds", "3", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["out_of_fold"]
    assert "note" not in told.err


def test_misuse_and_strange_files_are_told_in_one_line(
    folders: Any, sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, rest, model = map(str, folders)
    out = str(tmp_path / "s.json")
    one = tmp_path / "one"
    one.mkdir()
    (one / "size.csv").write_bytes((folders[1] / "size.csv").read_bytes())
    assert run(["calibrate", model, rest, "--out", out, "--pattern", "size+colour"]) == 0
    capsys.readouterr()
    for asked, code, words in (
        (["calibrate", model, rest, "--out", out, "--target-level", "1"], 2, "--target-level"),
        (["calibrate", model, rest, "--out", out, "--risk", "all"], 2, "--risk"),
        (["calibrate", model, rest, "--out", out, "--pattern", "size+x"], 2, "found x"),
        (["calibrate", model, str(one), "--out", out], 1, "holds no labels"),
        (["decide", model, str(one), "--sets", out], 2, "--pattern size"),
        (["decide", model, rest, "--sets", str(one / "size.csv")], 1, "size.csv"),
        (["decide", model, rest, "--sets", str(tmp_path / "absent.json")], 1, "absent.json"),
        (["decide", model, rest, "--sets", str(sets), "--out", "d.txt"], 2, "d.txt"),
        (["decide", model, rest], 2, "--sets"),
    ):
        assert run(asked) == code, asked
        told = capsys.readouterr()
        assert words in told.err
        assert "Traceback" not in told.err
        assert not told.out
