"""Which process fits which member: by estimates alone, the same on every process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.data.labels import Labels
from viewgap.ensemble.dealing import Costs, Split
from viewgap.ensemble.members import make_member
from viewgap.ensemble.schedule import Schedule, estimated_seconds


def split(costs: dict[str, Costs], processes: int, committee: str = "auto") -> Split:
    return Split.of(costs, processes, committee)


def test_the_longest_is_dealt_first_and_each_to_the_least_busy() -> None:
    costs = {name: Costs(seconds) for name, seconds in zip("abcde", (1, 5, 3, 3, 4), strict=True)}
    assert split(costs, 2).owner == {"b": 0, "e": 1, "c": 1, "d": 0, "a": 1}
    assert split(costs, 8).owner == {"b": 0, "e": 1, "c": 2, "d": 3, "a": 4}
    assert not split(costs, 2).together


def test_a_committee_that_would_keep_one_process_busy_is_fitted_by_all() -> None:
    costs = {"trees": Costs(10), "network": Costs(100, 5, 50), "ridge": Costs(10)}
    for processes in (2, 4, 8):
        found = split(costs, processes)
        assert found.together == ["network"]
        assert found.owner == {"trees": 0, "ridge": 1}


def test_a_committee_is_fitted_by_one_where_the_others_take_as_long() -> None:
    costs = {"trees": Costs(60), "network": Costs(100, 5, 50), "ridge": Costs(50)}
    found = split(costs, 2)
    assert found.owner == {"network": 0, "trees": 1, "ridge": 1}
    assert not found.together


def test_a_committee_with_few_steps_between_its_exchanges_is_fitted_by_one() -> None:
    costs = {"trees": Costs(10), "network": Costs(100, 5, 3), "ridge": Costs(10)}
    for processes in (2, 4):
        assert not split(costs, processes).together


def test_only_those_committees_are_shared_that_it_pays_for() -> None:
    costs = {"small": Costs(2, 5, 20), "large": Costs(100, 5, 50), "trees": Costs(2)}
    assert split(costs, 2).together == ["large"]


def test_what_the_user_says_of_committees_counts() -> None:
    costs = {"trees": Costs(60), "network": Costs(50, 5), "paper": Costs(10, 3)}
    assert split(costs, 2, "deal").together == ["network", "paper"]
    alone = split({"network": Costs(100, 5, 50), "trees": Costs(1)}, 4, "share")
    assert alone == Split({"network": 0, "trees": 1}, [])


def test_members_that_cost_nothing_have_a_process_too() -> None:
    found = split({"kept": Costs(0.0), "left_out": Costs(0.0)}, 2)
    assert found.owner == {"kept": 0, "left_out": 0}


def labels_of(Y: np.ndarray) -> Labels:
    return Labels(np.nan_to_num(Y).astype(np.uint8), ~np.isnan(Y), ("a", "b", "c"))


def test_a_network_is_expected_to_be_trained_until_it_stops(tools: Any) -> None:
    views, Y = tools.make_data()
    labels = labels_of(Y)
    schedule = Schedule(views, labels, None, 0.0)
    short, long = (make_member("scsd", {"max_epochs": n}, {}) for n in (30, 500))
    beginning = estimated_seconds(short, views, labels)  # of ten epochs
    assert schedule.expected_seconds(short) == pytest.approx(3.0 * beginning)
    assert schedule.expected_seconds(long) == pytest.approx(5.5 * beginning)  # 15 + 4 x 10 epochs
    trees = make_member("extra_trees", {}, {})
    assert schedule.expected_seconds(trees) == estimated_seconds(trees, views, labels)


@pytest.mark.parametrize(
    ("name", "params", "rows", "expected"),
    [
        ("scsd", {"batch_size": 16}, 60, (5, 4)),
        ("rank", {"n_networks": 3, "batch_size": 64}, 60, (3, 1)),
        ("scsd", {"cross_fit": False}, 60, (1, 1)),
        ("scsd", {"validation_fraction": 0.0}, 60, (1, 1)),
        ("scsd", {"profile": "paper"}, 60, (1, 1)),
        ("scsd", {}, 18, (1, 1)),
        ("extra_trees", {}, 60, (1, 1)),
    ],
)
def test_committees_that_can_be_dealt_out(
    name: str, params: dict[str, Any], rows: int, expected: tuple[int, int], tools: Any
) -> None:
    views, Y = tools.make_data(rows)
    schedule = Schedule(views, labels_of(Y), None, 0.0)
    model = make_member(name, params, {"device": "cpu"})
    assert schedule.committee(model, None) == expected


def test_nothing_is_dealt_out_without_a_group(tools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("costs are for several processes")

    monkeypatch.setattr(viewgap.Ensemble, "_costs", never)
    views, Y = tools.make_data()
    assert list(tools.make("late_fusion_ridge").fit(views, Y).members_) == ["late_fusion_ridge"]
