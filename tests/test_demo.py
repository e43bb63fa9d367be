"""The demo on few samples and few epochs: everything is written and fits together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap import demo
from viewgap.bench.results.record import load_records
from viewgap.demo import DemoResult, run_demo
from viewgap.errors import RunError
from viewgap.metrics import SIX

pytestmark = pytest.mark.slow

SMALL: dict[str, dict[str, Any]] = {
    "scsd": {"max_epochs": 3, "hidden": [32], "embedding": 16, "codebook_size": 16},
    "random_forest": {"n_estimators": 5},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> DemoResult:
    out = tmp_path_factory.mktemp("demo") / "new folder"
    return run_demo(out, folds=2, params=SMALL, dataset_options={"n_samples": 160})


def test_results_are_a_list_of_records(made: DemoResult) -> None:
    plain = json.loads(made.results.read_text())
    assert [entry["method"] for entry in plain] == [*demo.TITLES, *demo.TITLES]
    assert [entry["fold"] for entry in plain] == [0] * 5 + [1] * 5
    for entry in plain:
        assert tuple(entry["metrics"]) == SIX
        assert (entry["dataset"], entry["profile"]) == ("multidigits", "default")
        assert entry["seconds"] >= 0
    assert load_records(made.results) == made.records


def test_the_report_tells_what_the_records_say(made: DemoResult) -> None:
    page = made.report.read_text()
    for title in demo.TITLES.values():
        assert title in page
    scsd = np.mean([r.metrics["AP"] for r in made.records if r.method == "scsd"])
    assert f"Average precision {scsd:.3f} on " in page
    assert page.count("data:image/png") == demo.EXAMPLES
    assert "mean of 2 folds" in page
    for view in ("pixels", "gradients", "fourier", "profiles", "patterns", "moments"):
        assert f"<th>{view}</th>" in page


def test_a_place_that_cannot_be_written_fails_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="in the way"):
        run_demo(tmp_path / "file")
