from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from viewgap.bench.run.experiment import expand, read_experiment
from viewgap.bench.run.task import Task
from viewgap.errors import DataFileError, SettingError

SMALL: dict[str, Any] = {
    "experiment": {"dataset": "tiny", "folds": 2},
    "method": [{"name": "label_frequency"}, {"name": "scsd", "params": {"alpha": 0.5}}],
}


def test_expansion_is_methods_times_folds() -> None:
    tasks = expand(SMALL)
    assert [(task.method, task.fold) for task in tasks] == [
        ("label_frequency", 0),
        ("label_frequency", 1),
        ("scsd", 0),
        ("scsd", 1),
    ]
    assert tasks[2].params == {"alpha": 0.5}


def test_the_id_is_the_content() -> None:
    task = Task("tiny", "label_frequency", params={"a": 1, "b": [1, 2]})
    assert task.id == Task("tiny", "label_frequency", params={"b": [1, 2], "a": 1}).id
    others = [
        Task("other", "label_frequency"),
        Task("tiny", "label_frequency"),
        Task("tiny", "label_frequency", params={"a": 1, "b": [1, 2]}, fold=1),
        Task("tiny", "label_frequency", params={"a": 1, "b": [1, 2]}, seed=2),
        Task("tiny", "label_frequency", params={"a": 1, "b": [1, 2]}, scale_on="all"),
    ]
    assert len({task.id, *(other.id for other in others)}) == 6


def test_a_whole_number_rate_is_the_same_task_as_its_float() -> None:
    ids = [
        expand({**SMALL, "experiment": {"dataset": "tiny", "view_rate": rate}})[0].id
        for rate in (0, 0.0)
    ]
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"typo": 1}, "unknown key 'typo'"),
        ({"experiment": {"dataset": "tiny", "fold": 3}}, "unknown key 'fold'"),
        ({"experiment": {}}, "'dataset' is missing"),
        ({"experiment": {"dataset": "tiny", "folds": 0}}, "at least 1"),
        ({"experiment": {"dataset": "tiny", "folds": True}}, "folds must be int"),
        ({"experiment": {"dataset": "tiny", "view_rate": 1.0}}, "view_rate"),
        ({"experiment": {"dataset": "tiny", "train_share": 0}}, "train_share"),
        ({"experiment": {"dataset": "tiny", "scale_on": "test"}}, "scale_on"),
        ({"method": []}, "no method"),
        ({"method": [{"profile": "paper"}]}, "'name' is missing"),
        ({"method": [{"name": "nonsense"}]}, "unknown method 'nonsense'"),
        ({"method": [{"name": "scsd", "parameter": {}}]}, "unknown key 'parameter'"),
        ({"method": [{"name": "scsd"}, {"name": "scsd"}]}, "twice"),
        ({"method": ["scsd"]}, "expected a table"),
    ],
)
def test_what_cannot_be_meant_is_an_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        expand({**SMALL, **change})


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("[experiment\n")
    with pytest.raises(DataFileError, match=r"x\.toml is not valid TOML"):
        read_experiment(tmp_path / "x.toml")
    with pytest.raises(DataFileError, match="cannot read"):
        read_experiment(tmp_path / "absent.toml")


def test_a_later_field_counts_only_where_it_is_used() -> None:
    task = Task("tiny", "label_frequency")
    other = Task("tiny", "label_frequency", test_view_rate=0.5)
    assert "test_view_rate" not in task.settings
    assert other.settings["test_view_rate"] == 0.5
    assert task.id != other.id
    # The id that this task had before there was the field.
    assert task.id == "c42e9ac00d980235"


def test_a_title_names_what_is_unusual() -> None:
    task = Task("tiny", "scsd", fold=3, view_rate=0.3, test_view_rate=0.7, seed=2)
    assert (
        task.title == "tiny · scsd (default) · fold 3 · seed 2 · view rate 0.3 · test view rate 0.7"
    )


def test_validation_is_the_protocols_or_none_and_told_apart() -> None:
    usual, without = Task("tiny", "scsd"), Task("tiny", "scsd", validation="none")
    assert usual.id == Task("tiny", "scsd", validation="protocol").id
    assert usual.id != without.id
    assert "validation" not in usual.settings
    assert without.settings["validation"] == "none"
    assert without.title.endswith("fold 0 · validation none")
    with pytest.raises(SettingError, match="validation must be 'protocol' or 'none'"):
        Task("tiny", "scsd", validation="test")


def test_an_experiment_may_set_validation_for_all_or_for_one() -> None:
    experiment = {"dataset": "tiny", "validation": "none"}
    methods = [{"name": "scsd"}, {"name": "sip", "validation": "protocol"}]
    tasks = expand({"experiment": experiment, "method": methods})
    assert [task.validation for task in tasks] == ["none", "protocol"]
