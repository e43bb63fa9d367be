"""The demo on few samples and few epochs: everything is written and fits together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap import demo
from viewgap.bench.analyse.summary import Row
from viewgap.bench.results.record import read_records
from viewgap.demo import DemoResult, run_demo
from viewgap.errors import RunError
from viewgap.metrics import SIX

pytestmark = pytest.mark.slow

SMALL: dict[str, dict[str, Any]] = {
    "scsd": {"max_epochs": 3, "hidden": [32], "embedding": 16, "codebook_size": 16},
    "random_forest": {"n_estimators": 5},
}
EXPERIMENT: dict[str, Any] = {
    "experiment": {"dataset": "multidigits", "dataset_options": {"n_samples": 160}},
    "method": [{"name": name, "params": SMALL.get(name, {})} for name in demo.TITLES],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    out = tmp_path_factory.mktemp("demo") / "new folder"
    return run_demo(out, folds=2, experiment=EXPERIMENT)


def test_results_are_a_list_of_records(made: DemoResult) -> None:
    plain = json.loads(made.results.read_text())
    assert [entry["method"] for entry in plain] == [*demo.TITLES, *demo.TITLES]
    assert [entry["fold"] for entry in plain] == [0] * 5 + [1] * 5
    for entry in plain:
        assert tuple(entry["metrics"])[:6] == SIX
        assert (entry["dataset"], entry["profile"]) == ("multidigits", "default")
        assert entry["seconds"] >= 0
    plain = [record.to_dict() for record in made.records]
    assert json.loads(made.results.read_text(encoding="utf-8")) == json.loads(json.dumps(plain))
    found = sorted(read_records(made.results.parent), key=lambda record: record.task)
    assert found == sorted(made.records, key=lambda record: record.task)


def test_the_report_tells_what_the_records_say(made: DemoResult) -> None:
    page = made.report.read_text()
    for method, title in demo.TITLES.items():
        assert title in page
        assert method in page
    scsd = np.mean([r.metrics["AP"] for r in made.records if r.method == "scsd"])
    assert f"Average precision {scsd:.3f} on " in page
    assert page.count("data:image/png") == demo.EXAMPLES
    assert "mean of 2 folds" in page
    for view in ("pixels", "gradients", "fourier", "profiles", "patterns", "moments"):
        assert f'<th scope="row" class="first text">{view}</th>' in page


def test_a_place_that_cannot_be_written_fails_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="in the way"):
        run_demo(tmp_path / "file")


def rows(*levels: tuple[str, float]) -> list[Row]:
    return [Row("multidigits", name, "default", {"AP": ap}, {}, 1.0, 1) for name, ap in levels]


def test_the_headline_follows_the_numbers() -> None:
    settings = {"view_rate": 0.5, "label_rate": 0.5}
    assert demo.headline(["scsd", "random_forest"], settings) == (
        "Half of the views and half of the labels are missing. SCSD still ranks the digits best."
    )
    told = demo.headline(["random_forest", "scsd"], {"view_rate": 0.3, "label_rate": 0.0})
    assert told.startswith("30 % of the views and 0 % of the labels are missing. Random forest")
    assert told.endswith("ranks the digits best; SCSD is number 2 of 2.")


def test_the_summary_names_the_best_baseline_and_the_distance_to_it() -> None:
    best = demo.summary(rows(("scsd", 0.7), ("random_forest", 0.6)), 1200, "canvases")
    assert best == (
        "Average precision 0.700 on 1,200 canvases it has never seen: 0.100 above the best "
        "baseline, random forest."
    )
    second = demo.summary(rows(("random_forest", 0.8), ("scsd", 0.7)), 10)
    assert "0.100 below the best baseline, random forest." in second
    assert demo.summary(rows(("scsd", 0.7)), 10).endswith("never seen.")
