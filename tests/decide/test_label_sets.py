"""Label sets: the risk holds, unknown stays possible, files belong to one model."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.decide.losses import Design, row_losses
from viewgap.decide.out_of_fold import cross_fitted
from viewgap.decide.risk_control import RISKS, accepted_threshold, decisions
from viewgap.errors import DataFileError, SettingError, ViewgapWarning


@pytest.fixture(scope="module")
def data():
    return viewgap.load_dataset("synthetic", n_samples=400, seed=0)


@pytest.fixture(scope="module")
def model(data):
    return viewgap.LateFusionRidge().fit(data.views[:150], data.labels[:150])


@pytest.mark.parametrize("risk", RISKS)
def test_the_promised_risk_holds_in_most_draws(risk: str) -> None:
    rng = np.random.default_rng(0)
    proba = rng.random((20_000, 4))
    truth = rng.random(proba.shape) < proba**2
    complete = Design.of(np.ones_like(truth))
    broken = 0
    for _ in range(60):
        rows = rng.choice(len(proba), 200)
        own = Design.of(np.ones((200, 4), dtype=bool))
        found = accepted_threshold(risk, proba[rows], truth[rows], own, 0.2, 0.1)
        if found is not None:
            decided = decisions(risk, found, proba)
            broken += row_losses(risk, *decided, truth, complete)[0].mean() > 0.2
    assert broken <= 15  # six are expected at most


def test_losses_equal_a_loop() -> None:
    rng = np.random.default_rng(1)
    proba, truth, seen = rng.random((50, 5)), rng.random((50, 5)) < 0.4, rng.random((50, 5)) < 0.7
    expected = []
    for p, t, o in zip(proba, truth, seen, strict=True):
        own = [p[j] <= 0.3 for j in range(5) if t[j] and o[j]]
        if own:
            expected.append(sum(own) / len(own))
    nothing = np.zeros_like(truth)
    found, _ = row_losses("missed positives", proba <= 0.3, nothing, truth, Design.of(seen))
    assert found == pytest.approx(expected)


def test_a_label_without_positives_is_never_ruled_out(data, model) -> None:
    labels = np.array(data.labels[150:], dtype=float)
    labels[labels[:, 0] == 1, 0] = np.nan
    sets = viewgap.LabelSets(model).calibrate(data.views[150:], labels)
    decided = sets.predict(data.views[150:])
    assert (decided.iloc[:, 0] == "possible").all()
    assert (decided.iloc[:, 1:] == "ruled out").any().any()


def test_saved_sets_answer_alike_and_only_for_their_model(data, model, tmp_path: Path) -> None:
    sets = viewgap.LabelSets(model, risk="coverage").calibrate(data.views[150:], data.labels[150:])
    sets.save(tmp_path / "sets.json")
    again = viewgap.LabelSets.load(tmp_path / "sets.json", model)
    assert again.predict(data.views[:9]).equals(sets.predict(data.views[:9]))
    other = viewgap.LateFusionRidge().fit(data.views[:99], data.labels[:99])
    with pytest.raises(DataFileError, match="another model"):
        viewgap.LabelSets.load(tmp_path / "sets.json", other)


def test_levels_and_risks_are_checked(model) -> None:
    with pytest.raises(SettingError):
        viewgap.LabelSets(model, risk="recall")
    with pytest.raises(SettingError):
        viewgap.LabelSets(model, target_level=1.0)


# ------------------------------------------------------------------ patterns, training rows


def test_thresholds_of_a_pattern_come_from_rows_hidden_to_match_it(data, model) -> None:
    """Beside a loop: rows that have the views, with the others hidden."""
    rows = np.arange(150, 400)
    observed = np.random.default_rng(1).random((250, data.views.n_views)) < 0.7
    observed[~observed.any(axis=1), 0] = True
    views = data.views[rows].with_observed(data.views.observed[rows] & observed)
    sets = viewgap.LabelSets(model, target_level=0.8).calibrate(views, data.labels[rows])
    pattern = np.array([True] * 2 + [False] * (views.n_views - 2))
    own = np.flatnonzero(views.observed[:, :2].all(axis=1))
    hidden = views[own].with_observed(np.tile(pattern, (len(own), 1)))
    proba = np.asarray(model.predict_proba(hidden))
    truth = np.asarray(data.labels, dtype=float)[rows][own] == 1
    found = accepted_threshold(
        "missed positives", proba, truth, Design.of(np.ones_like(truth)), 1 - 0.8, 1 - 0.9
    )
    sets.predict(hidden)
    table = sets.tables["".join(str(int(flag)) for flag in pattern)]
    assert table.n_rows == len(own)
    assert set(table.lower) <= {found, None}
    assert found in table.lower


def test_a_pattern_never_seen_has_no_rows_and_decides_nothing(data, model) -> None:
    n_views = data.views.n_views
    only_first = np.tile([True] + [False] * (n_views - 1), (250, 1))
    views = data.views[150:].with_observed(only_first)
    sets = viewgap.LabelSets(model, risk="coverage").calibrate(views, data.labels[150:])
    decided = sets.predict(data.views[150:160])
    assert (decided == "possible").all().all()
    assert sets.summary()["n_rows"].tolist() == [0] * len(model.label_names_)


def test_a_sample_without_views_and_a_label_never_observed_stay_possible(data) -> None:
    labels = np.array(data.labels, dtype=float)
    labels[:150, 3] = np.nan
    with pytest.warns(ViewgapWarning, match="never observed"):
        model = viewgap.LateFusionRidge().fit(data.views[:150], labels[:150])
    sets = viewgap.LabelSets(model, risk="coverage", target_level=0.5)
    sets.calibrate(data.views[150:], labels[150:])
    nothing = data.views[:3].with_observed(np.zeros((3, data.views.n_views), dtype=bool))
    assert (sets.predict(nothing) == "possible").all().all()
    decided = sets.predict(data.views[150:])
    assert (decided.iloc[:, 3] == "possible").all()
    assert (decided != "possible").any().any()


def test_training_rows_are_warned_of_and_taken_out_of_fold(data, model) -> None:
    with pytest.warns(ViewgapWarning, match="calibrate_out_of_fold"):
        viewgap.LabelSets(model).calibrate(data.views[:150], data.labels[:150])
    sets = viewgap.LabelSets(model, target_level=0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ViewgapWarning)
        sets.calibrate(data.views[150:], data.labels[150:])
        sets.calibrate_out_of_fold(data.views[:150], data.labels[:150], cv=3)
    assert sets.out_of_fold
    assert "no worse" in sets.assumption
    assert sets.summary()["n_rows"].iloc[0] == 150
    assert (sets.predict(data.views[150:]) == "ruled out").any().any()
    with pytest.warns(ViewgapWarning, match="do not look like"):
        sets.calibrate_out_of_fold(data.views[150:], data.labels[150:], cv=2)
    with pytest.raises(SettingError, match="cv"):
        sets.calibrate_out_of_fold(data.views[:150], data.labels[:150], cv=1)


def test_out_of_fold_answers_come_from_models_without_the_row(data, model) -> None:
    parts = cross_fitted(model, data.views[:150], as_labels_of(data, model), 3)
    assert sorted(np.concatenate([own.sample_ids for _, own, _ in parts])) == sorted(
        data.views[:150].sample_ids
    )
    for fold, own, labels in parts:
        assert fold.n_samples_fit_ == 150 - len(own)
        assert len(labels) == len(own)


def as_labels_of(data, model):
    from viewgap.data.validation import as_labels

    return as_labels(data.labels[:150], data.views[:150], model.label_names_)


# ------------------------------------------------------------------ each label, measured


def test_rare_labels_get_wider_sets_with_a_promise_for_each(data, model) -> None:
    labels = np.array(data.labels[150:], dtype=float)
    rows = np.flatnonzero(labels[:, 0] == 1)
    labels[rows[15:], 0] = np.nan  # .9 ** 15 is more than .1: nothing can be said
    sets = viewgap.LabelSets(model, per_label=True).calibrate(data.views[150:], labels)
    summary = sets.summary().set_index("label")
    assert np.isnan(summary["lower"].iloc[0])
    assert summary["n_positives"].iloc[0] == 15
    known = summary[summary["n_positives"] > 60]["lower"]
    assert known.notna().all()
    with pytest.raises(SettingError, match="per_label"):
        viewgap.LabelSets(model, risk="coverage", per_label=True)


@pytest.mark.parametrize("per_label", [False, True])
def test_evaluate_is_the_mean_loss_of_the_answers(data, model, per_label: bool) -> None:
    own, test = slice(150, 300), slice(300, 400)
    sets = viewgap.LabelSets(model, per_label=per_label, target_level=0.7)
    sets.calibrate(data.views[own], data.labels[own])
    found = sets.evaluate(data.views[test], data.labels[test])
    ruled = sets.predict(data.views[test]).to_numpy() == "ruled out"
    truth = np.asarray(data.labels[test]) == 1
    full = found[found["pattern"] == "1" * data.views.n_views]
    rows = data.views[test].observed.all(axis=1)
    assert rows.any()
    if per_label:
        expected = (ruled & truth)[rows].sum(axis=0) / truth[rows].sum(axis=0)
        assert full["loss"].to_numpy() == pytest.approx(expected)
    else:
        some = rows & truth.any(axis=1)
        expected = (ruled & truth)[some].sum(axis=1) / truth[some].sum(axis=1)
        assert full["loss"].iloc[0] == pytest.approx(expected.mean())
    assert (found["low"] <= found["loss"]).all()
    assert (found["loss"] <= found["high"]).all()
    assert not found["broken"].any()


def test_an_interval_is_that_of_the_binomial() -> None:
    from scipy.stats import binomtest

    from viewgap.decide.measured import interval

    exact = binomtest(7, 90).proportion_ci(0.95, method="exact")
    low, high = interval(7 / 90, 90)
    assert low <= exact.low
    assert exact.high <= high <= exact.high + 0.06
    assert interval(0.0, 20)[0] == 0.0
    assert interval(1.0, 20)[1] == 1.0
    assert np.isnan(interval(0.0, 0)).all()


# ------------------------------------------------------------------ files, models


def stored(data, model, path: Path) -> dict[str, Any]:
    sets = viewgap.LabelSets(model).calibrate(data.views[150:], data.labels[150:])
    sets.save(path, ["1" * data.views.n_views])
    return json.loads(path.read_bytes())


def test_damaged_files_are_refused_before_anything_is_answered(data, model, tmp_path) -> None:
    file = tmp_path / "sets.json"
    content = stored(data, model, file)
    [(pattern, table)] = content["patterns"].items()
    wrong = [
        {"patterns": {pattern: table | {"lower": [float("nan")] * 12}}},
        {"patterns": {pattern: table | {"lower": [2.0] * 12}}},
        {"patterns": {pattern: table | {"lower": table["lower"][1:]}}},
        {"patterns": {pattern: table | {"n_rows": -1}}},
        {"patterns": {pattern: table | {"n_effective": "many"}}},
        {"patterns": {"../..": table}},
        {"patterns": [table]},
        {"risk": "all"},
        {"target_level": 7.0},
        {"per_label": 1},
        {"nan": "zero"},
        {"out_of_fold": None},
        {"format": "something"},
    ]
    for change in wrong:
        file.write_text(json.dumps(content | change))
        with pytest.raises(DataFileError, match=r"sets\.json"):
            viewgap.LabelSets.load(file, model)
    whole = json.dumps(content)
    for end in range(0, len(whole) - 1, 97):
        file.write_text(whole[:end])
        with pytest.raises(DataFileError, match=r"sets\.json"):
            viewgap.LabelSets.load(file, model)
    file.write_bytes(b"\x80\x04cposix\nsystem\n")
    with pytest.raises(DataFileError, match=r"sets\.json: no file of label sets.*no JSON"):
        viewgap.LabelSets.load(file, model)
    for version, words in ((9, "newer"), (1, "calibrate anew")):
        file.write_text(json.dumps(content | {"format": f"viewgap label sets {version}"}))
        with pytest.raises(DataFileError, match=words):
            viewgap.LabelSets.load(file, model)


def test_a_pattern_that_was_not_saved_is_refused(data, model, tmp_path: Path) -> None:
    stored(data, model, tmp_path / "sets.json")
    sets = viewgap.LabelSets.load(tmp_path / "sets.json", model)
    less = np.tile([False] + [True] * (data.views.n_views - 1), (5, 1))
    with pytest.raises(SettingError, match="only the views"):
        sets.predict(data.views[:5].with_observed(less))
    with pytest.raises(SettingError, match="times 0 or 1"):
        sets.save(tmp_path / "sets.json", ["12"])


def test_models_that_no_promise_can_be_made_for_are_refused(data) -> None:
    one = viewgap.LateFusionRidge().fit(data.views, np.asarray(data.labels)[:, 0])
    with pytest.raises(SettingError, match="1-D y"):
        viewgap.LabelSets(one)
    with pytest.raises(viewgap.errors.ViewgapError, match="not fitted"):
        viewgap.LabelSets(viewgap.LateFusionRidge())
    batch = viewgap.LateFusionRidge().fit(data.views, data.labels)
    batch.settings_ = SimpleNamespace(prediction="batch")
    with pytest.raises(SettingError, match="beside each other"):
        viewgap.LabelSets(batch)
