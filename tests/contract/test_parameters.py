"""Wrong types and values of every parameter of every method are one SettingError that names it."""

from __future__ import annotations

import inspect
import math
from dataclasses import asdict, fields
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest

import viewgap.methods as methods
from viewgap.errors import RunError, SettingError
from viewgap.methods.base import MultiViewClassifier

NOT_FINITE = (math.nan, math.inf, -math.inf, np.float64("nan"))
NOT_A_NUMBER = ("x", "1", True, [1], {"a": 1}, object(), 1j)
WRONG: dict[Any, tuple[Any, ...]] = {
    int: (*NOT_A_NUMBER, *NOT_FINITE, 2.5, 0.0, np.float64(3)),
    float: (*NOT_A_NUMBER, *NOT_FINITE, -1, 1e39, 10**400),
    bool: ("yes", "true", 0, 1, 1.0, [True], object()),
    str: ("no such word", "", 5, True, ["mean"], object()),
    tuple: (64, "64", 2.5, [2.5, "x", 1.0], ["x"] * 3, [math.nan] * 3, [-1] * 3, {1: 2}, object()),
}
# Parameters without a type of their own in the settings: kind, and what else is wrong for them.
COMMON: dict[str, tuple[Any, ...]] = {
    "device": (*WRONG[str], None, "cpu:7", "gpu"),
    "methods": (5, "scsd", [], {}, [1], ["scsd", "scsd"], {"scsd": 5}, ["a"] * 101, object()),
    "nan": (*WRONG[str], None),
    "on_empty": (*WRONG[str], None),
    "precision": (*WRONG[str], None, ["highest"]),
    "profile": (*WRONG[str], None),
    "random_state": (-1, np.int64(-3), "a", 1.5, math.nan, True, [1, 2], object()),
    "validation_fraction": (*WRONG[float], None, 1.0),
    "callbacks": (5, "a", [1], {"a": 5.5}, object()),
    "verbose": ("yes", 0.5, -1, None, object()),
    "views": (5, "a", [1], {"a": 5.5}, object()),
    "n_jobs": (0, 1.5, "all", True),
    "max_features": ("all", 0, -1, 1.5, math.nan, True, [1]),
    "min_samples_leaf": (*NOT_A_NUMBER, *NOT_FINITE, 0, -1, 1.5, None),
    "penalties": (*WRONG[tuple], None, (), [0.0], np.ones((2, 2))),
}


def types(kind: type[MultiViewClassifier]) -> dict[str, Any]:
    """The declared types of the parameters: of the settings, or of the constructor."""
    settings = getattr(kind, "settings_type", None)
    return get_type_hints(kind.__init__ if settings is None else settings)


def wrong_values(kind: type[MultiViewClassifier], name: str) -> tuple[Any, ...]:
    if name in COMMON:
        return COMMON[name]
    declared = types(kind)[name]
    plain = get_origin(declared) or declared
    if plain not in WRONG:  # a type, or None
        plain = next(part for part in get_args(declared) if part in WRONG)
    return WRONG[plain]


def test_every_parameter_has_a_constraint(method: Any) -> None:
    kind = methods.get(method)
    assert set(kind._get_param_names()) <= set(kind._constraints())


def test_wrong_values_are_refused_before_the_data_is_looked_at(method: Any) -> None:
    kind = methods.get(method)
    for name in kind._get_param_names():
        for value in wrong_values(kind, name):
            model = kind(**{name: value})
            with pytest.raises(SettingError) as caught:
                model.fit(None, None)
            assert str(caught.value).startswith(f"{name} must be "), (name, value)
            assert ", found " in str(caught.value)
            assert not model.__sklearn_is_fitted__()


def test_numbers_below_their_range_are_refused(method: Any) -> None:
    kind = methods.get(method)
    for name, declared in types(kind).items():
        if declared in (int, float) and name in kind._get_param_names():
            with pytest.raises(SettingError, match=f"^{name} must be "):
                kind(**{name: declared(-1)}).fit(None, None)


def test_the_values_of_the_profiles_may_be_passed(method: Any) -> None:
    kind = methods.get(method)
    for name, default in inspect.signature(kind).parameters.items():
        kind(**{name: default.default})._check_parameters()
    for profile in getattr(kind, "profiles", ()):
        settings = kind(profile=profile)._resolve(5)
        for field in fields(settings):
            value = getattr(settings, field.name)
            kind(profile=profile, **{field.name: value})._check_parameters()
            if isinstance(value, float | int) and not isinstance(value, bool):
                kind(profile=profile, **{field.name: np.array([value])[0]})._check_parameters()
            if isinstance(value, tuple):
                kind(profile=profile, **{field.name: list(value)})._check_parameters()
                kind(profile=profile, **{field.name: np.array(value)})._check_parameters()


def test_every_policy_for_nan_may_be_passed(method: Any) -> None:
    for nan in ("mean", "error", "missing_view"):
        methods.get(method)(nan=nan)._check_parameters()


def test_settings_of_a_model_file_are_checked_in_the_same_way(method: Any) -> None:
    settings_type = getattr(methods.get(method), "settings_type", None)
    if settings_type is None:
        pytest.skip("this method has no settings besides its parameters")
    good = asdict(methods.get(method)()._resolve(5))
    for name in good:
        for value in wrong_values(methods.get(method), name):
            with pytest.raises(SettingError, match=f"^{name} must be "):
                settings_type(**{**good, name: value})


def test_settings_that_never_go_together_are_found_without_data(method: Any) -> None:
    kind = methods.get(method)
    clashes = {"scaling": "none", "features": "auto"}
    if not set(clashes) <= set(kind._get_param_names()):
        pytest.skip("this method prepares no features")
    with pytest.raises(SettingError, match="features must be 'plain' with scaling='none'"):
        kind(**clashes)._check_parameters()


@pytest.mark.base_class
@pytest.mark.parametrize(
    "seed",
    [
        lambda: np.random.RandomState(7),
        lambda: np.random.default_rng(7),
        lambda: 2**40,
    ],
    ids=["RandomState", "Generator", "large"],
)
def test_random_state_takes_what_scikit_learn_takes(
    make: Any, problem: Any, tools: Any, seed: Any
) -> None:
    if "random_state" not in make.known:
        pytest.skip("nothing of this method is random")
    models = [make(random_state=seed()).fit(problem.views(), problem.Y) for _ in range(2)]
    assert tools.bits(models[0]) == tools.bits(models[1])


@pytest.mark.base_class
def test_an_int_of_numpy_is_the_seed_that_it_stands_for(
    make: Any, problem: Any, fitted: Any, tools: Any
) -> None:
    if "random_state" not in make.known:
        pytest.skip("nothing of this method is random")
    model = make(random_state=np.int64(0)).fit(problem.views(), problem.Y)
    assert tools.bits(model) == tools.bits(fitted)


def test_a_fit_that_diverges_says_so(make: Any, problem: Any) -> None:
    if not {"learning_rate", "max_epochs"} <= make.known:
        pytest.skip("this method takes no gradient steps")
    model = make(learning_rate=1e30)
    try:
        model.fit(problem.views(), problem.Y)
    except RunError as error:
        message = str(error)
    else:  # saturated, and still numbers
        assert np.isfinite(model.predict_proba(problem.views())).all()
        return
    assert "training diverged in epoch" in message
    assert "lower learning_rate" in message
