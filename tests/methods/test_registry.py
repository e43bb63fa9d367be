"""A method is found where its file is, in this package or in another one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import viewgap
from viewgap import methods
from viewgap.cli import run
from viewgap.errors import SettingError

METHOD = '''
"""A method of a few lines."""

import numpy as np

from viewgap.methods.base import MultiViewClassifier
from viewgap.state import State


class {name}(MultiViewClassifier):
    """Always the same answer."""

    summary = "the same for everybody"

    def __init__(self, *, views=None, nan="mean", on_empty="error") -> None:
        self._store_parameters(locals())

    def _fit(self, views, labels, validation):
        """Nothing to learn."""

    def _predict_proba(self, views):
        return np.full((len(views), len(self.label_names_)), 0.25)

    def _get_state(self):
        return State()

    def _set_state(self, state):
        """Nothing to restore."""
'''


def install(folder: Path, name: str, value: str, source: str) -> None:
    """A distribution as pip leaves it: a module, and its metadata with an entry point."""
    (folder / f"{name}.py").write_text(source)
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[viewgap.methods]\n{name} = {value}\n")


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, "quarter_plugin", "quarter_plugin:Quarter", METHOD.format(name="Quarter"))
    monkeypatch.syspath_prepend(folder)
    return folder


def test_a_method_of_another_package_is_used_by_its_name(plugin: Path, tmp_path: Path) -> None:
    assert "quarter_plugin" in methods.names()
    model = methods.get("quarter_plugin")()
    assert "Parameters\n----------\nviews : " in (type(model).__doc__ or "")
    X, Y = [np.zeros((4, 2)), np.ones((4, 1))], np.eye(4)
    viewgap.save_model(model.fit(X, Y), tmp_path / "model")
    loaded = viewgap.load_model(tmp_path / "model")
    assert type(loaded) is type(model)
    assert np.array_equal(loaded.predict_proba(X), np.full((4, 4), 0.25))


@pytest.mark.usefixtures("plugin")
def test_the_command_line_knows_a_method_of_another_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "data.npz", a=np.zeros((4, 2)), labels=np.eye(4))
    assert run(["methods", "--json"]) == 0
    listed = {entry["method"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert listed["quarter_plugin"]["summary"] == "the same for everybody"
    data, model = str(tmp_path / "data.npz"), str(tmp_path / "model")
    assert run(["fit", data, "--method", "quarter_plugin", "--out", model]) == 0
    assert json.loads((tmp_path / "model" / "model.json").read_text())["method"] == "quarter_plugin"


def test_a_package_cannot_take_the_name_of_a_method_of_viewgap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "scsd", "scsd:Fake", METHOD.format(name="Fake"))
    monkeypatch.syspath_prepend(tmp_path)
    assert methods.get("scsd") is viewgap.SCSD


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise OSError('broken')", "cannot be imported: OSError: broken"),
        ("Sad = 5", "no subclass"),
    ],
)
def test_a_package_that_does_not_work_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    name = f"sad_plugin_{len(source)}"
    install(tmp_path, name, f"{name}:Sad", source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingError, match=message):
        methods.get(name)


def test_adding_a_method_is_adding_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "quarter_file.py").write_text(METHOD.format(name="QuarterFile"))
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    assert "quarter_file" in methods.names()
    assert viewgap.QuarterFile is methods.get("quarter_file")
    monkeypatch.delitem(sys.modules, "viewgap.methods.quarter_file")


def test_unknown_methods_are_refused_with_the_names_that_exist() -> None:
    with pytest.raises(SettingError, match=r"unknown method 'nonsense'; available: .*scsd"):
        methods.get("nonsense")
