from __future__ import annotations

from typing import Any

import pytest

from viewgap.bench.run.experiment import expand, select
from viewgap.errors import SettingError

GRID: dict[str, Any] = {
    "experiment": {
        "datasets": ["first", "second"],
        "dataset_options": {"second": {"n": 3}},
        "folds": 2,
        "view_rate": [0, 0.5],
        "label_rate": [0.1],
        "seed": [1, 2],
    },
    "method": [
        {
            "name": "scsd",
            "profile": ["paper", "default"],
            "params": {"dropout": 0.5},
            "dataset_params": {"second": {"temperature": 0.1}},
            "grid": {"alpha": [0.1, 1], "hidden": [[8], [8, 4], [4]]},
            "variants": [{}, {"quantise": False}],
            "scale_on": "all",
        },
        {"name": "label_frequency"},
    ],
}


def changed(place: str, change: dict[str, Any]) -> dict[str, Any]:
    if place == "experiment":
        return {**GRID, "experiment": {**GRID["experiment"], **change}}
    return {**GRID, "method": [{**GRID["method"][0], **change}]}


def test_a_grid_is_the_full_product() -> None:
    tasks = expand(GRID)
    points = 2 * 2 * 2  # rates, seeds, folds
    assert len(tasks) == 2 * points * (2 * 2 * 3 * 2 + 1)
    assert len({task.id for task in tasks}) == len(tasks)
    scsd = [task for task in tasks if task.method == "scsd"]
    assert {task.params["alpha"] for task in scsd} == {0.1, 1}
    assert {len(task.params) for task in scsd if task.dataset == "second"} == {4, 5}
    assert {task.scale_on for task in tasks} == {"training", "all"}


def test_parameters_and_options_belong_to_their_data_set() -> None:
    for task in expand(GRID):
        assert ("temperature" in task.params) == (
            task.dataset == "second" and task.method == "scsd"
        )
        assert task.dataset_options == ({"n": 3} if task.dataset == "second" else {})


def test_data_sets_are_outermost_and_folds_innermost() -> None:
    tasks = expand(GRID)
    half = len(tasks) // 2
    assert {task.dataset for task in tasks[:half]} == {"first"}
    assert [task.fold for task in tasks[:4]] == [0, 1, 0, 1]
    assert [task.seed for task in tasks[:4]] == [1, 1, 2, 2]


def test_a_list_of_one_is_the_same_task_as_the_value() -> None:
    plain = expand({"experiment": {"dataset": "x"}, "method": [{"name": "scsd"}]})
    listed = expand(
        {
            "experiment": {"datasets": ["x"], "seed": [1], "view_rate": [0.5]},
            "method": [{"name": "scsd", "profile": ["default"], "variants": [{}]}],
        }
    )
    assert [task.id for task in plain] == [task.id for task in listed]


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        ("experiment", {"dataset": "first"}, "not both"),
        ("experiment", {"datasets": []}, "at least one value"),
        ("experiment", {"datasets": [1]}, "datasets must be str"),
        ("experiment", {"dataset_options": {"n": 3}}, "unknown key 'n'"),
        ("experiment", {"view_rate": []}, "at least one value"),
        ("experiment", {"view_rate": ["half"]}, "view_rate must be float or int"),
        ("experiment", {"view_rate": [0.5, 0.5]}, "twice"),
        ("experiment", {"view_rate": [0.5, 1.5]}, "view_rate must be in"),
        ("experiment", {"test_view_rate": 1.0}, "test_view_rate must be in"),
        ("experiment", {"seed": [0.5]}, "seed must be int"),
        ("experiment", {"seed": True}, "seed must be int"),
        ("method", {"grid": {"alpha": 0.1}}, "grid: alpha must be a list"),
        ("method", {"grid": {"dropout": [0.1]}}, "'dropout' is set twice"),
        ("method", {"variants": []}, "at least one value"),
        ("method", {"variants": ["quantise"]}, "variants must be dict"),
        ("method", {"profile": [1]}, "profile must be str"),
        ("method", {"dataset_params": {"third": {}}}, "unknown key 'third'"),
    ],
)
def test_what_cannot_be_meant_is_an_error(place: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        expand(changed(place, change))


def test_a_part_of_an_experiment_can_be_selected() -> None:
    tasks = expand(GRID)
    assert select(tasks) == tasks
    part = select(tasks, ["second"], ["label_frequency"], 1)
    assert len(part) == 4
    assert {(c.dataset, c.method, c.fold) for c in part} == {("second", "label_frequency", 0)}
    with pytest.raises(SettingError, match="no dataset 'third'; it has: first, second"):
        select(tasks, ["third"])
