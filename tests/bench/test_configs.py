"""The experiment files: all can be built, and hold what the paper and the records hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from viewgap.bench.run.execute import build_method
from viewgap.bench.run.experiment import expand, read_experiment, shipped_config
from viewgap.bench.run.task import Task
from viewgap.cli import run
from viewgap.errors import SettingError
from viewgap.methods.deep import DeepClassifier

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
EXPERIMENTS = sorted(path for path in CONFIGS.glob("*.toml") if not path.name.startswith("queue"))
NINE = {"imvwl", "naim3l", "ddinet", "dicnet", "mtd", "sip", "rank", "drls", "scsd"}
FIVE = {"corel5k", "pascal07", "espgame", "iaprtc12", "mirflickr"}


@cache
def tasks_in(path: Path) -> tuple[Task, ...]:
    return tuple(read_experiment(path))


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """The tasks of all files are many objects, which no later test needs."""
    yield
    tasks_in.cache_clear()


def tasks_of(name: str, **facts: Any) -> list[Task]:
    tasks = tasks_in(CONFIGS / f"{name}.toml")
    return [task for task in tasks if all(getattr(task, k) == v for k, v in facts.items())]


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_config_can_be_built(path: Path) -> None:
    tasks = tasks_in(path)
    for task in (task for task in tasks if task.fold == 0):
        model = build_method(task)
        if isinstance(model, DeepClassifier):
            model._resolve(260)  # refuses values that do not go together


def test_every_record_is_a_task_of_a_config() -> None:
    known = {task.id for path in EXPERIMENTS for task in tasks_in(path)}
    for journal in (ROOT / "results").rglob("records.jsonl"):
        lines = map(json.loads, journal.read_text().splitlines())
        found = {entry.get("task", entry.get("cell")) for entry in lines}
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
    names = ("alpha", "distill_weight", "temperature", "dropout", "hidden")
    for task in tasks_of(name):
        assert tuple(task.params[key] for key in names) == published
        assert (task.profile, task.scale_on) == ("paper", "all")
    ids = [task.id for task in tasks_of("table2", dataset=name, method="scsd")]
    assert ids == [task.id for task in tasks_of(name)]


@pytest.mark.parametrize(
    ("method", "dataset", "expected"),
    [
        ("sip", "corel5k", {}),
        ("sip", "pascal07", {"beta": 1.0, "max_epochs": 50}),
        ("sip", "mirflickr", {"sigma": 0.1}),
        ("mtd", "espgame", {}),
        ("mtd", "mirflickr", {"beta": 0.001}),
        ("rank", "pascal07", {}),
        ("rank", "iaprtc12", {"sigma": 0.5}),
        ("naim3l", "pascal07", {"rank_weight": 1.5}),
        ("naim3l", "mirflickr", {"rank_weight": 0.6}),
        ("ddinet", "mirflickr", {}),
    ],
)
@pytest.mark.parametrize("name", ["table2", "complete"])
def test_rivals_have_the_settings_of_their_released_code(
    name: str, method: str, dataset: str, expected: dict[str, Any]
) -> None:
    found = tasks_of(name, dataset=dataset, method=method)
    assert [task.params for task in found] == [expected] * 10


def test_tasks_of_every_config_are_those_that_records_were_made_of() -> None:
    """Number of tasks and a hash of their ids, in order."""
    found = {}
    for path in EXPERIMENTS:
        ids = [task.id for task in tasks_in(path)]
        found[path.name] = [len(ids), hashlib.sha256(" ".join(ids).encode()).hexdigest()[:16]]
    expected = json.loads((Path(__file__).parent / "config_tasks.json").read_text())
    assert found == expected


@pytest.mark.parametrize("name", ["demo", "example"])
def test_configs_of_the_package_can_be_built(name: str) -> None:
    tasks = expand(shipped_config(name))
    for task in tasks:
        build_method(task)
    assert {"scsd", "label_frequency"} <= {task.method for task in tasks}


def test_init_writes_an_example_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    assert run(["bench", "init", str(path)]) == 0
    assert [t.id for t in read_experiment(path)] == [
        t.id for t in expand(shipped_config("example"))
    ]
    path.write_text("changed")
    assert run(["bench", "init", str(path)]) == 2
    assert path.read_text() == "changed"


def test_published_parameters_give_way_to_those_of_the_file() -> None:
    method = {"name": "scsd", "profile": "paper", "dataset_params": "published"}
    (task,) = expand({"experiment": {"dataset": "corel5k"}, "method": [method]})
    grid = {"grid": {"alpha": [7.0]}}
    (changed,) = expand({"experiment": {"dataset": "corel5k"}, "method": [method | grid]})
    assert changed.params == {**task.params, "alpha": 7.0}
    for wrong, message in (
        ({"experiment": {"dataset": "tiny"}}, "no published parameters of scsd on tiny"),
        ({"method": [method | {"dataset_params": "others"}]}, "table or 'published'"),
        ({"method": [method | {"name": "ddinet"}]}, "no data set"),
    ):
        content = {"experiment": {"dataset": "corel5k"}, "method": [method], **wrong}
        with pytest.raises(SettingError, match=message):
            expand(content)


def test_table_2_is_nine_methods_on_five_sets_in_ten_folds() -> None:
    for name, rate in (("table2", 0.5), ("complete", 0.0)):
        tasks = tasks_of(name, profile="paper", view_rate=rate, label_rate=rate)
        assert {(c.method, c.dataset) for c in tasks} == {(m, d) for m in NINE for d in FIVE}
        assert len(tasks) == 9 * 5 * 10
        others = {(c.method, c.scale_on) for c in tasks_of(name, profile="default")}
        assert others == (set() if name == "table2" else {("scsd", "training")})
    recorded = {c.id for c in tasks_of("table2")}
    for name in ("corel5k_solvers", "corel5k_baselines"):
        assert {c.id for c in tasks_of(name) if c.method in NINE} <= recorded


def test_the_ablation_is_the_full_model_and_six_without_something() -> None:
    full = {task.id for task in tasks_of("table2")}
    for dataset in ("corel5k", "pascal07"):
        tasks = tasks_of("ablation", dataset=dataset, fold=0)
        assert [task.id in full for task in tasks] == [False] * 3 + [True] + [False] * 3


@pytest.mark.parametrize(
    ("name", "axis"),
    [
        ("curves_views", "view_rate"),
        ("curves_labels", "label_rate"),
        ("curves_training", "train_share"),
    ],
)
def test_curves_go_from_10_to_70_percent(name: str, axis: str) -> None:
    tasks = tasks_of(name, dataset="corel5k", fold=0)
    assert [getattr(task, axis) for task in tasks] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    usual = tasks_of("table2", dataset="corel5k", fold=0, method="scsd")[0]
    assert usual.id in {task.id for task in tasks}


def test_robustness_crosses_both_rates() -> None:
    rates = {(task.view_rate, task.test_view_rate) for task in tasks_of("robustness")}
    assert rates == {(0.3, 0.3), (0.3, 0.7), (0.7, 0.3), (0.7, 0.7)}
    assert {c.profile for c in tasks_of("robustness", method="scsd")} == {"default", "paper"}


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
