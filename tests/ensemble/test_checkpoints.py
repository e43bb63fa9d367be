"""An ensemble that is interrupted keeps its members, and goes on with the one at work."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from viewgap import interruption
from viewgap.ensemble import estimator
from viewgap.training import checkpointing
from viewgap.training.callbacks import Callback

NAMES = ("late_fusion_ridge", "scsd", "extra_trees")


def make(tools: Any, n: int = 3, **params: Any) -> estimator.Ensemble:
    """A small ensemble of the first of these methods."""
    small = {name: tools.SMALL[name] for name in NAMES[:n]}
    small["scsd"] = small["scsd"] | {"n_networks": 2}
    return estimator.Ensemble(methods=small, random_state=0, device="cpu", **params)


@pytest.fixture(autouse=True)
def _after_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointing, "SPACING", 0.0)


def same(one: Any, other: Any) -> bool:
    """Whether two fitted ensembles are equal, to the bit."""
    a, b = one._get_state(), other._get_state()
    assert a.metadata == b.metadata
    return a.arrays.keys() == b.arrays.keys() and all(
        np.array_equal(a.arrays[name], b.arrays[name]) for name in a.arrays
    )


def cut_in(monkeypatch: pytest.MonkeyPatch, member: str, after: bool) -> list[str]:
    """End the fit before or after a member; the members that are fitted."""
    fitted: list[str] = []
    fit = estimator.fit_member

    def fit_or_end(name: str, *rest: Any) -> Any:
        if name == member and not after:
            raise KeyboardInterrupt
        fitted.append(name)
        found = fit(name, *rest)
        if name == member:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(estimator, "fit_member", fit_or_end)
    return fitted


def test_cut_anywhere_an_ensemble_ends_in_the_same_bits(tools: Any, tmp_path: Path) -> None:
    data = tools.make_data()
    whole = make(tools).fit(*data)
    run, fitted = tmp_path / "run", []
    # scsd ends after its last epoch, but nobody has kept it: it goes on from there.
    for member, after in (("scsd", False), ("scsd", True), ("extra_trees", False)):
        with pytest.MonkeyPatch.context() as patch:
            fitted.append(cut_in(patch, member, after))
            with pytest.raises(KeyboardInterrupt):
                make(tools).fit(*data, checkpoint_dir=run, resume=run.exists())
    resumed = make(tools).fit(*data, checkpoint_dir=run, resume=True)
    assert fitted == [["late_fusion_ridge"], ["scsd"], ["scsd"]]
    assert same(resumed, whole)
    assert resumed.out_of_fold_proba_.tolist() == whole.out_of_fold_proba_.tolist()


def test_a_network_fitted_part_by_part_goes_on_too(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, methods = tools.make_data(), {"rank": tools.SMALL["rank"] | {"profile": "paper"}}
    model = estimator.Ensemble(methods=methods, random_state=0, device="cpu")
    whole = clone(model).fit(*data)
    folders, save = [], checkpointing.CheckpointFolder.save

    def save_or_end(self: Any, *rest: Any, **more: Any) -> None:
        save(self, *rest, **more)
        folders.append(self.path.name)
        if len(folders) == 5:  # two epochs with all rows, two without part 0, one without part 1
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpointing.CheckpointFolder, "save", save_or_end)
    with pytest.raises(KeyboardInterrupt):
        clone(model).fit(*data, checkpoint_dir=tmp_path / "run")
    resumed = clone(model).fit(*data, checkpoint_dir=tmp_path / "run", resume=True)
    assert same(resumed, whole)
    assert folders == ["rank", "rank", "0", "0", "1", "1", "2", "2", "3", "3", "4", "4", "rank"]
    assert not (tmp_path / "run/members/rank/parts").exists()


def test_seconds_of_earlier_processes_count_in_the_time_budget(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, run = tools.make_data(), tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        cut_in(patch, "scsd", after=False)
        with pytest.raises(KeyboardInterrupt):
            make(tools, 2, time_budget=3600.0).fit(*data, checkpoint_dir=run)
    pointer = run / "members/late_fusion_ridge/latest.json"
    assert 0 < json.loads(pointer.read_text())["seconds"] < 600
    pointer.write_text(json.dumps(json.loads(pointer.read_text()) | {"seconds": 3599.0}))
    resumed = make(tools, 2, time_budget=3600.0)
    resumed.fit(*data, checkpoint_dir=run, resume=True)
    notes = dict(zip(resumed.leaderboard_["method"], resumed.leaderboard_["note"], strict=True))
    assert notes["scsd"].startswith("left out: needs about")
    assert list(resumed.members_) == ["late_fusion_ridge"]


def test_after_a_signal_the_members_so_far_are_stacked_and_the_fit_can_go_on(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interruption._listener, "requested", None)  # as it is put back
    data, run = tools.make_data(), tmp_path / "run"
    whole = make(tools).fit(*data)

    class CtrlC(Callback):
        def on_epoch_begin(self, context: Any) -> None:
            if context.epoch == 2:
                interruption._listener.handle(signal.SIGTERM, None)

    make_members = estimator.Ensemble._make_members

    def with_signal(self: Any) -> Any:
        members = make_members(self)
        members["scsd"].callbacks = [CtrlC()]
        return members

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimator.Ensemble, "_make_members", with_signal)
        stopped = make(tools).fit(*data, checkpoint_dir=run)
    assert stopped.interrupted_
    notes = dict(zip(stopped.leaderboard_["method"], stopped.leaderboard_["note"], strict=True))
    assert notes["extra_trees"] == "left out: interrupted"
    assert notes["scsd"] == "interrupted in epoch 2" or "scsd" not in stopped.members_
    assert np.isfinite(stopped.predict_proba(data[0])).all()
    interruption._listener.requested = None
    resumed = make(tools).fit(*data, checkpoint_dir=run, resume=True)
    assert not resumed.interrupted_
    assert same(resumed, whole)
