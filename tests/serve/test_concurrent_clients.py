"""64 clients at once get the bits of serial calls, from a real process (F73)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

import viewgap
from service_calls import frames, labels, row
from service_process import post, running

SMALL = {"random_state": 0, "max_epochs": 1, "n_networks": 2, "code_dim": 8, "codebook_size": 8}
MODELS = {
    "ridge": lambda: viewgap.LateFusionRidge(),
    "scsd": lambda: viewgap.SCSD(**SMALL),
    "ensemble": lambda: viewgap.Ensemble(
        methods={"late_fusion_ridge": {}, "extra_trees": {"n_estimators": 10}}, random_state=0
    ),
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, dict[str, Any]]]:
    folder, X = tmp_path_factory.mktemp("served"), frames()
    fitted = {name: make().fit(X, labels(X)) for name, make in MODELS.items()}
    for name, model in fitted.items():
        viewgap.save_model(model, folder / name)
    with running(*(str(Path(folder / name)) for name in fitted)) as port:
        yield port, fitted


def bodies(name: str) -> list[dict[str, Any]]:
    """64 requests of one to five rows, some without a view."""
    X, sizes = frames(), random.Random(0)
    found = []
    for k in range(64):
        rows = [row(X, (k + j) % 60) for j in range(sizes.randint(1, 5))]
        if k % 3 == 0:
            rows[0]["views"][("proteins", "genes")[k % 2]] = None
        found.append({"model": name, "rows": rows})
    return found


@pytest.mark.parametrize("path", ["/predict", "/explain"])
@pytest.mark.parametrize("name", MODELS)
def test_64_clients_get_the_bits_of_serial_calls(served: Any, name: str, path: str) -> None:
    port, _ = served
    sent = bodies(name)
    serial = [post(port, path, body) for body in sent]
    assert {status for status, _ in serial} == {200}
    together = Barrier(64, timeout=120)

    def client(body: dict[str, Any]) -> tuple[int, bytes]:
        together.wait()
        return post(port, path, body)

    with ThreadPoolExecutor(64) as pool:
        assert list(pool.map(client, sent)) == serial


@pytest.mark.parametrize("name", MODELS)
def test_the_process_gives_the_bits_of_the_library(served: Any, name: str) -> None:
    port, fitted = served
    X = frames()
    status, answer = post(port, "/predict", {"model": name, "rows": [row(X, i) for i in range(60)]})
    assert status == 200
    expected = fitted[name].predict_proba(X)
    for i, line in enumerate(json.loads(answer)["rows"]):
        assert line["probabilities"] == expected.iloc[i].to_dict()
