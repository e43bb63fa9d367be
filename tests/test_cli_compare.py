"""`viewgap compare`, and paths in the files of `viewgap bench run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.bench.results.record import read_records
from viewgap.bench.run.execute import run_task
from viewgap.cli import run
from viewgap.cli.compare import method_parameters
from viewgap.errors import SettingError


@pytest.fixture
def patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of tables with gaps, and the working directory above it."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "patients"
    folder.mkdir()
    truth = rng.integers(0, 2, (40, 2))
    genes = truth @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(40, 3))
    lines = [f"p{i}," + ",".join(f"{v:.4f}" for v in row) for i, row in enumerate(genes)]
    (folder / "genes.csv").write_text("\n".join(["id,g1,g2,g3", *lines[:30]]) + "\n")
    drugs = [f"p{i},{v:.4f}" for i, v in enumerate(rng.normal(size=40))]
    (folder / "drugs.csv").write_text("\n".join(["id,d1", *drugs]) + "\n")
    labels = [f"p{i},{a},{b if i % 5 else ''}" for i, (a, b) in enumerate(truth)]
    (folder / "labels.csv").write_text("\n".join(["id,x,y", *labels]) + "\n")
    groups = [f"p{i},{i // 2}" for i in range(40)]
    (tmp_path / "families.csv").write_text("\n".join(["id,family", *groups]) + "\n")
    monkeypatch.chdir(tmp_path)
    return folder


COMMAND = ["compare", "patients", "--folds", "2", "--only", "--method", "late_fusion_ridge"]


def test_from_a_folder_to_a_table_and_a_report(patients: Path, capsys: Any) -> None:
    options = ["--method", "label_frequency", "--groups", "families.csv", "--out", "out"]
    assert run([*COMMAND, *options]) == 0
    printed = capsys.readouterr()
    assert "patients: 40 samples, 2 folds" in printed.out
    assert "late_fusion_ridge" in printed.out
    assert "corrected resampled t-test" in " ".join(printed.out.split())
    assert "records and report: out/report.html" in printed.err
    assert "<html" in Path("out/report.html").read_text()
    assert run([*COMMAND, *options, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["samples"] == 40
    assert {own["method"] for own in again["methods"]} == {"late_fusion_ridge", "label_frequency"}
    assert len(read_records(Path("out"))) == 4
    assert run(["bench", "table", "out"]) == 0


def test_failures_are_named_and_the_rest_is_shown(patients: Path, capsys: Any) -> None:
    options = ["--method", "scsd", "--set", "scsd.device=cuda:99"]
    assert run([*COMMAND, *options]) == 1
    printed = capsys.readouterr()
    assert "late_fusion_ridge" in printed.out
    assert "2 fits failed; first: scsd, fold 0: " in printed.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "alpha=1"], "--set takes method.key=value"),
        (["--set", "scsd.alpha=1"], "'scsd' is not compared; the methods are: late_fusion_ridge"),
        (["--set", "late_fusion_ridge.alpha=1"], "has no parameter 'alpha'"),
        (["--method", "nonsense"], "unknown method 'nonsense'"),
        (["--metric", "auc"], "unknown metric 'auc'"),
        (["--time-limit", "25"], "--time-limit must be a length of time"),
        (["--folds", "1"], "--folds"),
    ],
)
def test_misuse_is_named(patients: Path, capsys: Any, options: list[str], words: str) -> None:
    assert run([*COMMAND, *options]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not Path("out").exists()


def test_data_without_labels_are_refused_in_the_words_of_the_place(
    patients: Path, capsys: Any
) -> None:
    (patients / "labels.csv").rename("truth.csv")
    assert run(COMMAND) == 1
    assert "give them with --labels FILE" in " ".join(capsys.readouterr().err.split())
    assert run([*COMMAND, "--labels", "truth.csv"]) == 0


def test_an_interrupted_comparison_says_how_to_go_on(
    patients: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, calls = run_task, []

    def interrupted(task: Any, **options: Any) -> Any:
        calls.append(task)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return usual(task, **options)

    monkeypatch.setattr("viewgap.bench.run.workers.run_task", interrupted)
    assert run([*COMMAND, "--out", "out"]) == 130
    assert "the same command goes on where it was stopped" in capsys.readouterr().err
    assert len(read_records(Path("out"))) == 1
    assert run([*COMMAND, "--out", "out"]) == 0
    assert len(calls) == 3


def test_parameters_of_methods() -> None:
    found = method_parameters(["scsd", "pcve"], ["scsd.hidden=[8,4]", "scsd.device=cpu"])
    assert found == {"scsd": {"hidden": [8, 4], "device": "cpu"}, "pcve": {}}
    with pytest.raises(SettingError, match="twice"):
        method_parameters(["scsd"], ["scsd.alpha=1", "scsd.alpha=2"])


EXPERIMENT = """
[experiment]
dataset = "./patients"
cv = 2
{more}
[[method]]
name = "label_frequency"
"""


def test_an_experiment_takes_paths_beside_its_file(
    patients: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = 'dataset_options = {groups = "families.csv"}'
    (patients.parent / "own.toml").write_text(EXPERIMENT.format(more=more))
    (patients.parent / "elsewhere").mkdir()
    monkeypatch.chdir(patients.parent / "elsewhere")
    assert run(["bench", "run", "../own.toml", "--out", "out"]) == 0
    records = read_records(Path("out"))
    assert [(r.dataset, r.fold, r.variant) for r in records] == [
        ("patients", 0, "clean"),
        ("patients", 1, "clean"),
    ]
    assert records[0].settings["cv"] == 2
    assert records[0].settings["train_share"] == 0.5
    assert records[0].settings["view_rate"] == 0.0


@pytest.mark.parametrize(
    ("old", "new", "code", "words"),
    [
        ("./patients", "./absent", 1, "absent: no such file or folder"),
        ("cv = 2", "cv = 1", 2, "cv must be 2 or more"),
        ("cv = 2", "cv = 2\nvalidation = 'protocol'", 2, "validation must be 'none'"),
        ("cv = 2", "cv = 2\ndataset_options = {n = 3}", 2, "have no option 'n'"),
        ("cv = 2", "cv = 2\nvariant = 'x'", 2, "variant must be 'field' or 'clean'"),
    ],
)
def test_wrong_experiments_are_refused_before_the_first_task(
    patients: Path, capsys: Any, old: str, new: str, code: int, words: str
) -> None:
    Path("own.toml").write_text(EXPERIMENT.format(more="").replace(old, new))
    assert run(["bench", "run", "own.toml", "--out", "out"]) == code
    assert words in " ".join(capsys.readouterr().err.split())


def test_all_paths_are_checked_before_the_first_task(patients: Path, capsys: Any) -> None:
    broken = Path("broken")
    broken.mkdir()
    (broken / "genes.csv").write_text("id,g1\np1,one\np2,two\n")
    (broken / "labels.csv").write_text("id,x\np1,1\np2,0\n")
    text = EXPERIMENT.format(more="").replace(
        'dataset = "./patients"', 'datasets = ["./patients", "./broken"]'
    )
    Path("own.toml").write_text(text)
    assert run(["bench", "run", "own.toml", "--out", "out"]) == 1
    assert "genes.csv" in capsys.readouterr().err
    assert read_records(Path("out")) == []


READING = ["--views", "genes=g*", "--views", "drugs=d*", "--label-columns", "x"]
READING += ["--label-columns", "y", "--id-column", "patient"]
READING_TOML = """
dataset_options = {views = {genes = "g*", drugs = "d*"}, label_columns = ["x", "y"], \
id_column = "patient"}
"""


@pytest.fixture
def one_table(patients: Path) -> Path:
    """The same patients as one table whose first column is no id."""
    import pandas as pd

    parts = [pd.read_csv(patients / f"{name}.csv", index_col="id") for name in ("genes", "drugs")]
    table = pd.concat([*parts, pd.read_csv(patients / "labels.csv", index_col="id")], axis=1)
    table["patient"] = table.index
    table.to_csv("all.csv", index=False)
    return Path("all.csv")


def test_one_table_read_by_options_compares_as_the_folder(one_table: Path, capsys: Any) -> None:
    found = []
    for data, options in (("patients", []), ("all.csv", READING)):
        assert run([COMMAND[0], data, *COMMAND[2:], *options, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["methods"][0]["score"])
    assert found[0] == pytest.approx(found[1], abs=1e-9)
    assert run([COMMAND[0], "all.csv", *COMMAND[2:]]) == 1
    assert run([COMMAND[0], "synthetic", *COMMAND[2:], "--id-column", "x"]) == 2
    assert "--id-column says how files are read" in " ".join(capsys.readouterr().err.split())


def test_an_experiment_says_how_its_files_are_read(one_table: Path, capsys: Any) -> None:
    text = EXPERIMENT.replace("./patients", "./all.csv")
    Path("own.toml").write_text(text.format(more=READING_TOML))
    assert run(["bench", "run", "own.toml", "--out", "out"]) == 0
    kept = read_records(Path("out"))[0].settings["dataset_options"]
    assert kept["views"] == {"genes": ["g*"], "drugs": ["d*"]}
    assert kept["id_column"] == "patient"
    for wrong, words in (
        ("id_column = 3", "id_column must be text"),
        ("view = {a = 'b'}", "have no option 'view'"),
        ("decimal = ';'", "must be '.' or ','"),
        ("views = 'a'", "views must be {name: columns}"),
        ("label_columns = 3", "must be names or patterns"),
    ):
        Path("own.toml").write_text(text.format(more=f"dataset_options = {{{wrong}}}"))
        assert run(["bench", "run", "own.toml", "--out", "out"]) == 2
        assert words in " ".join(capsys.readouterr().err.split())


def test_reading_options_change_the_task_and_their_defaults_do_not(patients: Path) -> None:
    from viewgap.bench.run.task import Task
    from viewgap.bench.run.task_data import own_files

    def task(**options: Any) -> str:
        return Task(method="label_frequency", **own_files("patients", options)).id

    assert own_files("patients", {})["dataset_options"].keys() == {"sha256"}
    assert task() == task(decimal=".", views=None, label_columns=[], id_column=None)
    assert task(label_columns="x") == task(label_columns=["x"])
    others = [task(), task(id_column="id"), task(label_columns="x"), task(label_separator=";")]
    assert len(set(others)) == 4
