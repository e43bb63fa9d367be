"""Several runs on one folder, started by Ray through joblib, as docs/clusters.md says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import joblib
import pytest

from viewgap.bench.results.journal import read_lines
from viewgap.bench.results.record import RECORDS
from viewgap.bench.run.experiment import read_experiment
from viewgap.cli import run

CONFIG = """
[experiment]
dataset = "synthetic"
dataset_options = {n_samples = 60}
folds = 4
[[method]]
name = "label_frequency"
"""


@pytest.mark.slow
def test_runs_that_ray_starts_share_the_tasks(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    from ray.util.joblib import register_ray

    config, out = tmp_path / "grid.toml", tmp_path / "out"
    config.write_text(CONFIG)
    command = ["bench", "run", str(config), "--out", str(out)]
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        register_ray()
        with joblib.parallel_config(backend="ray"):
            codes = joblib.Parallel(n_jobs=2)(joblib.delayed(run)(command) for _ in range(2))
    finally:
        ray.shutdown()
    assert codes == [0, 0]
    lines = Counter(entry["task"] for entry in read_lines(out / RECORDS))
    assert lines == Counter({task.id: 1 for task in read_experiment(config)})
