"""Wrong arguments to what gives answers to people: refused, with what was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.errors import InputError, SettingError
from viewgap.serve import ServiceSettings, create_app

DATA: Any = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
X, Y = DATA.views, np.asarray(DATA.labels, dtype=float)
MODEL = viewgap.LateFusionRidge(random_state=0).fit(X[:40], Y[:40])
NEW = (X[40:], Y[40:])
LESS = X[40:].with_observed(np.tile([True, False, False], (20, 1)))

WRONG: dict[str, tuple[str, Callable[[], Any]]] = {
    "explain a path": ("load_model", lambda: viewgap.explain("model", X)),
    "explain a pipeline": ("pass the last step", lambda: viewgap.explain(object(), X)),
    "labels": ("names of labels", lambda: viewgap.explain(MODEL, X, labels=3)),
    "text": ("n_permutations", lambda: viewgap.explain(MODEL, X, n_permutations="many")),
    "odd": ("even number", lambda: viewgap.explain(MODEL, X, n_permutations=5)),
    "seed": ("random_state", lambda: viewgap.explain(MODEL, X, random_state="a")),
    "columns, seed": (
        "random_state",
        lambda: viewgap.column_importance(MODEL, *NEW, view="view0", random_state="a"),
    ),
    "costs": ("by the name", lambda: viewgap.suggest_view(MODEL, LESS, *NEW, costs=[1, 2])),
    "cost": (
        "positive number",
        lambda: viewgap.suggest_view(MODEL, LESS, *NEW, costs={"view1": "3"}),
    ),
    "no cost": (
        "positive number",
        lambda: viewgap.suggest_view(MODEL, LESS, *NEW, costs={"view1": None}),
    ),
    "sets of a path": ("load_model", lambda: viewgap.LabelSets("model")),
    "not calibrated": ("not calibrated yet", lambda: viewgap.LabelSets(MODEL).predict(X)),
    "pattern": ("times 0 or 1", lambda: viewgap.LabelSets(MODEL).save("x", patterns=[110])),
    "patterns": ("must be a list", lambda: viewgap.LabelSets(MODEL).save("x", patterns="110")),
    "method": ("method must be", lambda: viewgap.complete_labels(X, Y, method=3)),
    "cv": ("cv must be", lambda: viewgap.complete_labels(X, Y, cv="a")),
    "page of a path": ("load_model", lambda: viewgap.report("model", X)),
    "page, seed": ("random_state", lambda: viewgap.report(MODEL, X, random_state="a")),
    "page, sets": (
        "LabelSets.load",
        lambda: viewgap.report(MODEL, *NEW, label_sets="sets.json"),  # type: ignore[arg-type]
    ),
    "export a path": ("load_model", lambda: viewgap.export_onnx("model", "x.onnx")),  # type: ignore[arg-type]
    "repository": ("owner/name", lambda: viewgap.push_to_hub(MODEL, None)),  # type: ignore[arg-type]
    "body": ("max_body", lambda: ServiceSettings(max_body="1")),  # type: ignore[arg-type]
    "no rows": ("max_rows", lambda: ServiceSettings(max_rows=0)),
    "never": ("timeout", lambda: ServiceSettings(timeout=float("inf"))),
    "token": ("token", lambda: ServiceSettings(token=5)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused(case: str) -> None:
    words, call = WRONG[case]
    with pytest.raises(SettingError, match=words):
        call()


def test_one_folder_may_be_served_without_a_list(tmp_path: Any) -> None:
    pytest.importorskip("fastapi")
    viewgap.save_model(MODEL, tmp_path / "one")
    app = create_app(str(tmp_path / "one"))
    assert list(app.state.service.store.models) == ["one"]


def test_groups_of_a_series_are_matched_by_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [f"s{i}" for i in range(40)]
    own = viewgap.ViewSet({name: X.rows(name)[:40] for name in X.names}, sample_ids=ids)
    sets = viewgap.LabelSets(viewgap.LateFusionRidge(random_state=0).fit(own, Y[:40]))
    groups = pd.Series([i // 4 for i in range(40)], index=ids)
    sets.calibrate_out_of_fold(own, Y[:40], groups=groups[::-1])
    for _, views, _ in sets._parts:
        assert all((groups[views.sample_ids] == number).sum() in (0, 4) for number in range(10))
    with pytest.raises(InputError, match="one value per sample"):
        sets.calibrate_out_of_fold(own, Y[:40], groups=[1, 2])
    with pytest.raises(InputError, match="groups lack 1 samples"):
        sets.calibrate_out_of_fold(own, Y[:40], groups=groups[1:])
