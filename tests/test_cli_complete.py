"""`viewgap complete`: lines in every format, the completed matrix, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.cli import run

pytestmark = pytest.mark.filterwarnings("ignore:.*labels are not judged")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two tables and labels of 60 patients; three of them have a wrong label."""
    rng = np.random.default_rng(0)
    root = tmp_path_factory.mktemp("data")
    (root / "views").mkdir()
    ids = pd.Index([f"=p{i}" for i in range(60)], name="id")
    x = pd.DataFrame(rng.normal(size=(60, 3)), index=ids)
    x.to_csv(root / "views" / "genes.csv")
    x.iloc[:50, ::-1].to_csv(root / "views" / "drugs.csv")
    labels = pd.DataFrame({"sick": (x[0] > 0) * 1.0, "old": (x[1] > 0) * 1.0}, index=ids)
    labels.iloc[5:15, 1] = np.nan
    labels.loc[x[0].nlargest(3).index, "sick"] = 0.0
    labels.to_csv(root / "labels.csv")
    pd.DataFrame({"family": np.arange(60) // 2}, index=ids).to_csv(root / "families.csv")
    return str(root)


def command(folder: str, *more: str) -> list[str]:
    labels = ["--labels", f"{folder}/labels.csv", "--method", "late_fusion_ridge"]
    return ["complete", f"{folder}/views", *labels, "--min-odds", "2", *more]


def test_files_of_every_kind_have_the_same_lines(folder: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    found = {}
    for ending in ("csv", "json", "parquet"):
        file = tmp_path / f"lines.{ending}"
        assert run(command(folder, "--out", str(file))) == 0
        readers = {"csv": pd.read_csv, "json": pd.read_json, "parquet": pd.read_parquet}
        found[ending] = readers[ending](file)
    flagged = found["json"][found["json"]["kind"] == "suspicious"]
    assert (found["json"]["kind"] == "unobserved").sum() == 10
    assert {"label", "observed", "probability", "reason"} <= set(flagged.columns)
    assert flagged["rank"].tolist() == list(range(1, len(flagged) + 1))
    assert found["csv"]["sample"].str.startswith("'=p").all()  # no formula for a spreadsheet
    assert found["parquet"]["sample"].tolist() == found["json"]["sample"].tolist()
    for kind in ("csv", "parquet"):
        np.testing.assert_allclose(found[kind]["probability"], found["json"]["probability"])
        assert found[kind]["rank"].isna().sum() == 10


def test_wrong_labels_are_printed_with_their_reason(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command(folder, "--most", "2")) == 0
    said = capsys.readouterr().out
    assert said.startswith("10 label entries were not observed; 2 of 110 observed ones look wrong")
    assert "observed negative, but the" in said
    assert run(command(folder, "--json")) == 0
    lines = json.loads(capsys.readouterr().out)
    assert [line["kind"] for line in lines].count("unobserved") == 10
    assert lines[-1]["rank"] is None
    assert lines[0]["label"] == "sick"


def test_the_matrix_keeps_observed_labels(folder: str, tmp_path: Path) -> None:
    assert run(command(folder, "--matrix", str(tmp_path / "done.csv"))) == 0
    done = pd.read_csv(tmp_path / "done.csv", index_col="sample")
    given = pd.read_csv(f"{folder}/labels.csv", index_col="id")
    seen = given.notna().to_numpy()
    np.testing.assert_array_equal(done.to_numpy()[seen], given.to_numpy()[seen])
    assert done.notna().to_numpy().all()


def test_options_reach_python(folder: str, tmp_path: Path) -> None:
    options = ["--groups", f"{folder}/families.csv", "--folds", "3", "--repeats", "2"]
    options += ["--seed", "4"]
    options += ["--set", "late_fusion_ridge.features=auto"]
    assert run(command(folder, *options, "--out", str(tmp_path / "lines.json"))) == 0
    model = viewgap.LateFusionRidge(features="auto", random_state=4)
    files = {name: f"{folder}/views/{name}.csv" for name in ("drugs", "genes")}
    views = {name: pd.read_csv(file, index_col="id") for name, file in files.items()}
    groups = pd.read_csv(f"{folder}/families.csv", index_col="id", dtype=str)
    expected = viewgap.complete_labels(
        views,
        pd.read_csv(f"{folder}/labels.csv", index_col="id"),
        model,
        cv=3,
        n_repeats=2,
        groups=groups,
        random_state=4,
    ).to_lines(min_odds=2)
    found = pd.read_json(tmp_path / "lines.json")
    assert found["sample"].tolist() == expected["sample"].tolist()
    np.testing.assert_allclose(found["probability"], expected["probability"])


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (["--out", "lines.txt"], 2, "'.txt'"),
        (["--out", "a.csv", "--matrix", "a.csv"], 2, "name the same file"),
        (["--out", "nowhere/at/all/a.csv"], 1, "nowhere"),
        (["--method", "nothing"], 2, "unknown method 'nothing'"),
        (["--set", "scsd.epochs=3"], 2, "'scsd' is not compared"),
        (["--min-odds", "-1"], 2, "--min-odds must be a positive number"),
        (["--folds", "70"], 2, "ask for fewer folds"),
    ],
)
def test_misuse_is_told(
    folder: str,
    more: list[str],
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(command(folder, *more)) == code
    assert words in capsys.readouterr().err


def test_data_without_labels_says_how_to_give_them(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["complete", f"{folder}/views"]) == 1
    assert "--labels FILE" in capsys.readouterr().err
