"""`viewgap fit` without a method: the ensemble, its leaderboard and its time budget."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from viewgap.cli import run

SMALL = 'methods={"late_fusion_ridge": {}, "extra_trees": {"n_estimators": 3}}'


@pytest.fixture
def data(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    path = tmp_path / "data.npz"
    np.savez(path, view0=a, view1=b, labels=(a[:, :2] > 0).astype(float))
    return str(path)


def test_the_default_is_the_ensemble_with_its_leaderboard(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model"
    assert run(["fit", data, "--out", str(out), "--set", SMALL]) == 0
    printed = capsys.readouterr()
    for word in ("method", "score", "weight", "ensemble", "late_fusion_ridge", "extra_trees"):
        assert word in printed.out
    assert "ensemble fitted on 40 samples" in printed.err
    assert run(["predict", str(out), data]) == 0


def test_the_leaderboard_as_json(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "model")
    command = ["fit", data, "--out", out, "--set", SMALL, "--time-budget", "20m", "--json"]
    assert run(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "ensemble"
    lines = {line["method"]: line for line in found["leaderboard"]}
    assert set(lines) == {"ensemble", "late_fusion_ridge", "extra_trees"}
    assert lines["ensemble"]["weight"] == 1.0
    assert lines["ensemble"]["seconds"] > 0


def test_other_methods_have_no_leaderboard(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fit", data, "--out", str(tmp_path / "m"), "--method", "label_frequency"]
    assert run([*command, "--json"]) == 0
    assert "leaderboard" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method", "scsd", "--time-budget", "5"], "leave it out"),
        (["--time-budget", "0"], "--time-budget"),
        (["--time-budget", "20x"], "--time-budget must be a length of time"),
        (["--time-budget", "nan"], "finite number above 0"),
        (["--time-budget", "5", "--set", "time_budget=5"], "not both"),
        (["--profile", "paper"], "ensemble has no profiles"),
        (["--set", 'methods=["ensemble"]'], "--set methods: an ensemble cannot be its own member"),
    ],
)
def test_what_cannot_be_is_refused_before_the_fit(
    data: str, tmp_path: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fit", data, "--out", str(tmp_path / "model"), *options]) != 0
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "model").exists()


def test_too_little_time_is_said_in_the_words_of_the_command_line(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fit", data, "--out", str(tmp_path / "model"), "--time-budget", "1e-9"]
    assert run(command) == 1
    assert "within --time-budget = 1e-09 s" in " ".join(capsys.readouterr().err.split())
