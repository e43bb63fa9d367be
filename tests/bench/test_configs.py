"""The experiment files: all can be built, and hold what the paper and the records hold."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from viewgap.bench.run.execute import build_method
from viewgap.bench.run.experiment import read_experiment
from viewgap.bench.run.task import Cell
from viewgap.cli import run
from viewgap.methods.deep import DeepClassifier

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
NINE = {"imvwl", "naim3l", "ddinet", "dicnet", "mtd", "sip", "rank", "drls", "scsd"}
FIVE = {"corel5k", "pascal07", "espgame", "iaprtc12", "mirflickr"}


def cells_of(name: str, **facts: Any) -> list[Cell]:
    cells = read_experiment(CONFIGS / f"{name}.toml")
    return [cell for cell in cells if all(getattr(cell, k) == v for k, v in facts.items())]


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_config_can_be_built(path: Path) -> None:
    cells = read_experiment(path)
    for cell in (cell for cell in cells if cell.fold == 0):
        model = build_method(cell)
        if isinstance(model, DeepClassifier):
            model._resolve(260)  # refuses values that do not go together


def test_every_record_is_a_cell_of_a_config() -> None:
    known = {cell.id for path in CONFIGS.glob("*.toml") for cell in read_experiment(path)}
    for journal in (ROOT / "results").rglob("records.jsonl"):
        found = {json.loads(line)["cell"] for line in journal.read_text().splitlines()}
        assert found <= known, journal


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("corel5k", (0.1, 0.1, 5.0, 0.0, [2048, 1024, 512])),
        ("espgame", (0.5, 0.1, 5.0, 0.0, [2048, 1024, 512])),
        ("iaprtc12", (0.1, 0.1, 5.0, 0.0, [2048, 1024, 512])),
        ("pascal07", (10.0, 0.01, 0.1, 0.5, [2048, 1024])),
        ("mirflickr", (10.0, 0.01, 5.0, 0.5, [2048, 1024])),
    ],
)
def test_paper_configs_hold_the_published_settings(name: str, published: tuple[Any, ...]) -> None:
    content = tomllib.loads((CONFIGS / f"{name}.toml").read_text())
    params = content["method"][0]["params"]
    names = ("alpha", "distill_weight", "temperature", "dropout", "hidden")
    assert tuple(params[key] for key in names) == published
    assert content["method"][0]["profile"] == "paper"
    assert content["experiment"]["scale_on"] == "all"
    ids = [cell.id for cell in cells_of("table2", dataset=name, method="scsd")]
    assert ids == [cell.id for cell in cells_of(name)]


def test_table_2_is_nine_methods_on_five_sets_in_ten_folds() -> None:
    for name, rate in (("table2", 0.5), ("complete", 0.0)):
        cells = cells_of(name, profile="paper", view_rate=rate, label_rate=rate)
        assert {(c.method, c.dataset) for c in cells} == {(m, d) for m in NINE for d in FIVE}
        assert len(cells) == 9 * 5 * 10
        others = {(c.method, c.scale_on) for c in cells_of(name, profile="default")}
        assert others == (set() if name == "table2" else {("scsd", "training")})
    recorded = {c.id for c in cells_of("table2")}
    for name in ("corel5k_solvers", "corel5k_baselines"):
        assert {c.id for c in cells_of(name) if c.method in NINE} <= recorded


def test_the_ablation_is_the_full_model_and_six_without_something() -> None:
    full = {cell.id for cell in cells_of("table2")}
    for dataset in ("corel5k", "pascal07"):
        cells = cells_of("ablation", dataset=dataset, fold=0)
        assert [cell.id in full for cell in cells] == [False] * 3 + [True] + [False] * 3


@pytest.mark.parametrize(
    ("name", "axis"),
    [
        ("curves_views", "view_rate"),
        ("curves_labels", "label_rate"),
        ("curves_training", "train_share"),
    ],
)
def test_curves_go_from_10_to_70_percent(name: str, axis: str) -> None:
    cells = cells_of(name, dataset="corel5k", fold=0)
    assert [getattr(cell, axis) for cell in cells] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    usual = cells_of("table2", dataset="corel5k", fold=0, method="scsd")[0]
    assert usual.id in {cell.id for cell in cells}


def test_robustness_crosses_both_rates() -> None:
    rates = {(cell.view_rate, cell.test_view_rate) for cell in cells_of("robustness")}
    assert rates == {(0.3, 0.3), (0.3, 0.7), (0.7, 0.3), (0.7, 0.7)}
    assert {c.profile for c in cells_of("robustness", method="scsd")} == {"default", "paper"}


def test_a_part_of_the_smoke_grid_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "run", str(CONFIGS / "smoke.toml"), "--out", str(tmp_path), "--json"]
    part = [
        "--dataset",
        "synthetic",
        "--method",
        "label_frequency",
        "--method",
        "late_fusion_ridge",
    ]
    assert run([*command, *part, "--folds", "1"]) == 0
    assert json.loads(capsys.readouterr().out) == {"skipped": 0, "done": 4, "failed": 0}
    assert run([*command, "--dataset", "corel5k"]) == 2
    assert "it has: multidigits, synthetic" in capsys.readouterr().err
