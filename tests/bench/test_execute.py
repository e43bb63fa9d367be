from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import f1_score, roc_auc_score

from viewgap import LateFusionRidge, metrics
from viewgap.bench.analyse.summary import summarise
from viewgap.bench.run.execute import (
    build_method,
    fit_task,
    make_method,
    measure_again,
    run_task,
    scaled_on_all_rows,
)
from viewgap.bench.run.task import VALIDATION, Task
from viewgap.data.splits import Fold
from viewgap.data.viewset import ViewSet
from viewgap.datasets import dataset as dataset_module
from viewgap.datasets import load_dataset
from viewgap.errors import SettingError
from viewgap.methods.scsd import SCSD
from viewgap.metrics.evaluation import field_metrics

pytestmark = pytest.mark.slow


def test_a_record_is_the_measurement_of_the_test_rows(tiny_dataset: str, trained: Any) -> None:
    task = Task(tiny_dataset, "late_fusion_ridge", fold=1)
    fitted = fit_task(task)
    record = fitted.record
    assert (record.dataset, record.method, record.fold, record.task) == (
        "tiny",
        "late_fusion_ridge",
        1,
        task.id,
    )
    assert len(fitted.probabilities) == len(fitted.fold.test)
    assert record.settings["view_rate"] == 0.5
    assert record.provenance["device"] == "cpu"
    floor = run_task(Task(tiny_dataset, "label_frequency", fold=1))
    trained.above(record.metrics["AP"] - floor.metrics["AP"], 0.0, "AP above the floor")


def test_a_task_gives_the_same_numbers_again(tiny_dataset: str) -> None:
    task = Task(tiny_dataset, "scsd", params={"max_epochs": 2, "embedding": 16})
    first, second = run_task(task), run_task(task)
    assert first.metrics == second.metrics
    assert first.epochs == 2


def test_one_fit_can_be_measured_at_other_rates(tiny_dataset: str) -> None:
    few, many = (Task(tiny_dataset, "late_fusion_ridge", test_view_rate=r) for r in (0.1, 0.5))
    fitted = fit_task(few)
    again = measure_again(fitted, many)
    alone = run_task(many)
    assert again.metrics == alone.metrics
    assert again.labels == alone.labels
    assert (again.task, again.settings) == (alone.task, alone.settings)
    assert again.metrics != fitted.record.metrics
    usual = Task(tiny_dataset, "late_fusion_ridge")
    assert measure_again(fitted, usual).metrics == run_task(usual).metrics


@pytest.mark.parametrize("other", [{"fold": 1}, {"view_rate": 0.3}, {"params": {"alpha": 2.0}}])
def test_a_fit_is_not_measured_for_another_training(
    tiny_dataset: str, other: dict[str, Any]
) -> None:
    fitted = fit_task(Task(tiny_dataset, "late_fusion_ridge", test_view_rate=0.2))
    task = Task(tiny_dataset, "late_fusion_ridge", **other, test_view_rate=0.6)
    with pytest.raises(SettingError, match="only test_view_rate may differ"):
        measure_again(fitted, task)


def test_without_the_validation_rows_a_method_holds_out_training_rows(tiny_dataset: str) -> None:
    params = {"max_epochs": 2, "embedding": 16}
    fitted = fit_task(Task(tiny_dataset, "scsd", params=params, validation="none"))
    model = SCSD(random_state=1, **params).fit(*fitted.split.train)
    np.testing.assert_array_equal(fitted.probabilities, model.predict_proba(fitted.split.test[0]))
    usual = fit_task(Task(tiny_dataset, "scsd", params=params))
    assert not np.array_equal(fitted.probabilities, usual.probabilities)


def test_rows_with_and_without_validation_rows_are_told_apart(tiny_dataset: str) -> None:
    params = {"max_epochs": 1, "embedding": 16}
    tasks = [Task(tiny_dataset, "scsd", params=params, validation=v) for v in VALIDATION]
    assert [row.title for row in summarise([run_task(task) for task in tasks])] == [
        "scsd",
        'scsd [validation="none"]',
    ]


def test_folds_differ(tiny_dataset: str) -> None:
    folds = [fit_task(Task(tiny_dataset, "label_frequency", fold=k)).fold for k in range(2)]
    assert not np.array_equal(folds[0].test, folds[1].test)


def test_unknown_parameters_and_profiles_are_refused() -> None:
    with pytest.raises(SettingError, match="label_frequency has no parameter 'alpha'"):
        build_method(Task("tiny", "label_frequency", params={"alpha": 1}))
    with pytest.raises(SettingError, match="has no profiles"):
        build_method(Task("tiny", "label_frequency", profile="paper"))


def test_seed_profile_and_scaling_reach_the_method() -> None:
    task = Task("tiny", "scsd", profile="paper", seed=7, scale_on="all", params={"alpha": 0.5})
    params = build_method(task, verbose=True).get_params()
    assert params["random_state"] == 7
    assert params["profile"] == "paper"
    assert params["scaling"] == "none"
    assert params["alpha"] == 0.5
    assert params["verbose"] is True
    assert build_method(Task("tiny", "scsd")).get_params()["scaling"] is None


def test_a_given_parameter_wins_over_an_automatic_one() -> None:
    model = make_method("scsd", "default", {"random_state": 3}, {"random_state": 1, "other": 2})
    assert model.get_params()["random_state"] == 3


def test_scaling_on_all_rows_reads_rows_which_a_fold_hides() -> None:
    values = np.arange(12, dtype=np.float64).reshape(6, 2) ** 2
    views = ViewSet({"a": values, "b": np.ones((6, 1))})
    scaled = scaled_on_all_rows(views)
    expected = (values - values.mean(axis=0)) / values.std(axis=0)
    np.testing.assert_allclose(scaled.rows("a"), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(scaled.rows("b"), 0.0)
    assert scaled.stored("a").dtype == np.float32


def test_scaling_on_all_rows_refuses_sparse_views() -> None:
    views = ViewSet({"text": sparse.csr_array(np.eye(4))})
    with pytest.raises(SettingError, match="'text' is sparse"):
        scaled_on_all_rows(views)


def test_the_paper_scaling_changes_what_the_method_sees(tiny_dataset: str) -> None:
    fitted = fit_task(Task(tiny_dataset, "label_frequency", scale_on="all"))
    train = fitted.split.train[0]
    assert abs(float(train.rows("first")[train.observed[:, 0]].mean())) < 1
    raw = fit_task(Task(tiny_dataset, "label_frequency")).split.train[0]
    assert float(raw.rows("first")[raw.observed[:, 0]].mean()) > 2


def test_a_device_is_no_part_of_the_task_and_no_override() -> None:
    task = Task("tiny", "scsd")
    assert build_method(task, device="cuda:1").get_params()["device"] == "cuda:1"
    assert build_method(task).get_params()["device"] == "auto"
    own = Task("tiny", "scsd", params={"device": "cpu"})
    assert build_method(own, device="cuda:1").get_params()["device"] == "cpu"
    build_method(Task("tiny", "label_frequency"), device="cuda:1")  # has no such parameter


def test_test_rows_can_miss_other_views_than_training_rows(tiny_dataset: str) -> None:
    def fold_of(fold: int, **changes: float) -> Fold:
        task = Task(tiny_dataset, "label_frequency", fold=fold, view_rate=0.3, **changes)
        return fit_task(task).fold

    plain, moved = fold_of(1), fold_of(1, test_view_rate=0.5)
    for part in ("train", "validation", "test"):
        np.testing.assert_array_equal(getattr(plain, part), getattr(moved, part))
    np.testing.assert_array_equal(plain.label_mask, moved.label_mask)
    kept = np.concatenate([plain.train, plain.validation])
    np.testing.assert_array_equal(plain.view_mask[kept], moved.view_mask[kept])
    test = moved.view_mask[moved.test]
    assert (~test).sum(axis=0).tolist() == [len(test) // 2] * 2
    assert test.any(axis=1).all()
    np.testing.assert_array_equal(test, fold_of(1, test_view_rate=0.5).view_mask[moved.test])
    other = fold_of(2, test_view_rate=0.5)
    assert not np.array_equal(test, other.view_mask[other.test])


def test_a_record_has_every_registered_metric_and_figures_per_label(tiny_dataset: str) -> None:
    fitted = fit_task(Task(tiny_dataset, "late_fusion_ridge"))
    truth, chances = fitted.split.test[1], fitted.probabilities
    decisions = np.asarray(fitted.model.predict(fitted.split.test[0]))
    found = fitted.record.metrics
    assert list(found) == [metric.name for metric in metrics.registered_metrics()]
    six = field_metrics(truth, chances)
    assert {name: found[name] for name in metrics.SIX} == six
    assert found["macro F1"] == pytest.approx(f1_score(truth, decisions, average="macro"))
    assert found["micro F1"] == pytest.approx(f1_score(truth, decisions, average="micro"))
    assert found["macro AUC"] == pytest.approx(roc_auc_score(truth, chances, average="macro"))
    assert found["calibration error"] == metrics.calibration_error(truth, chances)
    assert found["beyond chance"] == metrics.excess_calibration_error(truth, chances)
    labels = fitted.record.labels
    assert labels["positives"] == truth.sum(axis=0).tolist()
    expected = [row["AP"] for row in metrics.per_label_report(truth, chances)]
    assert labels["AP"] == pytest.approx(expected, abs=5.1e-5)
    errors = metrics.calibration_error_per_label(truth, chances)
    assert labels["calibration error"] == pytest.approx(errors, abs=5.1e-5)


def test_a_task_draws_its_fold_and_predicts_its_test_rows_once(
    tiny_dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    predicted: list[int] = []
    draw = dataset_module.make_fold
    predict = LateFusionRidge._predict_proba

    def count_fold(*args: Any, seed: int, **options: Any) -> Fold:
        drawn.append(seed)
        return draw(*args, seed=seed, **options)

    def count_rows(self: LateFusionRidge, views: ViewSet) -> Any:
        predicted.append(len(views))
        return predict(self, views)

    monkeypatch.setattr(dataset_module, "make_fold", count_fold)
    monkeypatch.setattr(LateFusionRidge, "_predict_proba", count_rows)
    fitted = fit_task(Task(tiny_dataset, "late_fusion_ridge", fold=4))
    assert drawn == [4]
    assert predicted == [len(fitted.fold.test)]


def test_the_fold_of_a_task_is_that_of_the_data_set(tiny_dataset: str) -> None:
    fold = fit_task(Task(tiny_dataset, "label_frequency", fold=2)).fold
    expected = load_dataset(tiny_dataset).folds(3)[2]
    for name in ("train", "validation", "test", "view_mask", "label_mask"):
        np.testing.assert_array_equal(getattr(fold, name), getattr(expected, name))
