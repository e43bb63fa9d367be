"""The written constructor, the settings and the docstring of every method agree."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, get_args, get_origin, get_type_hints

import pytest

import viewgap.methods as methods
from viewgap.methods.deep import DeepClassifier
from viewgap.training.settings import DeepSettings

BEFORE = ["profile", "random_state"]
AFTER = ["views", "nan", "on_empty"]


def parameters(method: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(methods.get(method)).parameters)


# Their parameters may be passed by position, too, in this order.
BY_POSITION = {
    "imputed_logistic": ["C", "max_iter", *AFTER],
    "label_frequency": AFTER,
    "late_fusion_ridge": ["penalties", "random_state", *AFTER, "features"],
    "random_forest": [
        "n_estimators",
        "min_samples_leaf",
        "max_features",
        "random_state",
        "n_jobs",
        *AFTER,
    ],
}


@pytest.mark.parametrize("name", BY_POSITION)
def test_baselines_take_their_parameters_by_position(name: str) -> None:
    values = [f"value of {parameter}" for parameter in BY_POSITION[name]]
    model: Any = methods.get(name)
    assert model(*values).get_params() == dict(zip(BY_POSITION[name], values, strict=True))


def test_every_parameter_of_a_published_method_is_passed_by_name(method: Any) -> None:
    kinds = {parameter.kind for parameter in parameters(method).values()}
    by_position = inspect.Parameter.POSITIONAL_OR_KEYWORD
    expected = by_position if method in BY_POSITION else inspect.Parameter.KEYWORD_ONLY
    assert kinds == {expected}


def test_every_parameter_has_a_default_and_a_type(method: Any) -> None:
    for parameter in parameters(method).values():
        assert parameter.default is not parameter.empty
        assert parameter.annotation is not parameter.empty


def test_the_settings_are_the_parameters_left_to_the_profile(method: Any) -> None:
    kind = methods.get(method)
    settings_type = getattr(kind, "settings_type", None)
    if settings_type is None:
        pytest.skip("this method has no profiles")
    deep = issubclass(kind, DeepClassifier)
    shared = [f.name for f in fields(DeepSettings)] if deep else []
    own = [f.name for f in fields(settings_type) if f.name not in shared]
    before = [*BEFORE, "device", "precision"] if deep else BEFORE
    after = ["validation_fraction", *AFTER, "callbacks", "verbose"] if deep else AFTER
    found = list(parameters(method))
    assert [name for name in found if name not in shared] == [*before, *own, *after]
    assert set(shared) <= set(found)
    assert all(parameters(method)[name].default is None for name in own + shared)


def test_the_types_of_the_settings_are_those_of_the_parameters(method: Any) -> None:
    kind = methods.get(method)
    settings = get_type_hints(getattr(kind, "settings_type", object))
    for name, found in get_type_hints(kind.__init__).items():
        if name not in settings or name not in parameters(method):
            continue
        expected = settings[name]
        if get_origin(expected) is tuple:
            expected = Sequence[get_args(expected)[0]]  # type: ignore[misc]
        assert found == expected | None, name


def test_every_parameter_is_described_with_the_values_of_the_profiles(method: Any) -> None:
    kind = methods.get(method)
    text = inspect.getdoc(kind) or ""
    section = text.partition("Parameters\n----------\n")[2].partition("\nAttributes\n----------")[0]
    entries = [line.partition(" : ")[0] for line in section.splitlines() if " : " in line]
    assert entries == list(parameters(method))
    lines = section.splitlines()
    for name in entries:
        at = next(i for i, line in enumerate(lines) if line.startswith(f"{name} : "))
        assert lines[at + 1].startswith("    "), name
    for profile in getattr(kind, "profiles", ()):
        assert profile in section.lower()


def test_every_fitted_attribute_of_the_contract_is_described(method: Any) -> None:
    text = inspect.getdoc(methods.get(method)) or ""
    attributes = text.partition("Attributes\n----------\n")[2]
    for name in ("view_names_", "label_names_", "n_features_in_", "classes_"):
        assert f"{name} : " in attributes


def test_repr_shows_the_profile_and_what_differs_from_it(method: Any) -> None:
    kind = methods.get(method)
    if "profile" not in parameters(method):
        assert repr(kind(nan="error")) == f"{kind.__name__}(nan='error')"
    else:
        assert repr(kind()) == f"{kind.__name__}(profile='default')"
        shown = repr(kind(profile="paper", nan="error"))
        assert shown == f"{kind.__name__}(profile='paper', nan='error')"
