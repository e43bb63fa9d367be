"""The command line: exit codes, streams, and a whole way from tables to predictions."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap.methods
from viewgap import metrics
from viewgap.cli import program, run
from viewgap.cli.inputs import parse_settings
from viewgap.errors import SettingError

VIEWGAP = [sys.executable, "-m", "viewgap"]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A folder with two views and labels; some samples miss a view, some a label."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "tables"
    folder.mkdir()
    ids = [f"s{i:02d}" for i in range(40)]
    size, colour = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    write_table(folder / "size.csv", ids[:35], size[:35], ["a", "b", "c"])
    write_table(folder / "colour.csv", ids[5:], colour[5:], ["r", "g"])
    labels = np.column_stack([size[:, 0] > 0, colour[:, 0] > 0]).astype(float)
    labels[::7, 1] = np.nan
    write_table(folder / "labels.csv", ids, labels, ["big", "=red"])
    return folder


def write_table(path: Path, ids: list[str], values: np.ndarray, names: list[str]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", *names])
        for sample, row in zip(ids, values.tolist(), strict=True):
            writer.writerow([sample, *("" if np.isnan(v) else v for v in row)])


def by_hand(tables: Path, rows: list[dict[str, str]]) -> metrics.Evaluation:
    """The six metrics of a table of predictions."""
    known = {row["id"]: row for row in csv.DictReader((tables / "labels.csv").open())}
    truth = [[float(known[r["sample"]][n] or "nan") for n in ("big", "=red")] for r in rows]
    scores = [[float(row[name]) for name in ("big", "'=red")] for row in rows]
    return metrics.evaluate(np.array(truth), np.array(scores))


@pytest.fixture
def fitted(tables: Path, tmp_path: Path) -> Path:
    model = tmp_path / "model"
    assert run(["fit", str(tables), "--method", "late_fusion_ridge", "--out", str(model)]) == 0
    return model


# ---------------------------------------------------------------------------------- the whole way


def test_fit_predict_evaluate(
    tables: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "predictions.csv"
    assert run(["predict", str(fitted), str(tables), "--out", str(out)]) == 0
    rows = list(csv.DictReader(out.open()))
    assert list(rows[0]) == ["sample", "no_view", "big", "'=red"]
    assert sorted(row["sample"] for row in rows) == [f"s{i:02d}" for i in range(40)]
    assert {row["no_view"] for row in rows} == {"0"}
    assert all(0 <= float(row["big"]) <= 1 for row in rows)

    capsys.readouterr()
    assert run(["evaluate", str(fitted), str(tables), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert tuple(found["metrics"]) == metrics.SIX
    expected = by_hand(tables, rows)
    assert found["variant"] == "clean"
    assert found["samples"] == 40
    assert found["without_positives"] == expected.n_without_positives > 0
    assert found["without_labels"] == 0
    assert found["metrics"] == pytest.approx(expected, abs=1e-5)


def test_evaluate_counts_samples_without_positives_and_notes_them_under_field(
    tables: Path, fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["evaluate", str(fitted), str(tables)]) == 0
    clean = capsys.readouterr()
    assert "1-Cov" in clean.out
    count = re.search(r"clean metrics of 40 samples; without a positive label: (\d+)", clean.out)
    assert count is not None
    assert clean.err == ""
    assert run(["evaluate", str(fitted), str(tables), "--variant", "field"]) == 0
    field = capsys.readouterr()
    assert "field metrics of 40 samples" in field.out
    assert f"note: {count[1]} of 40 samples have no positive label" in field.err
    assert "--variant clean leaves them out" in field.err


def test_predictions_on_stdout_as_csv_and_json_agree(
    tables: Path, fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["predict", str(fitted), str(tables)]) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert run(["predict", str(fitted), str(tables), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert [row["sample"] for row in table] == [row["sample"] for row in plain]
    for row, entry in zip(table, plain, strict=True):
        assert float(row["big"]) == pytest.approx(entry["probabilities"]["big"], rel=1e-5)
        assert entry["no_view"] is False


def test_a_sample_without_any_view_is_flagged(
    tables: Path, fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tables / "labels.csv").unlink()
    for name in ("size", "colour"):
        with (tables / f"{name}.csv").open("a") as file:
            file.write("lost" + "," * (3 if name == "size" else 2) + "\n")
    capsys.readouterr()
    assert run(["predict", str(fitted), str(tables)]) == 0
    printed = capsys.readouterr()
    rows = {row["sample"]: row for row in csv.DictReader(io.StringIO(printed.out))}
    assert rows["lost"]["no_view"] == "1"
    assert rows["s10"]["no_view"] == "0"
    assert "viewgap: note:" in printed.err


def test_a_label_file_takes_the_place_of_the_labels(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tables / "labels.csv").rename(tmp_path / "elsewhere.csv")
    command = ["fit", str(tables), "--method", "label_frequency", "--out", str(tmp_path / "m")]
    assert run(command) == 1
    assert "give them with --labels FILE" in capsys.readouterr().err
    assert run([*command, "--labels", str(tmp_path / "elsewhere.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == 2
    write_table(tmp_path / "foreign.csv", ["x", "y"], np.ones((2, 2)), ["big", "=red"])
    assert run([*command, "--overwrite", "--labels", str(tmp_path / "foreign.csv")]) == 1
    assert "no id in common" in capsys.readouterr().err


def test_a_label_file_in_the_folder_is_no_view(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = tables / "outcomes.csv"
    (tables / "labels.csv").rename(outcomes)
    model = str(tmp_path / "m")
    command = ["fit", str(tables), "--method", "label_frequency", "--out", model]
    assert run(command) == 1
    message = capsys.readouterr().err
    assert f"--labels {outcomes}" in message
    assert "outcomes_view.csv" in message
    assert run([*command, "--labels", str(outcomes), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["views"] == ["colour", "size"]
    assert run(["evaluate", model, str(tables), "--labels", str(outcomes), "--json"]) == 0
    capsys.readouterr()
    assert run(["predict", model, str(tables)]) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 41
    assert "outcomes.csv is not read: its columns are labels of the model" in printed.err


@pytest.mark.parametrize("content", ["", "id,big,big\ns01,1,perhaps\n", "id,big\nother,7\n"])
def test_predictions_do_not_need_labels_to_be_right(
    tables: Path, fitted: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tables / "labels.csv").write_text(content)
    capsys.readouterr()
    assert run(["predict", str(fitted), str(tables)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 41
    assert run(["evaluate", str(fitted), str(tables)]) == 1
    assert "labels.csv" in capsys.readouterr().err


def test_labels_written_as_words(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (tables / "labels.csv").read_text().replace("1.0", "yes").replace("0.0", "no")
    (tables / "labels.csv").write_text(lines)
    command = ["fit", str(tables), "--method", "label_frequency", "--out", str(tmp_path / "m")]
    assert run(command) == 0
    printed = capsys.readouterr().err
    assert "note: labels: label 'big', label '=red': read 'yes' as 1, 'no' as 0" in printed
    (tables / "labels.csv").write_text("id,big,=red\ns03,yes,no\ns04,maybe,no\n")
    assert run([*command, "--overwrite"]) == 1
    assert "sample 's04', label 'big': found 'maybe'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.csv", "id,w\nx1,1\nx2,2\n", "no sample id in common"),
        ("text.csv", "u,v\n0.5,1\n0.5,2\n", "must hold the sample ids"),
        ("text.csv", "id,u\ns01,1,5\n", "decimal commas"),
        ("text.xls", "x", "looks like data"),
        ("labels.csv", "id,big\nx1,1\nx2,0\n", "no id in common"),
    ],
)
def test_tables_that_do_not_fit_are_no_fault_of_viewgap(
    tables: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: str,
    message: str,
) -> None:
    (tables / name).write_text(content)
    command = ["fit", str(tables), "--method", "label_frequency", "--out", str(tmp_path / "m")]
    assert run(command) == 1
    printed = capsys.readouterr().err
    assert message in printed
    assert name in printed or Path(name).stem in printed
    assert len(printed.splitlines()) == 1


def test_files_that_are_not_read_are_noted(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tables / "README.md").write_text("About these tables.")
    command = ["fit", str(tables), "--method", "label_frequency", "--out", str(tmp_path / "m")]
    assert run(command) == 0
    assert "note: " in (printed := capsys.readouterr().err)
    assert "not read: README.md" in printed


def test_labels_are_matched_by_name(
    tables: Path, fitted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line.split(",") for line in (tables / "labels.csv").read_text().splitlines()]
    swapped = tmp_path / "swapped.csv"
    swapped.write_text("\n".join(f"{i},{b},{a}" for i, a, b in lines) + "\n")
    results = []
    for extra in ([], ["--labels", str(swapped)]):
        capsys.readouterr()
        assert run(["evaluate", str(fitted), str(tables), "--json", *extra]) == 0
        results.append(json.loads(capsys.readouterr().out)["metrics"])
    assert results[0] == results[1]
    swapped.write_text(swapped.read_text().replace("big", "large"))
    assert run(["evaluate", str(fitted), str(tables), "--labels", str(swapped)]) == 1
    error = capsys.readouterr().err
    assert "1 of the 2 labels of the model are absent: big; not known to the model: large" in error


def test_an_existing_model_is_not_replaced_by_accident(
    tables: Path, fitted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fit", str(tables), "--method", "label_frequency", "--out", str(fitted)]
    before = sorted((p.name, p.read_bytes()) for p in fitted.iterdir())
    assert run(command) == 1
    assert sorted((p.name, p.read_bytes()) for p in fitted.iterdir()) == before
    assert run([*command, "--overwrite"]) == 0
    capsys.readouterr()


def test_bench_runs_resumes_and_shows_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "x.toml"
    config.write_text(
        '[experiment]\ndataset = "synthetic"\ndataset_options = {n_samples = 60, seed = 1}\n'
        'folds = 2\n[[method]]\nname = "label_frequency"\n[[method]]\nname = "late_fusion_ridge"\n'
    )
    command = ["bench", "run", str(config), "--out", str(tmp_path / "out"), "--json"]
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out) == {"skipped": 0, "done": 4, "failed": 0}
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out) == {"skipped": 4, "done": 0, "failed": 0}
    assert run(["bench", "table", str(tmp_path / "out"), "--format", "markdown"]) == 0
    table = capsys.readouterr().out
    assert "late_fusion_ridge" in table
    assert "±" in table
    assert run(["bench", "table", str(tmp_path / "out"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4


def test_bench_exit_code_tells_of_failed_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "x.toml"
    config.write_text('[experiment]\ndataset = "absent"\n[[method]]\nname = "label_frequency"\n')
    assert run(["bench", "run", str(config), "--out", str(tmp_path / "out")]) == 1
    assert "1 tasks failed" in capsys.readouterr().err
    assert run(["bench", "table", str(tmp_path / "out")]) == 0
    assert "–" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["datasets", "methods"])
def test_lists_are_tables_or_json(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert run([command]) == 0
    table = capsys.readouterr().out
    for row in rows:
        assert (row.get("name") or row["method"]) in table


# ---------------------------------------------------------------------------------- errors


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[list[str], int], str]:
    """Run a command that must end with a code, print nothing on stdout and write no file."""
    monkeypatch.chdir(tmp_path)

    def stderr(command: list[str], code: int) -> str:
        assert run(command) == code
        printed = capsys.readouterr()
        assert printed.out == ""
        assert list(tmp_path.iterdir()) == []
        return printed.err

    return stderr


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["bench"],
        ["nonsense"],
        ["fit"],
        ["fit", "multidigits"],
        ["fit", "multidigits", "--out", "x", "--typo"],
        ["fit", "multidigits", "--out", "x", "--method", "nonsense"],
        ["fit", "multidigits", "--out", "x", "--method", "label_frequency", "--set", "alpha=1"],
        ["fit", "multidigits", "--out", "x", "--method", "label_frequency", "--set", "alpha"],
        ["fit", "multidigits", "--out", "x", "--profile", "nonsense"],
        ["fit", "multidigits", "--out", "x", "--missing", "nonsense"],
        ["fit", "multidigits", "--out", "x", "--seed", "one"],
        ["evaluate", "x", "y", "--variant", "nonsense"],
        ["demo", "--folds", "0"],
        ["bench", "run", "x.toml"],
        ["calibrate", "x", "y"],
        ["calibrate", "x", "y", "--out", "z", "--risk", "nonsense"],
        ["calibrate", "x", "y", "--out", "z", "--target-level", "high"],
        ["decide", "x", "y"],
        ["explain", "x", "y"],
        ["explain", "x", "y", "--sample", "1", "--out", "z.nonsense"],
        ["explain", "x", "y", "--columns", "v", "--sample", "1"],
        ["suggest", "x", "y"],
        ["suggest", "x", "y", "--reference", "z", "--cost", "v"],
        ["complete", "y", "--folds", "1"],
        ["report", "x"],
        ["report", "x", "y", "--seed", "-1"],
        ["serve"],
        ["serve", "x", "--port", "70000"],
        ["export", "x"],
        ["push", "x"],
    ],
    ids=" ".join,
)
def test_misuse_ends_with_2_and_leaves_stdout_clean(
    command: list[str], refused: Callable[[list[str], int], str]
) -> None:
    message = refused(command, 2)
    if command in ([], ["bench"]):
        assert message.startswith("Usage: viewgap")
    else:
        assert len(message.splitlines()) == 1
        assert message.startswith("viewgap: ")


@pytest.mark.parametrize(
    "command",
    [
        ["fit", "absent_set", "--out", "x"],
        ["fit", "absent.npz", "--out", "x"],
        ["fit", "absent.h5", "--out", "x"],
        ["fit", "absent.HDF5", "--out", "x"],
        ["fit", "absent/folder", "--out", "x"],
        ["predict", "absent", "multidigits"],
        ["evaluate", "absent", "multidigits"],
        ["bench", "run", "absent.toml", "--out", "x"],
        ["bench", "table", "absent"],
        ["calibrate", "absent", "multidigits", "--out", "x"],
        ["decide", "absent", "multidigits", "--sets", "x"],
        ["explain", "absent", "multidigits", "--sample", "1"],
        ["suggest", "absent", "multidigits", "--reference", "multidigits"],
        ["complete", "absent", "--out", "x.csv"],
        ["report", "absent", "multidigits"],
        ["serve", "absent"],
        ["export", "absent", "x.onnx"],
        ["push", "absent", "owner/name"],
    ],
    ids=" ".join,
)
def test_bad_data_ends_with_1_in_one_line(
    command: list[str], refused: Callable[[list[str], int], str]
) -> None:
    message = refused(command, 1)
    assert len(message.splitlines()) == 1
    assert message.startswith("viewgap: ")
    assert "absent" in message


def test_nan_among_values_is_a_cell_to_fill_an_error_or_a_missing_view(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tables / "size.csv"
    lines = path.read_text().splitlines()
    lines[10] = lines[10].rsplit(",", 1)[0] + ","
    path.write_text("\n".join(lines) + "\n")
    command = ["fit", str(tables), "--method", "label_frequency", "--out", str(tmp_path / "m")]
    assert run([*command, "--missing", "error"]) == 1
    message = capsys.readouterr().err
    assert "'size'" in message
    assert "s09" in message
    assert "--missing mean" in message
    assert run([*command, "--missing", "missing_view"]) == 0
    assert "filled" not in capsys.readouterr().err
    assert run([*command, "--overwrite"]) == 0
    note = "view 'size': 1 missing value in 1 sample, filled with training means\n"
    assert note in capsys.readouterr().err
    assert run(["predict", str(tmp_path / "m"), str(tables)]) == 0
    printed = capsys.readouterr()
    assert note in printed.err
    assert "s09," in printed.out


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (RuntimeError("odd"), 70, "internal error: RuntimeError: odd"),
        (MemoryError("8 GiB"), 1, "not enough memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_should_not_happen_has_a_code_too(
    error: BaseException,
    code: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("viewgap.datasets.describe", raising(error))
    assert run(["datasets"]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert text in printed.err.splitlines()[-1]


def test_a_message_with_lines_becomes_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert program._explain(SettingError("one\n  two")) == 2
    assert capsys.readouterr().err == "viewgap: one two\n"


# ---------------------------------------------------------------------------------- processes


def test_a_reader_that_goes_away_is_no_drama(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [*VIEWGAP, "datasets", "--json"], stdout=write_end, stderr=subprocess.PIPE, text=True
    )
    os.close(write_end)
    assert done.stderr == ""


def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    command = [*VIEWGAP, "demo", "--out", str(tmp_path / "out")]
    # A test run in the background may have been told to ignore the signal, and hands that on.
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=listening
    )
    assert process.stderr is not None
    process.stderr.readline()  # the first method is done, so the program is at work
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == "viewgap: interrupted"


def test_sigterm_ends_with_143_at_any_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def terminated(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        monkeypatch.setattr(viewgap.methods, "names", terminated)
        assert run(["methods"]) == 143
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().err.splitlines()[-1] == "viewgap: interrupted"


def test_version_and_help_go_to_stdout() -> None:
    version = subprocess.run([*VIEWGAP, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout[0].isdigit()
    text = subprocess.run([*VIEWGAP, "--help"], capture_output=True, text=True, check=True)
    for command in ("demo", "fit", "predict", "evaluate", "datasets", "methods", "bench"):
        assert command in text.stdout


# ---------------------------------------------------------------------------------- --set


def test_settings_are_read_as_values() -> None:
    entries = ["a=1", "b=0.5", "c=[256, 128]", "d=false", "e=None", "f=cuda:0", "g=True", "h="]
    assert parse_settings(entries) == {
        "a": 1,
        "b": 0.5,
        "c": [256, 128],
        "d": False,
        "e": None,
        "f": "cuda:0",
        "g": True,
        "h": "",
    }


@pytest.mark.parametrize("entries", [["a"], ["=1"], ["a b=1"], ["a=1", "a=2"]])
def test_a_malformed_setting_is_refused(entries: list[str]) -> None:
    with pytest.raises(SettingError, match="--set"):
        parse_settings(entries)


@pytest.mark.parametrize("name", ["x.mat", "x.npz", "x.h5", "X.HDF5", "folder/x"])
def test_data_files_are_told_from_named_sets(
    name: str, refused: Callable[[list[str], int], str]
) -> None:
    """A file that is not there is missed as a file, not as a data set of that name."""
    assert "no dataset named" not in refused(["fit", name, "--out", "m"], 1)
    assert "no dataset named" in refused(["fit", "absent", "--out", "m"], 1)
