"""What is predicted together: only where no bit of an answer depends on it (F73)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.prediction.blocks import rounds_by_batch
from viewgap.serve.metrics import ServiceMetrics
from viewgap.serve.models import LoadedModel, ModelStore
from viewgap.serve.worker import Job, ModelWorker, predict

METHODS = {
    "extra_trees": lambda: viewgap.ExtraTrees(n_estimators=5, random_state=0),
    "late_fusion_ridge": lambda: viewgap.LateFusionRidge(random_state=0),
    "scsd": lambda: viewgap.SCSD(
        n_networks=1, code_dim=8, codebook_size=8, max_epochs=1, random_state=0
    ),
}


def values(n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return viewgap.ViewSet(
        {"a": rng.normal(size=(n, 30)), "b": rng.normal(size=(n, 12))}, rng.random((n, 2)) < 0.8
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
def test_requests_that_wait_together_get_the_bits_of_serial_ones(
    method: str, tmp_path: Path
) -> None:
    X = values(80, 0)
    labels = (X.stored("a")[:, :3] > 0).astype(float)
    model = METHODS[method]().set_params(on_empty="prior").fit(X, labels)
    viewgap.save_model(model, tmp_path / "m")
    loaded = ModelStore([tmp_path / "m"]).models["m"].loaded
    requests = [values(1 + seed % 5, seed) for seed in range(1, 33)]
    serial = [predict(loaded, views).probabilities for views in requests]

    started, go = threading.Event(), threading.Event()

    def hold(loaded: LoadedModel, views: Any) -> None:
        started.set()
        assert go.wait(timeout=60)

    metrics = ServiceMetrics()
    worker = ModelWorker(100, metrics)
    held = worker.submit(Job(loaded, requests[0], hold))
    assert started.wait(timeout=60)
    futures = [worker.submit(Job(loaded, views)) for views in requests]
    go.set()
    held.result(timeout=60)
    for future, expected in zip(futures, serial, strict=True):
        np.testing.assert_array_equal(future.result(timeout=60).probabilities, expected)
    worker.stop()
    batches = len(requests) if rounds_by_batch(model) else 1
    assert f"viewgap_batches_total {batches + 1}\n" in metrics.text({}, {})
