"""What reaches a terminal, a spreadsheet and a disk: nothing that obeys names from outside."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewgap.cli import program, run
from viewgap.cli.inputs import count_samples
from viewgap.cli.output import make_table, print_paths, print_table
from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import RunError, ViewError, ViewgapWarning, printable
from viewgap.prediction.blocks import Answers
from viewgap.prediction.writers import CsvWriter, JsonWriter, csv_cell, write_answers

ESCAPES = "\x1b[31mRED\x1b]0;title\x07\x9b1m\u202egnp.exe\r"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def tables(folder: Path, ids: list[str], names: list[str], gaps: bool = False) -> Path:
    """A folder with two views and labels of the samples `ids`."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    contents = {
        "size": (["a", "b"], rng.normal(size=(len(ids), 2)).astype(str)),
        "colour": (["r"], rng.normal(size=(len(ids), 1)).astype(str)),
        "labels": (names, rng.integers(0, 2, size=(len(ids), len(names))).astype(str)),
    }
    if gaps:
        contents["size"][1][3, 0] = ""
    for table, (columns, cells) in contents.items():
        with (folder / f"{table}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *columns])
            writer.writerows([sample, *row] for sample, row in zip(ids, cells, strict=True))
    return folder


def fit(data: Path, out: Path, *more: str) -> int:
    return run(["fit", str(data), "--method", "late_fusion_ridge", "--out", str(out), *more])


IDS = [f"s{i:02d}" for i in range(30)]


# ---------------------------------------------------------------------------------- terminals


def test_text_from_outside_cannot_command_a_terminal() -> None:
    assert printable("view \x1b[31m\x00\x9b\u202e\ud800") == r"view \x1b[31m\x00\x9b\u202e\ud800"
    assert printable("Größe 模型 👩‍🔬\tα\n") == "Größe 模型 👩‍🔬\tα\n"
    for error in (ViewError(ESCAPES), RunError(ESCAPES), ViewgapWarning(ESCAPES)):
        assert not CONTROL.search(str(error))


def test_messages_notes_and_faults_are_harmless(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program._explain(ViewError(ESCAPES))
    program._explain(RuntimeError(ESCAPES))
    run(["fit", ESCAPES, "--out", "x"])
    run([ESCAPES])
    print_table(make_table([{"name": ESCAPES}], ["name"]))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    print_paths([Path(ESCAPES)])
    printed = capsys.readouterr()
    assert "RED" in printed.out
    assert not CONTROL.search(printed.out)
    assert printed.err.count("RED") >= 4
    assert not CONTROL.search(printed.err)


def test_a_program_that_reads_paths_gets_them_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_paths([Path("a\x1b")])
    assert capsys.readouterr().out == "a\x1b\n"


# ---------------------------------------------------------------------------------- spreadsheets


def taken_back(cell: str) -> str:
    """The text of a cell, by the two rules that are documented."""
    if re.match(r"'['\s]*[=+\-@＝＋－＠]|'+\t", cell):
        cell = cell[1:]
    if re.search(r"\\(\\|x[0-9a-f]{2}|u[0-9a-f]{4})", cell):
        pattern = r"\\(\\|x([0-9a-f]{2})|u([0-9a-f]{4}))"

        def letter(found: re.Match[str]) -> str:
            digits = found.group(2) or found.group(3)
            return chr(int(digits, 16)) if digits else "\\"

        cell = re.sub(pattern, letter, cell)
    return cell


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("s01", "s01"),
        ("-1", "-1"),
        ("+5", "+5"),
        ("-1.5e-3", "-1.5e-3"),
        ("TCGA-06", "TCGA-06"),
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-2+3", "'-2+3"),
        ("+1+1", "'+1+1"),
        ("-", "'-"),
        ("\t=1", "'\t=1"),
        (" =1", "' =1"),
        ("'=1", "''=1"),
        ("it's", "it's"),
        ("'quoted'", "'quoted'"),
        ("C:\\data", "C:\\data"),
        ("a\x1b[1m", r"a\x1b[1m"),
        (r"a\x1b[1m", r"a\\x1b[1m"),
    ],
)
def test_cells_of_a_csv(text: str, cell: str) -> None:
    assert csv_cell(text) == cell
    assert taken_back(cell) == text


@given(st.text(alphabet="='+-@\t\n \\x1bu5a\x1b\x00\r.e＝", max_size=8) | st.text(max_size=8))
def test_what_was_changed_in_a_csv_can_be_taken_back(text: str) -> None:
    cell = csv_cell(text)
    assert taken_back(cell) == text
    assert not CONTROL.search(cell)
    number = re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", cell, flags=re.I | re.A)
    assert number or not cell.lstrip().startswith(("=", "+", "-", "@", "＝"))


def written(kind: Any, ids: list[str], names: list[str]) -> str:
    shape, file = (len(ids), len(names)), io.BytesIO()
    halves, zeros = np.full(shape, 0.5), np.zeros(shape, dtype=np.int64)
    answers = Answers(np.array(ids), np.zeros(len(ids), dtype=np.bool_), halves, zeros)
    write_answers(kind, file, names, "probabilities", [answers])
    return file.getvalue().decode()


def test_predictions_with_hostile_names() -> None:
    ids, names = ["=cmd|' /C calc'!A0", "-1", "\x1b[31m"], ["@x", "ok"]
    with pytest.warns(ViewgapWarning, match="3 ids and label names") as notes:
        text = written(CsvWriter, ids, names)
    assert not CONTROL.search(str(notes[0].message))
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["sample", "no_view", "'@x", "ok"]
    assert [row[0] for row in rows[1:]] == ["'=cmd|' /C calc'!A0", "-1", r"\x1b[31m"]
    plain = json.loads(written(JsonWriter, ids, names))
    assert [row["sample"] for row in plain] == ["=cmd|' /C calc'!A0", "-1", "\x1b[31m"]
    assert list(plain[0]["probabilities"]) == names


def test_json_escapes_what_a_terminal_would_obey() -> None:
    text = written(JsonWriter, ["\x9b1m\u202eü"], ["x"])
    assert not CONTROL.search(text)
    assert "ü" in text
    assert json.loads(text)[0]["sample"] == "\x9b1m\u202eü"


# ---------------------------------------------------------------------------------- --out


PLACES = ("absent/model", "n" * 256, "file/below", "file")


def refuse_work(*_: object, **__: object) -> Any:
    raise AssertionError("the work was begun")


@pytest.mark.parametrize(
    "place", ["absent/model", "n" * 256, "file/below", "file", "n" * 256 + "/m"]
)
@pytest.mark.parametrize("command", ["fit", "predict", "demo", "bench run", "datasets download"])
def test_a_place_that_cannot_be_written_is_found_before_the_work(
    command: str,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    creates_parents = command in ("demo", "bench run", "datasets download")
    if (creates_parents and place.startswith("absent")) or (
        command == "predict" and place == "file"
    ):
        pytest.skip("that can be written")
    (tmp_path / "file").write_text("precious")
    config = tmp_path / "x.toml"
    config.write_text('[experiment]\ndataset = "synthetic"\n[[method]]\nname = "label_frequency"\n')
    monkeypatch.setattr("viewgap.cli.inputs.open_data", refuse_work)
    monkeypatch.setattr("viewgap.model_file.load_model", refuse_work)
    monkeypatch.setattr("viewgap.demo.fit_task", refuse_work)
    monkeypatch.setattr("viewgap.bench.run.runner.make_workers", refuse_work)
    monkeypatch.setattr("viewgap.datasets.downloads._fetch", refuse_work)
    arguments = {
        "fit": ["fit", "multidigits", "--method", "label_frequency"],
        "predict": ["predict", "model", "multidigits"],
        "demo": ["demo"],
        "bench run": ["bench", "run", str(config)],
        "datasets download": ["datasets", "download", "corel5k"],
    }
    before = sorted(tmp_path.iterdir())
    assert run([*arguments[command], "--out", str(tmp_path / place)]) == 1
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 1
    assert "cannot write" in printed or "is a file" in printed
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_found_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("viewgap.cli.inputs.open_data", refuse_work)
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert fit(tmp_path, tmp_path / "model") == 1
    assert "no permission" in capsys.readouterr().err


# ---------------------------------------------------------------------------------- --missing


def test_prediction_treats_nan_as_the_fit_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tables(tmp_path / "data", IDS, ["x", "y"], gaps=True)
    model = tmp_path / "model"
    assert fit(data, model, "--missing", "missing_view") == 0
    capsys.readouterr()
    assert run(["predict", str(model), str(data)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(IDS) + 1
    assert run(["evaluate", str(model), str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == len(IDS)
    for command in ("predict", "evaluate"):
        assert run([command, str(model), str(data), "--missing", "error"]) == 1
        assert "s03" in capsys.readouterr().err


# ---------------------------------------------------------------------------------- counts


def test_samples_that_cannot_be_learned_from_are_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tables(tmp_path / "data", IDS, ["x", "y"])
    labels = (data / "labels.csv").read_text().splitlines()
    labels[1:4] = [f"{line.split(',')[0]},," for line in labels[1:4]]
    (data / "labels.csv").write_text("\n".join([*labels, "lost,1,0"]) + "\n")
    for name, width in (("size", 2), ("colour", 1)):
        with (data / f"{name}.csv").open("a") as file:
            file.write("lost" + "," * width + "\n")
    model = tmp_path / "model"
    assert fit(data, model, "--set", "on_empty=prior") == 0
    said = capsys.readouterr().err
    assert "fitted on 27 samples (not counted: 1 without any view, 3 without any observed" in said
    assert fit(data, model, "--overwrite", "--set", "on_empty=prior", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    counts = [found[key] for key in ("samples", "samples_without_view", "samples_without_label")]
    assert counts == [27, 1, 3]


def test_counts_without_gaps() -> None:
    views = ViewSet({"a": np.ones((4, 2))})
    counted = count_samples(views, as_labels(np.eye(4), views))
    assert counted.text() == "4 samples"
