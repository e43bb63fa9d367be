"""`import viewgap` is light, and every public name is there."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import viewgap

HEAVY = (
    "torch",
    "sklearn",
    "pandas",
    "scipy",
    "numpy",
    "typer",
    "rich",
    "jinja2",
    "joblib",
    "lightgbm",
)


def modules_after(statement: str) -> set[str]:
    code = f"import sys, json\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_is_light() -> None:
    assert not modules_after("import viewgap") & set(HEAVY)


def test_help_is_light() -> None:
    loaded = modules_after("from viewgap.cli import run\nassert run(['fit', '--help']) == 0")
    assert not loaded & {"torch", "sklearn", "pandas", "scipy", "numpy", "joblib", "lightgbm"}


def test_help_of_tune_is_light() -> None:
    loaded = modules_after("from viewgap.cli import run\nassert run(['tune', '--help']) == 0")
    assert not loaded & {"optuna", "torch", "sklearn", "pandas", "scipy", "numpy"}


def test_reading_the_method_names_is_light() -> None:
    loaded = modules_after("from viewgap import methods\nassert methods.names()")
    assert not loaded & {"torch", "sklearn"}


@pytest.mark.parametrize("name", viewgap.__all__)
def test_public_names_exist(name: str) -> None:
    assert getattr(viewgap, name) is not None
    assert name in dir(viewgap)


@pytest.mark.parametrize("name", ["data", "datasets", "methods", "metrics", "model_selection"])
def test_packages_are_attributes_after_the_import_of_viewgap(name: str) -> None:
    code = f"import viewgap\nassert {name!r} in dir(viewgap)\nprint(viewgap.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"viewgap.{name}"]


@pytest.mark.parametrize("name", ["Nonsense", "nonsense", "scsd", "Scsd", "_private"])
def test_unknown_names_are_attribute_errors(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(viewgap, name)


def test_version_is_the_installed_one() -> None:
    assert viewgap.__version__[0].isdigit()
