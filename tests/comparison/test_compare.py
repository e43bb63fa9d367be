"""`viewgap.compare`: folds, numbers, records that are used again, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import viewgap
from viewgap.bench.results.record import RECORDS
from viewgap.bench.run.progress import LineProgress
from viewgap.data.splits import cross_validation_fold
from viewgap.data.viewset import ViewSet
from viewgap.errors import DataFileError, InputError, LabelError, RunError, SettingError
from viewgap.model_selection import scorer

FAST = ["label_frequency", "late_fusion_ridge"]


@pytest.fixture(scope="module")
def data() -> tuple[ViewSet, np.ndarray]:
    rng = np.random.default_rng(0)
    truth = (rng.random((60, 3)) < 0.4).astype(float)
    views = {
        "a": truth @ rng.normal(size=(3, 5)) + 0.3 * rng.normal(size=(60, 5)),
        "b": rng.normal(size=(60, 4)),
    }
    observed = np.ones((60, 2), dtype=bool)
    observed[:12, 0] = False
    truth[rng.random((60, 3)) < 0.2] = np.nan
    truth[7] = np.nan  # belongs to no fold
    return ViewSet(views, observed), truth


@pytest.fixture
def folder(data: tuple[ViewSet, np.ndarray], tmp_path: Path) -> Path:
    """The same as files, and groups of three samples beside them."""
    views, labels = data
    ids = [f"p{i}" for i in range(60)]
    target = tmp_path / "patients"
    target.mkdir()
    for name, frame in views.to_frames().items():
        frame.index = ids
        frame.columns = [f"{name}{column}" for column in range(frame.shape[1])]
        frame.dropna(how="all").to_csv(target / f"{name}.csv", index_label="id")
    pd.DataFrame(labels, ids, ["x", "y", "z"]).to_csv(target / "labels.csv", index_label="id")
    groups = pd.DataFrame({"site": ["s"] * 60, "family": np.repeat(np.arange(20), 3)}, ids)
    groups.to_csv(tmp_path / "groups.csv", index_label="id")
    return target


def test_scores_are_those_of_a_loop_over_the_folds(data: Any) -> None:
    views, labels = data
    found = viewgap.compare(views, labels, methods=FAST, folds=4, metric="macro AUC")
    assert (found.n_samples, found.n_left_out, found.n_folds) == (59, 1, 4)
    assert found.best == found.scores[0].method == "late_fusion_ridge"
    expected: dict[str, list[float]] = {name: [] for name in FAST}
    for number in range(4):
        fold = cross_validation_fold(views, labels, number, 4)
        for name, model in (
            ("label_frequency", viewgap.LabelFrequency()),
            ("late_fusion_ridge", viewgap.LateFusionRidge(random_state=0)),
        ):
            model.fit(views[fold.train], labels[fold.train])
            score = scorer("macro AUC")(model, views[fold.test], labels[fold.test])
            expected[name].append(score)
    for score in found.scores:
        own = np.array(expected[score.method])
        assert score.score == pytest.approx(own.mean())
        half = stats.t.ppf(0.975, 3) * math.sqrt(1 / 4 + 1 / 3) * own.std(ddof=1)
        assert score.high == pytest.approx(min(1.0, own.mean() + half))
        assert score.folds == 4
    gaps = np.array(expected["label_frequency"]) - expected["late_fusion_ridge"]
    behind = found.scores[1]
    assert behind.difference == pytest.approx(gaps.mean())
    t = gaps.mean() / (math.sqrt(1 / 4 + 1 / 3) * gaps.std(ddof=1))
    assert behind.p_value == pytest.approx(2 * stats.t.sf(abs(t), 3))
    # the interval of the difference reaches 0 where the test does not reject
    assert behind.difference_high is not None
    assert behind.p_value is not None
    assert (behind.difference_high < 0) == (behind.p_value < 0.05)


def test_intervals_end_where_the_metric_does() -> None:
    """Beside the t interval, cut at 0 and 1; a metric that nothing registers has no ends."""
    from viewgap.bench.analyse.paired import _interval
    from viewgap.metrics import get_metric

    values, ratio = np.array([0.9, 1.0, 0.98]), 0.5
    mean, half = (
        values.mean(),
        stats.t.ppf(0.975, 2) * math.sqrt(1 / 3 + ratio) * values.std(ddof=1),
    )
    assert mean + half > 1
    found = _interval(values, ratio, get_metric("AP").bounds)
    assert found == {"mean": mean, "low": pytest.approx(mean - half), "high": 1.0}
    below = _interval(1 - values, ratio, get_metric("calibration error").bounds)
    assert (below["low"], below["high"]) == (0.0, pytest.approx(1 - mean + half))
    free = _interval(values, ratio, get_metric("not registered").bounds)
    assert free["high"] == pytest.approx(mean + half)


def test_no_score_and_no_difference_reaches_beyond_the_metric(data: Any) -> None:
    views, labels = data
    found = viewgap.compare(views, labels, methods=FAST, folds=2)
    best, other = found.scores
    for own in found.scores:
        for name, line in own.metrics.items():
            lowest, highest = viewgap.metrics.get_metric(name).bounds
            assert lowest <= line["low"] <= line["mean"] <= line["high"] <= highest, name
    assert best.high == 1.0  # two folds: without the cut, far beyond
    assert -1 <= other.difference_low <= other.difference <= other.difference_high <= 1


def test_the_same_from_files_as_from_memory(data: Any, folder: Path, tmp_path: Path) -> None:
    memory = viewgap.compare(*data, methods=FAST, folds=3)
    files = viewgap.compare(str(folder), methods=FAST, folds=3, out=tmp_path / "out")
    assert files.dataset == "patients"
    for one, other in zip(memory.scores, files.scores, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-6)
    assert files.to_dict()["methods"][0]["metrics"]["AUC"]["mean"] <= 1
    assert files.to_frame().loc[files.best, "verdict"] == "best"
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Methods on patients" in page
    assert f"minus that of {files.best}" in page
    assert "Difference to the best" in page


class Count(LineProgress):
    """How many tasks ran."""

    ran = 0

    def task_ended(self, *details: Any) -> None:
        self.ran += 1


def test_what_was_done_is_not_done_again_unless_the_data_change(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setattr("viewgap.comparison.render_report", lambda *_, **__: "")

    def run(path: str, **options: Any) -> int:
        progress = Count()
        viewgap.compare(
            path, methods=["label_frequency"], folds=3, out=out, progress=progress, **options
        )
        return progress.ran

    assert run(str(folder)) == 3
    assert run(str(folder)) == 0
    monkeypatch.chdir(tmp_path)
    assert run("patients") == 0  # the path is no part of a task
    assert run("patients", n_repeats=2) == 3
    assert run("patients", groups="groups.csv:family") == 3
    table = folder / "b.csv"
    table.write_text(table.read_text().rstrip() + "1\n")  # the last digit of the last value
    assert run("patients") == 3
    lines = (out / RECORDS).read_text().splitlines()
    assert len(lines) == 12


def test_groups_stay_together(folder: Path, tmp_path: Path) -> None:
    from viewgap.bench.run.execute import load_task_data, take_fold
    from viewgap.bench.run.task import Task
    from viewgap.bench.run.task_data import own_files

    source = own_files(str(folder), {"groups": f"{tmp_path / 'groups.csv'}:family"})
    fixed: dict[str, Any] = {"validation": "none", "cv": 4, "view_rate": 0.0, "label_rate": 0.0}
    tasks = [Task(method="label_frequency", fold=k, **fixed, **source) for k in range(4)]
    dataset = load_task_data(tasks[0])
    families = {f"p{i}": str(i // 3) for i in range(60)}
    assert dataset.groups is not None
    assert [families[sample] for sample in dataset.views.sample_ids] == dataset.groups.tolist()
    for task in tasks:
        fold = take_fold(dataset, task)
        assert not set(dataset.groups[fold.train]) & set(dataset.groups[fold.test])


@pytest.mark.slow
def test_processes_share_data_in_memory(data: Any) -> None:
    alone = viewgap.compare(*data, methods=FAST, folds=2)
    together = viewgap.compare(*data, methods=FAST, folds=2, n_jobs=2)
    assert [own.score for own in alone.scores] == [own.score for own in together.scores]


def test_a_method_that_fails_keeps_its_line(data: Any) -> None:
    methods: dict[str, dict[str, Any]] = {"label_frequency": {}, "scsd": {"device": "cuda:99"}}
    found = viewgap.compare(*data, methods=methods, folds=2)
    assert [(own.method, own.folds, own.failed) for own in found.scores] == [
        ("label_frequency", 2, 0),
        ("scsd", 0, 2),
    ]
    assert found.scores[1].score is None
    assert len(found.table().lines) == 2
    with pytest.raises(RunError, match="every fit failed; first: scsd, fold 0"):
        viewgap.compare(*data, methods={"scsd": {"device": "cuda:99"}}, folds=2)


def test_one_label_of_words(data: Any, tmp_path: Path) -> None:
    views, labels = data
    words = np.where(np.isnan(labels[:, 0]), None, np.where(labels[:, 0] == 1, "ill", "well"))
    found = viewgap.compare(views, words, methods=FAST, folds=3, out=tmp_path / "out")
    assert "macro AUC" in (tmp_path / "out" / "report.html").read_text()
    assert found.metric == "macro AUC"  # of the order of one label, nothing can be said
    assert "AP" not in found.records[0].metrics
    assert len(found.metrics_table().lines) == 2
    with pytest.raises(SettingError, match="the data have one label; use metric='macro AUC'"):
        viewgap.compare(views, words, methods=FAST, folds=3, metric="AP")
    seen = int((~np.isnan(labels[:, 0])).sum())
    assert (found.n_samples, found.n_left_out) == (seen, 60 - seen)
    assert "late_fusion_ridge" in found._repr_html_()


def test_gaps_are_added_only_where_asked(data: Any) -> None:
    found = viewgap.compare(*data, methods=["label_frequency"], folds=2, label_rate=0.5)
    assert {record.settings["label_rate"] for record in found.records} == {0.5}
    assert {record.settings["view_rate"] for record in found.records} == {0.0}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"metric": "auc"}, SettingError, "unknown metric 'auc'"),
        ({"methods": []}, SettingError, "no method"),
        ({"methods": ["nonsense"]}, SettingError, "unknown method 'nonsense'"),
        ({"methods": ["label_frequency"] * 2}, SettingError, "named twice"),
        ({"methods": {"label_frequency": {"alpha": 1}}}, SettingError, "no parameter 'alpha'"),
        ({"folds": 1}, SettingError, "cv must be 2"),
        ({"folds": 100}, SettingError, "100 folds need at least as many samples, found 59"),
        ({"groups": [1, 2]}, InputError, "one value per sample"),
        ({"groups": "groups.csv"}, SettingError, "are an array"),
        ({"labels": "labels.csv"}, SettingError, "is for data at a path"),
        ({"time_limit": "25"}, SettingError, "time_limit must be a length of time"),
        ({"view_rate": 1.0}, SettingError, "view_rate"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    data: Any, options: Any, error: Any, words: str
) -> None:
    with pytest.raises(error, match=words):
        viewgap.compare(*data, **{"methods": FAST, **options})


def test_wrong_sources_are_refused(data: Any, folder: Path, tmp_path: Path) -> None:
    views, labels = data
    with pytest.raises(LabelError, match="needs labels"):
        viewgap.compare(views)
    with pytest.raises(LabelError, match="y is for views in memory"):
        viewgap.compare(str(folder), labels)
    with pytest.raises(DataFileError, match="no such file or folder"):
        viewgap.compare(str(tmp_path / "absent"))
    with pytest.raises(InputError, match="no dataset named"):
        viewgap.compare("absent")
    with pytest.raises(SettingError, match="a named data set"):
        viewgap.compare("synthetic", groups="groups.csv")
    with pytest.raises(DataFileError, match="several columns"):
        viewgap.compare(str(folder), groups=str(tmp_path / "groups.csv"))
    with pytest.raises(DataFileError, match="no column 'x'"):
        viewgap.compare(str(folder), groups=f"{tmp_path / 'groups.csv'}:x")
    with pytest.raises(SettingError, match="5 folds need at least as many groups, found 1"):
        viewgap.compare(str(folder), groups=f"{tmp_path / 'groups.csv'}:site")
    (folder / "groups.csv").write_text((tmp_path / "groups.csv").read_text())
    with pytest.raises(InputError, match=r"column 'site', sample 'p0': expected a number"):
        viewgap.compare(str(folder), groups=f"{folder / 'groups.csv'}:family")
    (folder / "groups.csv").write_text((tmp_path / "groups.csv").read_text().replace(",s,", ",1,"))
    with pytest.raises(DataFileError, match="lies among the views"):
        viewgap.compare(str(folder), groups=f"{folder / 'groups.csv'}:family")
    (folder / "groups.csv").unlink()
    short = (tmp_path / "groups.csv").read_text().splitlines()[:-1]
    (tmp_path / "short.csv").write_text("\n".join(short) + "\n")
    with pytest.raises(DataFileError, match=r"1 of the 60 samples have no line \(p59\)"):
        viewgap.compare(str(folder), groups=f"{tmp_path / 'short.csv'}:family")
    (folder / "labels.csv").unlink()
    with pytest.raises(LabelError, match="holds no labels; give them with labels='FILE'"):
        viewgap.compare(str(folder))


def test_files_that_change_during_a_run_are_refused(folder: Path) -> None:
    from viewgap.datasets.own_files import fingerprint, read_own

    mark = fingerprint(str(folder))
    assert len(read_own(str(folder), sha256=mark)) == 60
    with (folder / "labels.csv").open("a") as file:
        file.write("p99,0,0,0\n")
    with pytest.raises(DataFileError, match="have changed since the run began"):
        read_own(str(folder), sha256=mark)
