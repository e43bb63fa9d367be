"""`/decide`: the library's label sets, bound to the model that is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from service_calls import LABELS, call, frames, labels, post, row
from viewgap.cli.program import run
from viewgap.decide.label_sets import LabelSets
from viewgap.errors import DataFileError, SettingError
from viewgap.serve import create_app

# the words are asked here, not the promise: the rows of the fit calibrate
pytestmark = pytest.mark.filterwarnings("ignore:rows that the model was fitted on")


@pytest.fixture(scope="module")
def sets(model: Any) -> LabelSets:
    X = frames(300, seed=1)
    options = {"risk": "coverage", "target_level": 0.7, "confidence_level": 0.6}
    return LabelSets(model, **options).calibrate(X, labels(X))


@pytest.fixture(scope="module")
def file(sets: LabelSets, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sets") / "sets.json"
    sets.save(path)
    return path


def rows(n: int = 40) -> list[dict[str, Any]]:
    X = frames()
    hidden = ({}, {"proteins": None}, {"genes": None}, {"genes": None, "proteins": None})
    return [row(X, i, **hidden[i % 4]) for i in range(n)]


def test_words_are_those_of_the_library(folder: Path, file: Path, sets: Any) -> None:
    app = create_app([folder], label_sets={"cells": file})
    answer = post(app, {"rows": rows()}, "/decide").json()
    assert (answer["risk"], answer["target_level"], answer["confidence_level"]) == (
        "coverage",
        0.7,
        0.6,
    )
    assert (answer["promise"], answer["assumption"]) == (sets.promise, sets.assumption)
    X = {name: table.iloc[:40] for name, table in frames().items()}
    patterns = [[True, True], [True, False], [False, True], [False, False]]
    expected = sets.predict(viewgap.ViewSet(X).with_observed(np.array(10 * patterns)))
    words = {word for line in answer["rows"] for word in line["labels"].values()}
    assert words == {"certain", "possible", "ruled out"}
    for i, line in enumerate(answer["rows"]):
        assert line["labels"] == expected.iloc[i].to_dict()
        assert line["no_view"] == (i % 4 == 3)
    found = call(app, "GET", "/models").json()["models"][0]["label_sets"]
    assert found == {key: answer[key] for key in found}


def test_without_label_sets_it_is_said_what_to_do(folder: Path) -> None:
    app = create_app([folder])
    answer = post(app, {"rows": rows(1)}, "/decide")
    assert answer.status_code == 404
    assert "--label-sets" in answer.json()["error"]["message"]
    assert call(app, "GET", "/models").json()["models"][0]["label_sets"] is None


def test_a_pattern_without_thresholds_is_refused_with_its_row(
    folder: Path, model: Any, tmp_path: Path
) -> None:
    X = frames(seed=1)
    some = LabelSets(model).calibrate(X, labels(X))
    some.save(tmp_path / "sets.json", patterns=["11"])
    app = create_app([folder], label_sets={"cells": tmp_path / "sets.json"})
    assert post(app, {"rows": [row(X, 0)]}, "/decide").status_code == 200
    answer = post(app, {"rows": rows(2)}, "/decide")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["field"] == "rows[1].views"
    assert "genes" in error["message"]


def test_label_sets_of_another_model_are_refused_at_the_start(
    folder: Path, file: Path, tmp_path: Path
) -> None:
    X = frames()
    other = viewgap.LateFusionRidge().fit(X, 1 - labels(X))
    viewgap.save_model(other, tmp_path / "other")
    with pytest.raises(DataFileError, match="another model"):
        create_app([tmp_path / "other"], label_sets={"other": file})
    with pytest.raises(SettingError, match="not served"):
        create_app([folder], label_sets={"other": file})
    models = [str(folder), str(tmp_path / "other")]
    assert run(["serve", *models, "--label-sets", str(file)]) == 2
    assert run(["serve", *models, "--label-sets", f"absent={file}"]) == 2
    named = ["--label-sets", f"cells={file}"]
    assert run(["serve", *models, *named, *named]) == 2
    assert run(["serve", str(folder), "--label-sets", str(tmp_path / "absent")]) == 1


def test_a_replaced_model_is_not_decided_with_the_sets_of_the_one_before(
    model: Any, sets: LabelSets, tmp_path: Path
) -> None:
    X = frames()
    viewgap.save_model(model, tmp_path / "cells")
    sets.save(tmp_path / "sets.json")
    app = create_app([tmp_path / "cells"], label_sets={"cells": tmp_path / "sets.json"})
    store = app.state.service.store
    other = viewgap.LateFusionRidge(on_empty="prior").fit(X, 1 - labels(X))
    viewgap.save_model(other, tmp_path / "cells", overwrite=True)
    store.refresh()
    answer = post(app, {"rows": rows(1)}, "/decide")
    assert answer.status_code == 404
    assert "made anew" in answer.json()["error"]["message"]
    assert str(tmp_path) not in answer.text
    assert "made anew" in call(app, "GET", "/ready").json()["models"]["cells"]["problem"]
    assert post(app, {"rows": rows(1)}).json()["version"] == 2
    X = frames(seed=1)
    new = LabelSets(other).calibrate(X, labels(X))
    new.save(tmp_path / "sets.json")
    store.refresh()
    decided = post(app, {"rows": rows(1)}, "/decide").json()
    assert decided["version"] == 3
    assert set(decided["rows"][0]["labels"]) == set(LABELS)
