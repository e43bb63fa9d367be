"""Saving and loading, when nothing goes wrong. What happens when it does: tests/faults/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap.methods as methods
import viewgap.model_file as model_file
from viewgap.errors import ModelFileError, RunError, SettingError
from viewgap.methods.base import NotFittedError
from viewgap.methods.label_frequency import LabelFrequency
from viewgap.methods.late_fusion_ridge import LateFusionRidge
from viewgap.model_file import load_model, save_model
from viewgap.model_folder import check_destination
from viewgap.state import State

RNG = np.random.default_rng(0)
X = {"a": RNG.normal(size=(30, 3)), "Ünï/../code": RNG.normal(size=(30, 2))}
Y = (X["a"] > 0).astype(float)


@pytest.fixture
def model() -> LateFusionRidge:
    return LateFusionRidge(random_state=0).fit(X, Y)


def test_a_model_is_exactly_three_files(model: LateFusionRidge, tmp_path: Path) -> None:
    save_model(model, tmp_path / "model")
    names = sorted(entry.name for entry in (tmp_path / "model").iterdir())
    assert names == ["checksums.json", "model.json", "weights.safetensors"]
    described = json.loads((tmp_path / "model" / "model.json").read_text(encoding="utf-8"))
    assert described["format"] == 3
    assert described["method"] == "late_fusion_ridge"
    assert described["params"]["random_state"] == 0
    assert described["view_names"] == ["a", "Ünï/../code"]


def test_loaded_predicts_the_same(model: LateFusionRidge, tmp_path: Path) -> None:
    save_model(model, str(tmp_path / "model"))
    loaded = load_model(str(tmp_path / "model"))
    assert isinstance(loaded, LateFusionRidge)
    assert loaded.penalties_ == model.penalties_
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_an_interrupted_model_says_how_to_go_on(model: LateFusionRidge, tmp_path: Path) -> None:
    model.interrupted_, model._resume_words = True, ("viewgap", "fit", "--resume")
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert (loaded.interrupted_, loaded._resume_words) == (True, ["viewgap", "fit", "--resume"])


def test_loaded_can_be_fitted_again(model: LateFusionRidge, tmp_path: Path) -> None:
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model").fit(X, Y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_saving_twice_gives_the_same_bytes(model: LateFusionRidge, tmp_path: Path) -> None:
    save_model(model, tmp_path / "one")
    save_model(load_model(tmp_path / "one"), tmp_path / "two")
    for entry in (tmp_path / "one").iterdir():
        assert entry.read_bytes() == (tmp_path / "two" / entry.name).read_bytes()


def test_settings_survive(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"a": slice(0, 3), "b": range(3, 5)}
    model = LateFusionRidge(penalties=(0.5, np.float64(2)), views=columns, on_empty="prior")
    model.fit(np.hstack(list(X.values())), Y)
    save_model(model, tmp_path / "model")
    assert load_model(tmp_path / "model").get_params() == model.get_params()


def test_settings_that_json_cannot_hold_are_named(tmp_path: Path) -> None:
    model = LateFusionRidge(random_state=np.random.default_rng(0)).fit(X, Y)
    with pytest.raises(SettingError, match="'random_state' of LateFusionRidge is a Generator"):
        save_model(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_not_fitted(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        save_model(LateFusionRidge(), tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_only_methods_known_by_name_are_saved(tmp_path: Path) -> None:
    class Mine(LabelFrequency):
        pass

    with pytest.raises(SettingError, match="Mine is not one of the methods that are known by name"):
        save_model(Mine().fit(X, Y), tmp_path / "model")


def test_overwrite_only_on_request(model: LateFusionRidge, tmp_path: Path) -> None:
    place = tmp_path / "model"
    save_model(LabelFrequency().fit(X, Y), place)
    with pytest.raises(ModelFileError, match="overwrite=True"):
        save_model(model, place)
    assert isinstance(load_model(place), LabelFrequency)
    save_model(model, place, overwrite=True)
    assert isinstance(load_model(place), LateFusionRidge)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_overwrite_never_touches_anything_but_a_model(model: Any, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    with pytest.raises(ModelFileError, match=r"chapter1\.tex.*choose another path"):
        save_model(model, tmp_path / "thesis", overwrite=True)
    with pytest.raises(ModelFileError, match="is a file"):
        save_model(model, tmp_path / "thesis" / "chapter1.tex", overwrite=True)
    assert (tmp_path / "thesis" / "chapter1.tex").read_text() == "years of work"


def test_an_empty_folder_may_be_used(model: LateFusionRidge, tmp_path: Path) -> None:
    save_model(model, tmp_path)
    load_model(tmp_path)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="there is no model folder"):
        load_model(tmp_path / "absent")
    with pytest.raises(ModelFileError, match=r"checksums\.json is missing"):
        load_model(tmp_path)


@pytest.mark.parametrize("bad", [np.array([np.nan]), np.array([np.inf], dtype=np.float32)])
def test_broken_weights_are_not_saved(tmp_path: Path, bad: Any) -> None:
    model = LateFusionRidge().fit(X, Y)
    model._get_state = lambda: State({"w": bad})  # type: ignore[method-assign]
    with pytest.raises(ModelFileError, match="NaN or infinity"):
        save_model(model, tmp_path / "model")


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64"])
def test_array_types_and_layouts_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    model = LabelFrequency().fit(X, Y)
    plain = np.arange(24).reshape(4, 6).astype(dtype)
    arrays = {
        "transposed": plain.T,
        "every second": plain[::2, ::-1],
        "scalar": np.array(1, dtype=dtype),
        "nothing": plain[:0],
    }
    received = {}
    monkeypatch.setattr(LabelFrequency, "_get_state", lambda self: State(dict(arrays)))
    monkeypatch.setattr(
        LabelFrequency, "_set_state", lambda self, state: received.update(state.arrays)
    )
    save_model(model, tmp_path / "model")
    load_model(tmp_path / "model")
    assert set(received) == set(arrays)
    for name, array in arrays.items():
        assert received[name].dtype == array.dtype
        assert received[name].flags.writeable
        np.testing.assert_array_equal(received[name], array)


def test_unknown_array_types_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = LabelFrequency().fit(X, Y)
    monkeypatch.setattr(LabelFrequency, "_get_state", lambda self: State({"a": np.array(["text"])}))
    with pytest.raises(TypeError, match="cannot hold"):
        save_model(model, tmp_path / "model")


def test_device_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    kept = ["auto", "cpu", "cuda", "cuda:1", "mps"]
    assert [model_file._device_here(device) for device in kept] == kept
    assert model_file._device_here("cuda:2") == "auto"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for device in ("cuda", "cuda:0", "mps", "tpu"):
        assert model_file._device_here(device) == "auto"


@pytest.mark.skipif("scsd" not in methods.names(), reason="no deep method")
def test_device_is_replaced_on_loading(tmp_path: Path) -> None:
    small = {"max_epochs": 1, "hidden": (8,), "embedding": 8, "codebook_size": 4}
    model = methods.get("scsd")(device="cpu", random_state=0, **small).fit(X, Y)
    model.set_params(device="tpu:7")
    save_model(model, tmp_path / "model")
    assert load_model(tmp_path / "model").get_params()["device"] == "auto"
    assert load_model(tmp_path / "model", device="cpu").get_params()["device"] == "cpu"


def test_device_is_ignored_by_methods_without_one(model: Any, tmp_path: Path) -> None:
    save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model", device="cpu").predict_proba(X), model.predict_proba(X)
    )


@pytest.mark.parametrize("failure", [OverflowError, KeyError, RuntimeError, StopIteration])
def test_whatever_a_method_finds_wrong_is_a_model_file_error(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    def refuse(self: Any, state: State) -> None:
        raise failure("strange")

    save_model(model, tmp_path / "model")
    monkeypatch.setattr(LateFusionRidge, "_set_state", refuse)
    with pytest.raises(ModelFileError, match="does not describe a usable model"):
        load_model(tmp_path / "model")


def test_the_end_of_memory_while_loading_is_not_the_fault_of_the_file(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(self: Any, state: State) -> None:
        raise MemoryError

    save_model(model, tmp_path / "model")
    monkeypatch.setattr(LateFusionRidge, "_set_state", end)
    with pytest.raises(RunError, match="not enough memory to load"):
        load_model(tmp_path / "model")


def test_where_a_file_is_a_model_is_neither_saved_nor_looked_for(tmp_path: Path) -> None:
    place = tmp_path / "model"
    place.write_bytes(b"notes")
    with pytest.raises(ModelFileError, match="is a file; a model is saved as a folder"):
        check_destination(place, overwrite=True)
    with pytest.raises(ModelFileError, match="is a file, not a model folder"):
        load_model(place)


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    model = LabelFrequency().fit({"fine": X["a"], "half \ud800": X["a"]}, Y)
    with pytest.raises(ModelFileError, match=r"no valid text and cannot be saved: .*half .ud800"):
        save_model(model, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
