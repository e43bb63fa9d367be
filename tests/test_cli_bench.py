"""`viewgap bench table`, `compare` and `plot` on folders of records."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.bench.results.journal import append_line
from viewgap.bench.results.record import FAILURES, RECORDS, Record
from viewgap.cli import run
from viewgap.metrics import SIX

SETTINGS = {"view_rate": 0.5, "label_rate": 0.5, "train_share": 0.7, "params": {}}


def write(folder: Path, method: str, folds: int = 3, level: float = 0.4, **changes: Any) -> None:
    """Records of one method, as `bench run` leaves them."""
    rng = np.random.default_rng(round(1000 * level))
    folder.mkdir(parents=True, exist_ok=True)
    for fold in range(folds):
        fields: dict[str, Any] = {
            "dataset": "corel5k",
            "method": method,
            "profile": "paper",
            "fold": fold,
            "seed": 1,
            "metrics": {name: level + 0.01 * float(rng.random()) for name in SIX},
            "seconds": 2.0,
            "task": f"{method}-{level}-{fold}",
            "settings": SETTINGS,
        }
        details = changes.pop("details", None)
        plain = Record(**{**fields, **changes}).to_dict()
        if details is not None:  # as older versions wrote it
            plain["cell"], plain["details"] = plain.pop("task"), details
            del plain["labels"]
            changes["details"] = details
        append_line(folder / RECORDS, plain)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Three methods of the paper; one task of a fourth failed."""
    folder = tmp_path / "results"
    for level, method in ((0.44, "scsd"), (0.42, "drls"), (0.40, "mtd")):
        write(folder, method, level=level)
    task = {"task": "x", "dataset": "corel5k", "method": "sip", "profile": "paper"}
    rest = {"fold": 0, "seed": 1, "settings": SETTINGS, "error": "", "traceback": ""}
    append_line(folder / FAILURES, task | rest)
    return folder


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("terminal", "Ave.R"),
        ("markdown", "| corel5k | drls† (paper) | <u>0.42"),
        ("csv", "corel5k,scsd,paper,,no,field,higher,0.44"),
        ("latex", r"\toprule"),
    ],
)
def test_table_in_every_format_to_the_screen_or_a_file(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], style: str, expected: str
) -> None:
    command = ["bench", "table", str(results), "--format", style]
    assert run(command) == 0
    printed = capsys.readouterr().out
    assert expected in printed
    assert run([*command, "--out", str(tmp_path / "table.txt")]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "table.txt" in captured.err
    written = (tmp_path / "table.txt").read_text(encoding="utf-8")
    assert expected in written
    if style != "terminal":
        assert written == printed


def test_a_failed_method_is_a_hole(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "table", str(results), "--format", "csv"]) == 0
    rows = {row["method"]: row for row in csv.DictReader(capsys.readouterr().out.splitlines())}
    assert rows["sip"]["AP_mean"] == ""
    assert (rows["sip"]["folds"], rows["sip"]["failed"]) == ("0", "1")


def test_published_figures_on_request(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "table", str(results), "--published", "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert "| corel5k | published | 0.447 (" in text
    assert "printed in the SCSD paper" in text
    assert run(["bench", "table", str(results), "--format", "markdown"]) == 0
    assert "published |" not in capsys.readouterr().out


def test_a_folder_given_twice_counts_once(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "table", str(results), "--format", "csv"]) == 0
    once = capsys.readouterr().out
    assert run(["bench", "table", str(results), str(results), "--format", "csv"]) == 0
    assert capsys.readouterr().out == once


def test_one_task_with_two_results_is_an_error(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "other", "scsd", level=0.44, metrics=dict.fromkeys(SIX, 0.9))
    assert run(["bench", "table", str(results), str(tmp_path / "other")]) == 1
    assert "is in another folder with different numbers" in capsys.readouterr().err


def test_a_failure_repaired_in_another_folder_is_no_hole(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "later", "sip", folds=1, task="x")
    command = ["bench", "table", str(results), str(tmp_path / "later"), "--format", "csv"]
    assert run(command) == 0
    rows = {row["method"]: row for row in csv.DictReader(capsys.readouterr().out.splitlines())}
    assert (rows["sip"]["folds"], rows["sip"]["failed"]) == ("1", "0")


def test_variants_are_never_mixed(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "clean", "rank", variant="clean")
    folders = [str(results), str(tmp_path / "clean")]
    for command in (["table"], ["compare"], ["plot", "--out", str(tmp_path / "figures")]):
        assert run(["bench", *command, *folders]) == 1
        assert "variants cannot be mixed" in capsys.readouterr().err
    assert run(["bench", "table", folders[1], "--published"]) == 1
    assert "variant 'field'" in capsys.readouterr().err


DETAILS = {
    **{"macro AUC": 0.8, "macro F1": 0.3, "micro F1": 0.4, "calibration error": 0.05},
    "labels": {"positives": [2, 30], "AP": [0.1, 0.6]},
}
MEMORY = {"device": "cpu", "memory": {"host": 1_500_000_000, "host_of": "task"}}


@pytest.mark.parametrize(
    ("show", "terminal", "line"),
    [
        ("cost", "1.50 GB", "corel5k,mtd,paper,,no,field,2,0,1500000000,task,,3,cpu,3,0"),
        (
            "calibration",
            "0.0500 ± 0.0000",
            "corel5k,mtd,paper,,no,field,0.05,0,lower,0.8,0,higher,0.3,0,higher,0.4,0,higher,3,3,0",
        ),
        ("labels", "0 of 2", "corel5k,mtd,paper,,no,field,higher,scsd (paper),1,30,0.6,0.6,0,3"),
    ],
)
def test_the_other_tables_in_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], show: str, terminal: str, line: str
) -> None:
    for level, method in ((0.44, "scsd"), (0.40, "mtd")):
        write(tmp_path, method, level=level, details=DETAILS, provenance=MEMORY)
    expected = {"terminal": terminal, "csv": line, "markdown": "---:|", "latex": r"\toprule"}
    for style, text in expected.items():
        assert run(["bench", "table", str(tmp_path), "--show", show, "--format", style]) == 0
        assert text in capsys.readouterr().out


def test_the_other_tables_of_older_records(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "table", str(results), "--show", "cost"]) == 0
    assert "no record says how much memory" in capsys.readouterr().out
    assert run(["bench", "table", str(results), "--show", "labels"]) == 1
    assert "shares test rows with the reference" in capsys.readouterr().err
    figures = ["bench", "plot", str(results), "--out", str(tmp_path / "figures"), "--kind"]
    assert run([*figures, "calibration"]) == 1
    assert "no record on corel5k has figures of calibration" in capsys.readouterr().err


def test_compare_prints_ranks_and_gaps(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "compare", str(results)]) == 0
    text = capsys.readouterr().out
    assert "AP over 3 folds of corel5k that all methods have (0 left out)" in text
    assert "gap: method minus scsd (paper)" in text
    assert run(["bench", "compare", str(results), "--metric", "AUC", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (ranks,) = found["ranks"]
    assert ranks["ranks"] == [2.0, 3.0, 1.0]
    assert (ranks["unit"], ranks["scope"]) == ("folds", "corel5k")
    assert [gap["method"] for gap in found["gaps"]] == ["drls† (paper)", "mtd (paper)"]
    assert all(gap["gap"] < 0 and gap["folds"] == 3 for gap in found["gaps"])


def test_compare_of_two_methods_has_gaps_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for level, method in ((0.44, "scsd"), (0.40, "mtd")):
        write(tmp_path, method, level=level)
    assert run(["bench", "compare", str(tmp_path), "--reference", "mtd (paper)"]) == 0
    captured = capsys.readouterr()
    assert "at least three methods" in captured.err
    assert "+0.04" in captured.out
    assert run(["bench", "compare", str(tmp_path), "--reference", "absent"]) == 1
    assert "no record of the reference 'absent'" in capsys.readouterr().err


def test_compare_works_without_scsd_and_within_conditions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for (level, method), rate in product(((0.5, "rank"), (0.4, "mtd"), (0.3, "sip")), (0.0, 0.5)):
        settings = {**SETTINGS, "view_rate": rate}
        write(tmp_path, method, level=level - rate / 2, settings=settings)
    assert run(["bench", "compare", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    for rate in ("0.0", "0.5"):
        assert f"AP over 3 folds of corel5k, view_rate={rate} that all methods" in captured.out
    assert "gap: method minus mtd (paper)" in captured.out
    assert run(["bench", "compare", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [test["ranks"] for test in found["ranks"]] == [[2.0, 1.0, 3.0]] * 2
    assert len(found["gaps"]) == 4
    assert all(abs(gap["gap"]) < 0.12 for gap in found["gaps"])


def test_compare_names_where_the_reference_is_not(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(results, "mtd", level=0.7, settings={**SETTINGS, "view_rate": 0.1})
    write(results, "rank", level=0.6, settings={**SETTINGS, "view_rate": 0.1})
    assert run(["bench", "compare", str(results), "--reference", "scsd (paper)"]) == 0
    captured = capsys.readouterr()
    assert "no gaps on corel5k, view_rate=0.1, which has no record of scsd" in captured.err
    assert "corel5k, view_rate=0.1: ranks need at least three methods" in captured.err
    assert run(["bench", "compare", str(results)]) == 0
    assert "gap: method minus the reference" in capsys.readouterr().out


def test_plot_writes_what_it_names(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "figures"
    assert run(["bench", "plot", str(results), "--out", str(out), "--json"]) == 0
    paths = json.loads(capsys.readouterr().out)
    assert sorted(Path(path).name for path in paths) == sorted(p.name for p in out.iterdir())
    assert str(out / "corel5k_methods.svg") in paths
    command = ["bench", "plot", str(results), "--out", str(out), "--kind", "radar"]
    assert run(command) == 0
    assert "corel5k_radar.png" in capsys.readouterr().out
    assert run([*command[:-1], "heatmap"]) == 1
    assert "needs two numbers" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["table", "absent"],
        ["compare", "absent"],
        ["plot", "absent", "--out", "figures"],
    ],
)
def test_an_absent_folder_is_one_line(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["bench", *command]) == 1
    assert capsys.readouterr().err.startswith("viewgap: no results in absent")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        ["table", ".", "--format", "pdf"],
        ["table", ".", "--show", "everything"],
        ["table", ".", "--show", "cost", "--published"],
        ["table", ".", "--reference", "scsd"],
        ["plot", "."],
        ["plot", ".", "--out", "x", "--kind", "pie"],
    ],
)
def test_misuse_is_exit_code_two(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", *command]) == 2
    assert "--help" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        '{"task": "x"}',
        "[]",
        '{"task": ["x"]}',
        '{"task": "x", "dataset": 5, "method": "scsd", "profile": "paper", "fold": 0, "seed": 1, '
        '"settings": {}, "error": "", "traceback": ""}',
        '{"task": "x", "dataset": "d", "method": "scsd", "profile": "paper", "fold": true, '
        '"seed": 1, "settings": {}, "error": "", "traceback": ""}',
    ],
)
def test_a_failure_that_is_none_is_refused_with_its_line(
    results: Path, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (results / FAILURES).open("a") as file:
        file.write(line + "\n")
    for command in (["table"], ["report", "--out", str(results / "page.html")]):
        assert run(["bench", command[0], str(results), *command[1:]]) == 1
        assert f"{FAILURES}, line 2" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["absent/file", "n" * 256, "file/below", "."])
@pytest.mark.parametrize("command", ["table", "report"])
def test_an_out_file_that_cannot_be_written_is_found_before_the_work(
    command: str,
    place: str,
    results: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").write_text("")

    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work was begun")

    monkeypatch.setattr("viewgap.bench.results.record.read_folders", work)
    assert run(["bench", command, str(results), "--out", str(tmp_path / place)]) == 1
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(
    "call", [["methods"], ["bench", "table", "{}"], ["bench", "table", "{}", "--show", "labels"]]
)
def test_what_only_prints_imports_no_torch(tmp_path: Path, call: list[str]) -> None:
    for method, level in (("scsd", 0.4), ("drls", 0.3)):
        write(tmp_path, method, level=level, details=DETAILS)
    arguments = [word.format(tmp_path) for word in call]
    code = (
        "import sys; from viewgap.cli import run; "
        f"assert run({arguments!r}) == 0; "
        "slow = {'torch', 'sklearn', 'scipy', 'pandas', 'matplotlib'} & set(sys.modules); "
        "sys.exit(f'imported {slow}' if slow else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "drls" in done.stdout


def test_a_report_without_matplotlib_leaves_figures_out_and_says_so(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    out = tmp_path / "report.html"
    assert run(["bench", "report", str(results), "--out", str(out)]) == 0
    page = out.read_text()
    assert "No figure: figures need the package matplotlib" in page
    assert 'id="results"' in page
