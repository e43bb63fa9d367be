"""`viewgap tune`: the winner as options of `viewgap fit`, JSON, and how to go on."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from viewgap.cli import run
from viewgap.interruption import Interrupted

pytest.importorskip("optuna")
pytestmark = pytest.mark.filterwarnings("ignore:the best trial")

STUDY = ["--method", "imputed_logistic", "--set", "max_iter=500", "--trials", "4"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    ids = pd.Index([f"s{i}" for i in range(60)], name="id")
    place = tmp_path / "data"
    place.mkdir()
    causes = rng.normal(size=(60, 3))
    for name in "ab":
        values = causes @ rng.normal(size=(3, 5)) + rng.normal(size=(60, 5))
        pd.DataFrame(values, index=ids).to_csv(place / f"{name}.csv")
    labels = pd.DataFrame((causes > 0.2).astype(int), index=ids, columns=["x", "y", "z"])
    labels.to_csv(place / "labels.csv")
    return place


def test_the_printed_command_fits(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study"
    assert run(["tune", str(folder), "--out", str(study), *STUDY]) == 0
    shown = capsys.readouterr()
    assert "0 (default)" in shown.out
    assert "with the defaults" in shown.out
    assert "trial 0: AP" in shown.err
    program, *words = shlex.split(shown.out.strip().splitlines()[-1])
    assert program == "viewgap"
    assert "max_iter=500" in words
    words[words.index("MODEL")] = str(tmp_path / "model")
    assert run(words) == 0
    assert run(["tune", str(folder), "--out", str(study), *STUDY, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["best"]["score"] >= found["default"]["score"]
    assert found["command"] == shlex.join(["viewgap", *words]).replace(
        str(tmp_path / "model"), "MODEL"
    )


def test_one_table_read_by_options(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [pd.read_csv(folder / f"{n}.csv", index_col="id").add_prefix(f"{n}_") for n in "ab"]
    table = pd.concat([*parts, pd.read_csv(folder / "labels.csv", index_col="id")], axis=1)
    table.to_csv(tmp_path / "all.csv", sep=";", decimal=",")
    reading = ["--views", "a=a_0,a_*", "--views", "b=b_*", "--decimal", ","]
    reading += [word for name in "xyz" for word in ("--label-columns", name)]
    options = ["--out", str(tmp_path / "study"), "--method", "late_fusion_ridge", "--trials", "1"]
    assert run(["tune", str(tmp_path / "all.csv"), *options, *reading]) == 0
    words = shlex.split(capsys.readouterr().out.strip().splitlines()[-1])[1:]
    assert words[words.index("--views") + 1] == "a=a_0,a_*"
    words[words.index("MODEL")] = str(tmp_path / "model")
    assert run(words) == 0


def test_ctrl_c_says_how_to_go_on(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from viewgap.tuning import trials as loop

    def interrupted(*_: Any, **__: Any) -> None:
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(loop, "cross_fitted", interrupted)
    arguments = ["tune", str(folder), "--out", str(tmp_path / "my study"), *STUDY]
    assert run(arguments) == 143
    shown = capsys.readouterr().err
    assert shlex.join(["viewgap", *arguments]) in shown
    assert "to go on, repeat the command" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--method", "label_frequency"], 2, "declares no search range"),
        (["--method", "extra_trees", "--search", "n_parts"], 2, "--search: ExtraTrees has no"),
        (["--trials", "0"], 2, "--trials must be a whole number of at least 1"),
        (["--metric", "accuracy"], 2, "--metric must be one of AP"),
        (["--out", "{folder}"], 1, "no study; it is left as it is"),
    ],
)
def test_misuse(
    folder: Path, tmp_path: Path, arguments: list[str], code: int, text: str, capsys: Any
) -> None:
    filled = [argument.format(folder=folder) for argument in arguments]
    assert run(["tune", str(folder), "--out", str(tmp_path / "study"), *filled]) == code
    assert text in capsys.readouterr().err
    assert not (tmp_path / "study").exists()
