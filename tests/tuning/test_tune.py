"""Studies: the default first, going on, several processes, what is refused, kills and Ctrl-C."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.bench.run import claims
from viewgap.errors import CheckpointError, LabelError, RunError, SettingError, ViewgapWarning

pytest.importorskip("optuna")

from viewgap.tuning import trials as loop
from viewgap.tuning.picture import _draw_setting

Xy = tuple[dict[str, np.ndarray], np.ndarray]
RIDGE: dict[str, Any] = {"method": "late_fusion_ridge"}
LOGISTIC: dict[str, Any] = {"method": "imputed_logistic", "params": {"max_iter": 500}}

# Whether a difference is within the noise is a property of these data.
pytestmark = pytest.mark.filterwarnings("ignore:the best trial")


def states(folder: Path) -> list[str]:
    return pd.read_csv(folder / "trials.csv")["state"].tolist()


def test_default_is_first_and_the_study_goes_on(data: Xy, tmp_path: Path) -> None:
    first = viewgap.tune(*data, **LOGISTIC, trials=2, study_dir=tmp_path / "s")
    assert first.trials["default"].tolist() == [True, False]
    assert first.trials["C"][0] == viewgap.ImputedLogistic().C
    more = viewgap.tune(*data, **LOGISTIC, trials=6, study_dir=tmp_path / "s")
    assert states(tmp_path / "s").count("complete") + states(tmp_path / "s").count("pruned") == 6
    pd.testing.assert_frame_equal(more.trials[["C", "score"]][:2], first.trials[["C", "score"]])
    assert more.best_score >= more.default_score == first.default_score
    assert more.gain == more.best_score - more.default_score
    kept = json.loads((tmp_path / "s" / "best.json").read_text())
    assert kept["best"]["score"] == more.best_score
    assert kept["default"]["score"] == more.default_score
    unbroken = viewgap.tune(*data, **LOGISTIC, trials=6)
    pd.testing.assert_frame_equal(
        unbroken.trials.drop(columns="seconds"), more.trials.drop(columns="seconds")
    )


def test_picture_shows_every_setting(data: Xy, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    viewgap.tune(*data, **RIDGE, trials=3, study_dir=tmp_path)
    picture = (tmp_path / "study.svg").read_text()
    for text in ("penalties", "features", "best so far", "AP, out of fold"):
        assert text in picture


def test_labels_of_settings_do_not_overlap(data: Xy) -> None:
    """Their boxes, as they are drawn: lists of numbers side by side."""
    plt = pytest.importorskip("matplotlib.pyplot")
    found = viewgap.tune(*data, **RIDGE, trials=8)
    figure = plt.figure(figsize=(10.5, 5.3), layout="constrained")
    grid = figure.add_gridspec(2, 4)
    for place, name in enumerate(found.space):
        axes = figure.add_subplot(grid[1, place])
        _draw_setting(axes, found, found.trials, name)
        figure.draw_without_rendering()
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert len(boxes) > 1
        assert not any(left.overlaps(right) for left, right in itertools.pairwise(boxes))
    plt.close(figure)


def test_the_winner_is_what_was_measured(data: Xy) -> None:
    found = viewgap.tune(*data, **RIDGE, trials=8)
    assert len(found.trials) == 8  # of the 4 x 2 settings, none was tried twice
    assert len(found.trials[["penalties", "features"]].drop_duplicates()) == 8
    estimator = found.estimator
    assert {name: estimator.get_params()[name] for name in found.best_params} == found.best_params
    again = viewgap.tune(*data, **RIDGE, trials=50)
    assert len(again.trials) == 8  # there are no more
    assert again.best_params == found.best_params


def test_one_label_and_a_metric_of_which_less_is_better(data: Xy) -> None:
    y = np.where(np.nan_to_num(data[1][:, 0]) > 0, "ill", "well")
    found = viewgap.tune(data[0], y, **RIDGE, trials=2)
    assert found.metric == "macro AUC"
    less = viewgap.tune(*data, **RIDGE, trials=3, metric="calibration error")
    assert less.best_score <= less.default_score
    assert less.gain >= 0


def test_networks_are_tuned_and_pruned(data: Xy) -> None:
    params = {"max_epochs": 8, "embedding": 8, "n_networks": 2, "cross_fit": True, "device": "cpu"}
    found = viewgap.tune(*data, method="dicnet", params=params, trials=3, search=["learning_rate"])
    assert found.trials["steps"].tolist() == [8, 8, 8]
    assert found.space.keys() == {"learning_rate"}


def test_a_trial_is_given_up_where_others_were_better(
    data: Xy, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([0.5, 0.6, 0.7, 0.8, 0.1])

    def answer(model: Any, rows: Any, metric: str, report: Any, *rest: Any, **more: Any) -> Any:
        value = next(values)
        for step in (1, 2, 3):
            report(value, step)
        return np.nan

    class Measured:
        value, without_block = 0.5, [0.5, 0.5]

    monkeypatch.setattr(loop, "cross_fitted", answer)
    monkeypatch.setattr(loop, "measure", lambda *_: Measured)
    found = viewgap.tune(*data, **LOGISTIC, trials=5)
    assert found.trials["state"].tolist() == ["complete"] * 4 + ["pruned"]
    assert found.trials["steps"].tolist() == [3, 3, 3, 3, 2]  # not after the first report


def test_time_budget_leaves_the_default(data: Xy) -> None:
    found = viewgap.tune(*data, **RIDGE, time_budget=1e-6)
    assert found.trials["default"].tolist() == [True]
    assert found.best_params == {}
    assert not found.settings


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"params": {"max_iter": 600}}, "max_iter was 500, and is 600 now"),
        ({"metric": "1-RL"}, "metric was 'AP', and is '1-RL' now"),
        ({"random_state": 1}, "random_state was 0, and is 1 now"),
        ({"method": "extra_trees", "params": {}}, "method was 'ImputedLogistic'"),
        ({"data": True}, "other values of view 'a'"),
    ],
)
def test_another_study_is_refused(
    data: Xy, tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    viewgap.tune(*data, **LOGISTIC, trials=1, study_dir=tmp_path)
    X, Y = data
    if change.pop("data", False):
        X["a"][0, 0] += 1
    before = (tmp_path / "journal.jsonl").read_bytes()
    with pytest.raises(CheckpointError, match=text):
        viewgap.tune(X, Y, **LOGISTIC | change, trials=1, study_dir=tmp_path)
    assert (tmp_path / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"trials": 0}, SettingError, "trials must be a whole number of at least 1"),
        ({"time_budget": -1.0}, SettingError, "time_budget must be a number above 0"),
        ({"random_state": None}, SettingError, "random_state must be a whole number"),
        ({"method": "label_frequency"}, SettingError, "declares no search range"),
        ({"params": {"penalty": 3}}, SettingError, "no parameter 'penalty'"),
        ({"y": None}, LabelError, "requires y"),
    ],
)
def test_bad_arguments(data: Xy, arguments: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        viewgap.tune(**{"X": data[0], "y": data[1], **RIDGE, **arguments})


def test_a_folder_with_other_files_is_left_alone(data: Xy, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(CheckpointError, match=r"holds 'thesis.tex' and no study"):
        viewgap.tune(*data, **RIDGE, trials=1, study_dir=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_in_which_a_first_process_was_killed_is_begun(data: Xy, tmp_path: Path) -> None:
    (tmp_path / ".viewgap-3463c6c4d1da-5bce98f7-new-7997-386503d4").write_text('{"form')
    assert viewgap.tune(*data, **RIDGE, trials=1, study_dir=tmp_path).study_dir == tmp_path


def test_without_optuna(data: Xy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(RunError, match=r"pip install 'viewgap\[tune\]'"):
        viewgap.tune(*data)


def failing(error: BaseException) -> Any:
    """`cross_fitted` that fails for all but the defaults."""
    real = loop.cross_fitted

    def answer(*args: Any, quiet: bool, **more: Any) -> Any:
        if quiet:  # only the defaults may warn
            raise error
        return real(*args, quiet=quiet, **more)

    return answer


def test_ctrl_c_marks_the_trial(data: Xy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(loop, "cross_fitted", failing(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            viewgap.tune(*data, **LOGISTIC, trials=3, study_dir=tmp_path)
    found = viewgap.tune(*data, **LOGISTIC, trials=3, study_dir=tmp_path)
    assert found.trials["state"].tolist() == ["complete", "fail", "complete", "complete"]
    assert found.trials["reason"][1] == "interrupted (KeyboardInterrupt)"


def test_settings_that_cannot_be_fitted_end_the_search_at_last(
    data: Xy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "cross_fitted", failing(RunError("training diverged")))
    with pytest.raises(RunError, match=r"10 trials failed one after the other.*diverged"):
        viewgap.tune(*data, **LOGISTIC, trials=30)


def test_half_a_line_of_the_journal_is_cut_off(data: Xy, tmp_path: Path) -> None:
    viewgap.tune(*data, **LOGISTIC, trials=1, study_dir=tmp_path)
    with (tmp_path / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"op_code":5,"worker')
    found = viewgap.tune(*data, **LOGISTIC, trials=2, study_dir=tmp_path)
    assert found.trials["state"].tolist() == ["complete", "complete"]
    (tmp_path / "journal.jsonl").write_bytes(b"nonsense\nnonsense\n")
    with pytest.raises(CheckpointError, match=r"journal.jsonl is damaged"):
        viewgap.tune(*data, **LOGISTIC, trials=2, study_dir=tmp_path)


OTHER = """
    import sys, time
    import numpy as np
    import viewgap
    from viewgap.tuning import trials as loop

    real = loop.cross_fitted

    def answer(*args, quiet, **more):
        if quiet:
            print("running", flush=True)
            time.sleep(600)
        return real(*args, quiet=quiet, **more)

    loop.cross_fitted = answer
    stored = np.load(sys.argv[1])
    viewgap.tune({"a": stored["a"], "b": stored["b"]}, stored["Y"], method="imputed_logistic",
                 params={"max_iter": 500}, trials=3, study_dir=sys.argv[2])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="processes are told apart by /proc and kill")
def test_two_processes_one_of_which_is_killed(data: Xy, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **data[0], Y=data[1])
    study = tmp_path / "study"
    command = [sys.executable, "-c", textwrap.dedent(OTHER), str(tmp_path / "data.npz"), str(study)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == "running\n"
            both = viewgap.tune(*data, **LOGISTIC, trials=3, study_dir=study)
            assert both.trials["state"].tolist() == ["complete", "running", "complete"]
        finally:
            other.send_signal(signal.SIGKILL)
            other.wait()
    with pytest.warns(ViewgapWarning, match="trial-1 was claimed by .* which is gone"):
        after = viewgap.tune(*data, **LOGISTIC, trials=3, study_dir=study)
    assert after.trials["state"].tolist() == ["complete", "fail", "complete", "complete"]
    assert not list((study / "claims").iterdir())


def test_a_claim_of_a_trial_that_has_ended_is_cleared_away(data: Xy, tmp_path: Path) -> None:
    """A process was killed between the end of its trial and giving up its claim."""
    study = tmp_path / "study"
    viewgap.tune(*data, **RIDGE, trials=1, study_dir=study)
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    holder = json.dumps({**claims._identity(), "pid": gone.pid, "token": "x"})
    (study / "claims" / "trial-0").write_text(holder)
    with pytest.warns(ViewgapWarning, match="trial-0 was claimed by .* which is gone"):
        after = viewgap.tune(*data, **RIDGE, trials=2, study_dir=study)
    assert after.trials["state"].tolist() == ["complete", "complete"]
    assert not list((study / "claims").iterdir())
