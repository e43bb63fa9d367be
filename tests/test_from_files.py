"""The script of docs/from_files.md, for the same data in every format: the same answers.

Data of the kind of CLL, and CLL itself where it lies in $VIEWGAP_DATA.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from viewgap.cli import run
from written_data import NEEDS, WRITERS, Tables

PAGE = Path(__file__).parents[1] / "docs" / "from_files.md"
BLOCKS = dict(re.findall(r"^```(python|bash)\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S))
pytestmark = pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
# The whole script is typed for these. For the others, `fit`, `check` and `predict` are: that they
# hold the same data is tested in data/formats; from the same data come the same scores.
IN_DEPTH = ("h5mu",)
CASES = [(name, kind) for name in ("generated", "cll") for kind in WRITERS if kind != "csv"]
NO_GAP_LIKE_THIS = 3  # `check`: a pattern of missing views that training never had


@dataclass(frozen=True)
class Cohort:
    """Tables of known and of new patients."""

    known: Tables
    new: Tables

    @classmethod
    def split(cls, views: dict[str, pd.DataFrame], labels: pd.DataFrame, new: Any) -> Cohort:
        def part(chosen: Any) -> Tables:
            own = {name: table[table.index.isin(chosen)] for name, table in views.items()}
            return Tables(own, labels[labels.index.isin(chosen)])

        return cls(part(labels.index.difference(new)), part(new))


@dataclass(frozen=True)
class Answers:
    """What the script says: scores of the comparison, penalties, predictions, evaluation."""

    compared: dict[str, float] | None
    model: dict[str, Any]
    predictions: Any
    metrics: str | None


def answers(
    kind: str,
    cohort: Cohort,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    without: tuple[str, ...] = (),
) -> Answers:
    """Type the script of the page, with what a format needs in place of the folders."""
    typed: dict[str, list[str]] = {}
    printed: dict[str, str] = {}
    for name, tables in (("cll", cohort.known), ("new", cohort.new)):
        (place / name).mkdir()
        written = WRITERS[kind](place / name, tables)
        typed[name] = written.arguments()
    for line in BLOCKS["bash"].strip().splitlines():
        words = shlex.split(line)
        if words[1] in without:
            continue
        arguments = [part for word in words[1:] for part in typed.get(word, [word])]
        arguments += ["--json"] * (words[1] == "compare")
        capsys.readouterr()
        code = run(arguments)
        assert code in ((0, NO_GAP_LIKE_THIS) if words[1] == "check" else (0,)), line
        printed[words[1]] = capsys.readouterr().out
    return Answers(
        _scores(json.loads(printed["compare"])) if "compare" in printed else None,
        json.loads((place / "model" / "model.json").read_text())["metadata"],
        pd.read_csv(place / "predictions.csv", dtype={"sample": str}, index_col="sample"),
        printed.get("evaluate"),
    )


def _scores(compared: dict[str, Any]) -> dict[str, float]:
    lines = compared["methods"]
    return {
        f"{one['method']} {name}": value["mean"]
        for one in lines
        for name, value in one["metrics"].items()
    }


def check_equal(found: Answers, expected: Answers, new: Any) -> None:
    """To the bit but for the order of sums: matrices of some files lie in columns."""
    if found.compared is not None:
        assert found.compared == pytest.approx(expected.compared, abs=1e-9)
    assert found.model["penalties"] == expected.model["penalties"]
    rows, right = found.predictions, expected.predictions.loc[new]
    if rows.index.tolist() == [str(i) for i in range(len(new))]:  # a file without ids
        rows = rows.set_axis(new).set_axis(right.columns, axis=1)
    pd.testing.assert_frame_equal(
        rows.loc[new], right, atol=1e-9, rtol=0, check_names=False, check_index_type=False
    )
    if found.metrics is not None:
        assert found.metrics == expected.metrics


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Cohort:
    """The data of the page: views of different patients, blank cells, blank labels."""
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        exec(compile(BLOCKS["python"], PAGE.name, "exec"), names)
    return Cohort.split(names["views"], names["labels"], names["new"])


@pytest.fixture(scope="module")
def cll(benchmark_data: Path) -> Cohort:
    """CLL itself; every fifth patient is new."""
    path = benchmark_data / "cll" / "cll_natural.npz"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    with np.load(path) as stored:
        given = {name: stored[name] for name in stored}
    ids = pd.Index(given["sample_ids"].astype(str).tolist())
    views = {}
    for j, name in enumerate(map(str, given["view_names"])):
        columns = given[f"feature_names{j}"].astype(str).tolist()
        table = pd.DataFrame(given[f"view{j}"].astype(float), ids, columns)
        views[name] = table[given["view_mask"][:, j]]
    labels = pd.DataFrame(given["labels"].astype(float), ids, given["label_names"].tolist())
    return Cohort.split(views, labels, ids[::5])


@pytest.fixture(scope="module")
def first() -> dict[str, Answers]:
    """What the script said of tables in CSV, by cohort."""
    return {}


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_same_answers_from_every_format(
    name: str,
    kind: str,
    first: dict[str, Answers],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip(NEEDS.get(kind, "numpy"))
    tables: Cohort = request.getfixturevalue(name)
    if name not in first:
        place = tmp_path / "first"
        place.mkdir()
        monkeypatch.chdir(place)
        first[name] = answers("csv", tables, place, capsys)
    place = tmp_path / kind
    place.mkdir()
    monkeypatch.chdir(place)
    without = () if kind in IN_DEPTH else ("inspect", "compare", "evaluate")
    found = answers(kind, tables, place, capsys, without)
    check_equal(found, first[name], tables.new.labels.index)


def test_every_line_of_the_script_is_typed() -> None:
    commands = [shlex.split(line)[1] for line in BLOCKS["bash"].strip().splitlines()]
    assert commands == ["inspect", "compare", "fit", "check", "predict", "evaluate"]
