"""The time budget: order, what is left out and why, and networks that stop. The clock is a fake."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from viewgap.data.labels import Labels
from viewgap.ensemble import estimator
from viewgap.ensemble.members import make_member
from viewgap.ensemble.schedule import Schedule, StopInTime, estimated_seconds
from viewgap.errors import RunError
from viewgap.interruption import OutOfTimeError
from viewgap.training.callbacks import Callback


def labels_of(Y: np.ndarray) -> Labels:
    return Labels(np.nan_to_num(Y).astype(np.uint8), ~np.isnan(Y), ("a", "b", "c"))


def notes(model: Any) -> dict[str, str]:
    return dict(zip(model.leaderboard_["method"], model.leaderboard_["note"], strict=True))


def test_the_cheapest_member_is_fitted_first_and_a_network_last(tools: Any, costs: Any) -> None:
    costs(extra_trees=(20.0, 1.0), scsd=(1.0, 1.0), late_fusion_ridge=(5.0, 1.0))
    views, Y = tools.make_data()
    names = ("extra_trees", "scsd", "late_fusion_ridge")
    schedule = Schedule(views, labels_of(Y), 100.0, 1000.0)
    models = {name: make_member(name, tools.SMALL[name], {}) for name in names}
    assert schedule.order(models) == ["late_fusion_ridge", "extra_trees", "scsd"]
    assert Schedule(views, labels_of(Y), None, 0.0).order(models) == list(names)


def test_what_there_is_no_time_for_is_left_out(tools: Any, costs: Any) -> None:
    costs(late_fusion_ridge=(1.0, 60.0), extra_trees=(40.0, 40.0), scsd=(41.0, 0.0))
    views, Y = tools.make_data()
    names = ("extra_trees", "scsd", "late_fusion_ridge")
    model = tools.make(*names, time_budget=100.0).fit(views, Y)
    assert list(model.members_) == ["late_fusion_ridge"]
    found = notes(model)
    assert found["late_fusion_ridge"] == ""
    assert found["extra_trees"] == "left out: needs about 40.0 s, there were 24.8 s for it"
    assert found["scsd"] == "left out: needs about 41.0 s, there were 24.8 s for it"
    assert model.leaderboard_["seconds"].iloc[0] == 60.0


def test_a_method_that_does_not_look_at_the_clock_needs_more_room(tools: Any, costs: Any) -> None:
    costs(late_fusion_ridge=(1.0, 1.0), imputed_logistic=(40.0, 40.0))
    views, Y = tools.make_data()
    names = ("imputed_logistic", "late_fusion_ridge")
    few, many = (tools.make(*names, time_budget=s).fit(views, Y) for s in (100.0, 145.0))
    assert list(few.members_) == ["late_fusion_ridge"]
    assert set(many.members_) == set(names)


def test_a_member_that_takes_longer_than_thought_is_given_up(
    tools: Any, costs: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs(late_fusion_ridge=(1.0, 1.0), extra_trees=(5.0, 1.0))
    views, Y = tools.make_data()
    from viewgap.methods import extra_trees

    new_forest = extra_trees.ExtraTrees._new_forest

    def slow(self: Any, *arguments: Any) -> Any:
        clock.now += 30.0
        return new_forest(self, *arguments)

    monkeypatch.setattr(extra_trees.ExtraTrees, "_new_forest", slow)
    model = tools.make("extra_trees", "late_fusion_ridge", time_budget=100.0).fit(views, Y)
    assert list(model.members_) == ["late_fusion_ridge"]
    assert notes(model)["extra_trees"] == "left out: not enough time"
    assert clock.now == 1061.0  # a third forest of 30 s would end after the 84.8 s of members


def test_a_member_leaves_half_of_the_time_to_one_that_waits(tools: Any, costs: Any) -> None:
    costs(late_fusion_ridge=(1.0, 1.0), extra_trees=(60.0, 1.0), scsd=(86.0, 1.0))
    views, Y = tools.make_data()
    schedule = Schedule(views, labels_of(Y), 100.0, 1000.0)
    ridge, trees, network = (
        make_member(n, {}, {}) for n in ("late_fusion_ridge", "extra_trees", "scsd")
    )
    assert schedule.deadline == pytest.approx(1084.8, abs=0.01)
    assert schedule.deadline_of(ridge, [trees]) == pytest.approx(1042.4, abs=0.01)
    assert schedule.deadline_of(ridge, [network]) == schedule.deadline  # no time for it anyway
    assert schedule.reason_to_leave_out(trees, [], must=True) == ""
    found = schedule.reason_to_leave_out(trees, [ridge], must=True)
    assert found == "left out: needs about 60.0 s, there were 42.4 s for it"


def test_ridge_regression_looks_at_the_clock(tools: Any, costs: Any, clock: Any) -> None:
    costs(late_fusion_ridge=(1.0, 1.0))
    views, Y = tools.make_data()
    model = make_member("late_fusion_ridge", {}, {})
    model.label_frequency_ = np.full(3, 0.5)
    model._deadline = clock.now - 1.0
    with pytest.raises(OutOfTimeError):
        model._fit(views, labels_of(Y), None)


@pytest.mark.parametrize("members", [("late_fusion_ridge",), ("scsd", "extra_trees")])
def test_no_time_for_anything_is_an_error_that_says_so(
    tools: Any, costs: Any, members: tuple[str, ...]
) -> None:
    costs(late_fusion_ridge=(50.0, 1.0), scsd=(50.0, 1.0), extra_trees=(50.0, 1.0))
    views, Y = tools.make_data()
    model = tools.make(*members, time_budget=20.0)
    with pytest.raises(RunError, match="no member could be fitted within time_budget = 20 s") as e:
        model.fit(views, Y)
    assert all(name in str(e.value) for name in members)
    assert "give more time" in str(e.value)


def test_without_a_budget_members_of_the_default_that_take_too_long_are_left_out(
    tools: Any, costs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs(late_fusion_ridge=(1.0, 1.0), extra_trees=(601.0, 1.0), scsd=(10_000.0, 1.0))
    names = ("extra_trees", "late_fusion_ridge", "scsd")
    monkeypatch.setattr(estimator, "DEFAULT", {name: tools.SMALL[name] for name in names})
    views, Y = tools.make_data()
    model = estimator.Ensemble(random_state=0, device="cpu").fit(views, Y)
    assert notes(model)["extra_trees"] == "left out: about 601 s"
    assert "scsd" in set(model.leaderboard_.dropna(subset="score")["method"])
    asked_for = tools.make("extra_trees").fit(views, Y)
    assert list(asked_for.members_) == ["extra_trees"]


class SlowEpochs(Callback):
    """Moves the clock in every epoch."""

    def __init__(self, clock: Any, seconds: float) -> None:
        self.clock, self.seconds = clock, seconds

    def on_epoch_begin(self, context: Any) -> None:
        self.clock.now += self.seconds


def fit_network(tools: Any, clock: Any, costs: Any, seconds: float) -> Any:
    costs(scsd=(1.0, 0.0), late_fusion_ridge=(0.5, 0.5))
    views, Y = tools.make_data()
    slow = tools.SMALL["scsd"] | {"max_epochs": 12, "callbacks": [SlowEpochs(clock, seconds)]}
    members = {"scsd": slow, "late_fusion_ridge": {}}
    model = estimator.Ensemble(methods=members, time_budget=100.0, random_state=0, device="cpu")
    model._keep_all_members = True
    return model.fit(views, Y)


def test_a_network_stops_in_time_and_keeps_its_best_weights(
    tools: Any, clock: Any, costs: Any
) -> None:
    network: Any = fit_network(tools, clock, costs, 15.0)._all_members["scsd"]
    assert network.n_epochs_ == 4  # 60 s; two more epochs would end after the 84.8 s of members
    scores = network.history_["validation_score"]
    assert network.best_epoch_ <= len(scores) == 4
    assert network.callbacks is not None
    assert [type(own).__name__ for own in network.callbacks] == ["SlowEpochs"]


def test_a_network_whose_first_epoch_ends_too_late_is_left_out(
    tools: Any, clock: Any, costs: Any
) -> None:
    model = fit_network(tools, clock, costs, 95.0)
    assert list(model.members_) == ["late_fusion_ridge"]
    assert notes(model)["scsd"] == "left out: not enough time"


def test_the_callback_asks_to_stop_before_the_deadline(clock: Any) -> None:
    asked: list[float] = []
    context: Any = SimpleNamespace(epoch=0, request_stop=lambda: asked.append(clock.now))
    stop = StopInTime(clock.now + 50.0, after=5.0)
    stop.on_train_begin(context)
    for _ in range(4):
        clock.now += 10.0
        stop.on_epoch_end(context)
    assert asked == [1030.0, 1040.0]  # 20 s left: two epochs of 10 s and 5 s are more
    clock.now += 20.0
    with pytest.raises(OutOfTimeError):
        stop.on_epoch_end(context)


@pytest.mark.parametrize("name", ["scsd", "extra_trees", "late_fusion_ridge", "random_forest"])
def test_estimates_grow_with_the_data(name: str, tools: Any) -> None:
    found = []
    for n in (60, 600):
        views, Y = tools.make_data(n)
        model = make_member(name, tools.SMALL[name], {})
        found.append(estimated_seconds(model, views, labels_of(Y)))
    assert 0 < found[0] < found[1] < 60
