"""scikit-learn's own checks, on the 2-D form: one array, with `views` telling the columns."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import check_estimator

import viewgap.methods as methods
from viewgap.methods.deep import DeepClassifier

SMALL = {
    "batch_size": 32,
    "codebook_size": 16,
    "components": 3,
    "device": "cpu",
    "draws": 2,
    "embedding": 8,
    "feed_forward": 16,
    "hidden": (16,),
    "layers": 1,
    "max_epochs": 6,
    "max_iter": 20,
    "n_estimators": 20,
    "n_networks": 1,
    "random_state": 0,
    "views": {"all": slice(None)},
    "wide": 8,
}
# Some learn little in few epochs; the data of the checks is easy to learn.
MORE: dict[str, dict[str, Any]] = {
    "ensemble": {
        "methods": {"late_fusion_ridge": {"features": "auto"}, "extra_trees": {"n_estimators": 5}}
    },
    "pcve": {"max_epochs": 5, "learning_rate": 0.03},
    "rank": {"max_epochs": 10, "learning_rate": 0.1},
    "dvsm": {"max_epochs": 10, "learning_rate": 0.03, "dropout": 0.0},
    "drls": {"learning_rate": 0.03, "ema_decay": 0.0},
    "joint_boosting": {"n_estimators": 5},  # learned thresholds decide as one half does
    "scsd": {"max_epochs": 10, "learning_rate": 0.01, "ema_decay": 0.0, "dropout": 0.0},
    "simm": {"max_epochs": 10, "learning_rate": 0.03},
    "sip": {"max_epochs": 10, "learning_rate": 0.03},
    "tdlsr": {"learning_rate": 0.03, "ema_decay": 0.0},
}
# Checks that a method cannot pass, and why. A listed check that passes is an error too.
LEARNED_THRESHOLDS = {
    "check_classifier_multioutput": "`predict` uses learned thresholds, not one half"
}
EXCEPTIONS: dict[str, dict[str, str]] = dict.fromkeys(
    ("ensemble", "extra_trees", "gradient_boosting", "joint_boosting", "scsd"), LEARNED_THRESHOLDS
)
QUICK = ("aimnet",)
# A network is fitted some eighty times for the checks, for which one epoch is enough. In the forms
# that scikit-learn has of them, these ask for more: the first that nearly all training rows are
# learned; the other fails where learned thresholds are far from one half.
OF_LEARNING: dict[str, tuple[dict[str, Any], ...]] = {
    "check_classifiers_train": (
        {},
        {"readonly_memmap": True},
        {"readonly_memmap": True, "X_dtype": "float32"},
    ),
    "check_classifier_multioutput": ({},),
}


def estimator(name: str, **more: Any) -> Any:
    kind = methods.get(name)
    settings = SMALL | MORE.get(name, {}) | more
    return kind(**{key: value for key, value in settings.items() if key in kind._get_param_names()})


def cases() -> list[Any]:
    slow = {n for n in methods.names() if issubclass(methods.get(n), DeepClassifier)} - {*QUICK}
    return [pytest.param(n, marks=pytest.mark.slow if n in slow else ()) for n in methods.names()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", cases())
def test_every_check_passes_or_is_a_known_exception(name: str) -> None:
    known = EXCEPTIONS.get(name, {})
    apart = OF_LEARNING if issubclass(methods.get(name), DeepClassifier) else {}
    results = check_estimator(
        estimator(name, max_epochs=1),
        expected_failed_checks=known | dict.fromkeys(apart, "asked with more epochs"),
        on_skip=None,
        on_fail=None,
    )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    expected = {r["check_name"] for r in results if r["status"] == "xfail"}
    assert expected - {*apart} == {*known} - {*apart}
    for check, forms in apart.items():
        for form in forms:
            with pytest.raises(AssertionError) if check in known else nullcontext():
                getattr(estimator_checks, check)(name, estimator(name), **form)
    assert sum(r["status"] == "passed" for r in results) > 50


def test_tags_tell_the_truth(method: Any) -> None:
    kind = methods.get(method)
    tags = get_tags(kind())
    assert tags.estimator_type == "classifier"
    assert tags.classifier_tags.multi_label
    assert not tags.classifier_tags.multi_class
    assert tags.target_tags.required
    assert tags.target_tags.multi_output
    assert tags.input_tags.sparse
    assert tags.input_tags.allow_nan
    assert not get_tags(kind(nan="error")).input_tags.allow_nan
