"""`viewgap explain` and `viewgap suggest`: tables, JSON, files, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
        (["--sample", "3", "--out", "x.txt"], "'.txt'"),
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
    assert isinstance(json.loads(capsys.readouterr().out), list)
