"""Messages name parameters in Python and options on the command line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from viewgap import methods
from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import (
    EmptyRowsError,
    LabelError,
    RunError,
    SettingError,
    command_line_words,
    is_out_of_memory,
    parameter,
    remedy,
    typed_memory_errors,
)
from viewgap.methods.label_frequency import LabelFrequency
from viewgap.methods.profiled import check_label_matrices


def test_python_names_parameters() -> None:
    assert parameter("nan", "missing_view") == "nan='missing_view'"
    assert parameter("overwrite", True) == "overwrite=True"
    assert parameter("nan") == "nan"


def test_command_line_names_options() -> None:
    with command_line_words():
        assert parameter("nan", "missing_view") == "--missing missing_view"
        assert parameter("overwrite", True) == "--overwrite"
        assert parameter("alpha", 0.5) == "--set alpha=0.5"
        assert parameter("random_state") == "--seed"
    assert parameter("nan") == "nan"


def test_a_remedy_of_python_has_another_form_on_the_command_line() -> None:
    assert remedy("pass (Y > 0)", "write 0") == "pass (Y > 0)"
    with command_line_words():
        assert remedy("pass (Y > 0)", "write 0") == "write 0"


def test_messages_about_labels_speak_of_the_table() -> None:
    views = ViewSet({"a": pd.DataFrame(np.ones((3, 1)), index=["p", "q", "r"])})
    foreign = pd.DataFrame(np.ones((4, 1)), index=["p", "q", "r", "s"], columns=["x"])
    minus = pd.DataFrame(-np.ones((3, 1)), index=["p", "q", "r"], columns=["x"])
    for frame, python, command_line in (
        (foreign, "Y.loc", "remove them from the table"),
        (minus, "(Y > 0)", "write 0"),
    ):
        with pytest.raises(LabelError) as plain:
            as_labels(frame, views)
        with command_line_words(), pytest.raises(LabelError) as typed:
            as_labels(frame, views)
        assert python in str(plain.value)
        assert python not in str(typed.value)
        assert command_line in str(typed.value)


def test_messages_about_samples_and_labels_name_the_option() -> None:
    views = {"a": np.vstack([np.ones((3, 2)), np.full((1, 2), np.nan)])}
    with command_line_words(), pytest.raises(EmptyRowsError, match="--set on_empty=prior"):
        LabelFrequency().fit(views, np.eye(4))
    with pytest.raises(EmptyRowsError, match="on_empty='prior'"):
        LabelFrequency().fit(views, np.eye(4))
    for name, option in (
        ("scsd", "--set fusion=mean"),
        ("lmvcat", "--set beta=0"),
        ("dicnet", "--set embedding"),
    ):
        with command_line_words():
            advice = methods.get(name)()._remedy_for_many_labels()
            with pytest.raises(SettingError, match=option):
                check_label_matrices(name, 100.0, 100_000, advice)


TORCH = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 8 GiB"),
        MemoryError(),
        RuntimeError(TORCH),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
)
def test_the_end_of_memory_is_a_typed_error(error: Exception) -> None:
    assert is_out_of_memory(error)
    with (
        pytest.raises(RunError, match=r"not enough memory to fit.*; buy some"),
        typed_memory_errors("to fit", "buy some"),
    ):
        raise error


@pytest.mark.parametrize("error", [RuntimeError("odd"), RunError("memory"), ValueError("memory")])
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, typed_memory_errors("to fit", "buy some"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("step", ["_fit", "_predict_proba"])
def test_fit_and_prediction_without_memory(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: object) -> None:
        raise RuntimeError(TORCH)

    X = {"a": np.ones((4, 2))}
    model = LabelFrequency()
    with monkeypatch.context() as broken:
        broken.setattr(LabelFrequency, step, end)
        with pytest.raises(RunError, match=r"not enough memory to .* 4 samples"):
            model.fit(X, np.eye(4)).predict_proba(X)
