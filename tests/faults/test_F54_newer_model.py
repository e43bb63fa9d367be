"""F54: a model of a newer format is refused with the way out; one of no format is damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from viewgap.errors import ModelFileError
from viewgap.model_file import load_model


def test_newer_format(saved: Any) -> None:
    saved.forge_description(format=4, viewgap="9.1", surprise="a key that this one does not know")
    with pytest.raises(ModelFileError, match=r"written by a newer viewgap \(9\.1, format 4"):
        load_model(saved.folder)


@pytest.mark.parametrize("version", [0, -1, "1", True, 1.0, None, [1], ...])
def test_a_format_that_never_existed(saved: Any, version: Any) -> None:
    saved.forge_description(format=version)
    with pytest.raises(ModelFileError, match="does not exist"):
        load_model(saved.folder)


def test_a_parameter_unknown_to_an_older_release_takes_its_default(saved: Any) -> None:
    saved.forge_description(params={"penalties": [1.0]})
    loaded = load_model(saved.folder)
    assert loaded.get_params()["nan"] == "mean"
    assert loaded.get_params()["penalties"] == [1.0]


def test_a_model_of_format_2_calls_its_metadata_facts(saved: Any) -> None:
    metadata = json.loads(saved.original["model.json"])["metadata"]
    saved.forge_description(format=2, facts=metadata, metadata=...)
    assert load_model(saved.folder).penalties_ == metadata["penalties"]


def test_a_model_of_format_1_has_no_column_names(saved: Any) -> None:
    saved.forge_description(format=1, feature_names=...)
    assert load_model(saved.folder).feature_names_in_ == {}
