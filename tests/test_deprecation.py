"""Old names of parameters keep working for one release, with a warning that names the new one."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import viewgap
from viewgap import model_folder
from viewgap.bench.results.record import Record
from viewgap.bench.run.execute import make_method
from viewgap.cli import run
from viewgap.deprecation import RENAMED_PARAMETERS
from viewgap.errors import SettingError, ViewgapDeprecationWarning
from viewgap.metrics import SIX

VALUES = {"clip": 0.5, "weight_average": 0.9, "members": 2, "fusion_statistics": "train"}
NEW_VALUES = {**VALUES, "fusion_statistics": "network"}
SMALL = {"hidden": (8,), "embedding": 8, "codebook_size": 4, "max_epochs": 1, "device": "cpu"}
RNG = np.random.default_rng(0)
X, Y = {"a": RNG.normal(size=(30, 4))}, (RNG.random((30, 2)) > 0.5).astype(float)


@pytest.mark.parametrize(("old", "new"), RENAMED_PARAMETERS.items())
def test_constructor_and_set_params_take_the_old_name(old: str, new: str) -> None:
    with pytest.warns(ViewgapDeprecationWarning, match=f"{old} is now called {new}") as caught:
        model = viewgap.SCSD(**{old: VALUES[old]})
    assert caught[0].filename == __file__
    with pytest.warns(ViewgapDeprecationWarning, match=f"{old} is now called {new}") as caught:
        later = viewgap.SCSD().set_params(**{old: VALUES[old]})
    assert caught[0].filename == __file__
    assert getattr(model, new) == getattr(later, new) == NEW_VALUES[old]
    assert old not in clone(model).get_params()


def test_the_warning_is_a_future_warning_that_users_see() -> None:
    assert issubclass(ViewgapDeprecationWarning, FutureWarning)


def test_both_names_at_once_are_refused() -> None:
    with pytest.raises(SettingError, match="clip is the old name of max_grad_norm"):
        viewgap.SCSD(clip=0.1, max_grad_norm=0.2)


def test_a_method_without_the_parameter_refuses_the_old_name() -> None:
    with pytest.raises(TypeError, match="clip"):
        viewgap.RandomForest(clip=0.1)


def test_parameters_of_a_config_take_the_old_name() -> None:
    with pytest.warns(ViewgapDeprecationWarning):
        model = make_method("mtd", "default", {"clip": 0.5}, {})
    assert model.get_params()["max_grad_norm"] == 0.5


def test_records_are_read_under_the_new_names() -> None:
    plain: dict[str, Any] = {
        "dataset": "d",
        "method": "scsd",
        "profile": "default",
        "fold": 0,
        "seed": 1,
        "metrics": dict.fromkeys(SIX, 0.5),
        "seconds": 1.0,
        "variant": "field",
        "epochs": None,
        "cell": "",
        "settings": {"params": {"members": 2, "alpha": 0.1}},
        "provenance": {},
        "details": {},
    }
    assert Record.from_dict(plain).settings["params"] == {"n_networks": 2, "alpha": 0.1}


def test_the_command_line_takes_the_old_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "data.npz", a=X["a"], labels=Y)
    options = [f"--set={name}={json.dumps(value)}" for name, value in SMALL.items()]
    arguments = [str(tmp_path / "data.npz"), "--out", str(tmp_path / "model"), *options]
    assert run(["fit", "--method", "scsd", *arguments, "--set", "clip=0.5"]) == 0
    assert "--set clip is now called --set max_grad_norm" in capsys.readouterr().err


def test_a_model_saved_under_the_old_names_loads_in_silence(tmp_path: Path) -> None:
    model = viewgap.SCSD(**SMALL, max_grad_norm=0.5, random_state=0).fit(X, Y)
    viewgap.save_model(model, tmp_path / "model")
    description, arrays = model_folder.read(tmp_path / "model")
    for names in (description["params"], description["metadata"]["settings"]):
        for old, new in RENAMED_PARAMETERS.items():
            names[old] = names.pop(new)
    model_folder.write(tmp_path / "model", description, arrays, overwrite=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = viewgap.load_model(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert loaded.settings_ == model.settings_
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_readers_are_found_at_their_old_place() -> None:
    from viewgap.data import formats, readers

    with pytest.warns(ViewgapDeprecationWarning, match=r"is now viewgap\.data\.formats\.read_data"):
        assert readers.read_data is formats.read_data
