"""`make faults`: the same promises as in the quick tests, asked often enough to be believed."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.methods.base import MultiViewClassifier
from viewgap.model_file import load_model, save_model

pytestmark = pytest.mark.faults_slow

KILLS = 500
SMALL = {"n_networks": 2, "hidden": (16,), "embedding": 8, "codebook_size": 8, "max_epochs": 2}


def problem() -> tuple[Any, Any]:
    full = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
    return viewgap.amputate(full.views, full.labels, seed=0)


def save_for_ever(models: list[MultiViewClassifier], folder: Path, pipe: int) -> None:
    """What the child does until it is killed; after its first turn it says so."""
    try:
        save_model(models[0], folder, overwrite=True)
        os.write(pipe, b"!")
        for turn in itertools.count(1):
            save_model(models[turn % 2], folder, overwrite=True)
    finally:
        os._exit(1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork beside idle threads is meant
def test_kills_while_a_model_is_overwritten_leave_the_old_or_the_new(tmp_path: Path) -> None:
    views, labels = problem()
    rows, folder, chance = views[:5], tmp_path / "model", random.Random(0)
    models = [viewgap.LateFusionRidge(penalties=(p,)).fit(views, labels) for p in (1.0, 100.0)]
    answers = [model.predict_proba(rows).tobytes() for model in models]
    assert answers[0] != answers[1]
    save_model(models[0], folder)
    seen, in_the_middle = set(), 0
    hear, say = os.pipe()
    for turn in range(KILLS):
        child = os.fork()
        if child == 0:
            save_for_ever(models[:: -1 if turn % 2 else 1], folder, say)
        assert os.read(hear, 1) == b"!"
        time.sleep(chance.random() * 0.03)
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        in_the_middle += len(list(tmp_path.iterdir())) > 1
        seen.add(answers.index(load_model(folder).predict_proba(rows).tobytes()))
    print(f"{KILLS} kills, {in_the_middle} of them with a new folder begun")
    assert seen == {0, 1}
    assert in_the_middle
    save_model(models[0], folder, overwrite=True)
    assert list(tmp_path.iterdir()) == [folder]  # and nothing of what the killed ones had begun


@pytest.mark.parametrize("name", ["late_fusion_ridge", "extra_trees", "scsd", "ddinet"])
def test_eight_threads_with_a_thousand_predictions_each(name: str) -> None:
    views, labels = problem()
    kind = viewgap.methods.get(name)
    settings = {key: value for key, value in SMALL.items() if key in kind._get_param_names()}
    model = kind(random_state=0, **settings).fit(views, labels)
    parts = [views[start : start + 3] for start in range(0, 60, 3)]
    expected = [model.predict_proba(part) for part in parts]

    def predict(turn: int) -> bool:
        part = turn % len(parts)
        return np.array_equal(model.predict_proba(parts[part]), expected[part])

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(predict, range(8000)))


FIT = """
import hashlib, viewgap
full = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
views, labels = viewgap.amputate(full.views, full.labels, seed=0)
digest = hashlib.sha256()
small = dict(n_networks=2, hidden=(16,), embedding=8, codebook_size=8, max_epochs=2)
for model in (viewgap.SCSD(random_state=0, **small), viewgap.ExtraTrees(random_state=0)):
    digest.update(model.fit(views, labels).predict_proba(views).tobytes())
print(digest.hexdigest())
"""


def test_twenty_processes_with_other_hash_seeds_give_the_same_bits() -> None:
    found = set()
    for seed in range(20):
        environment = os.environ | {"PYTHONHASHSEED": str(seed), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True
        )
        found.add(done.stdout.strip())
    assert len(found) == 1
    assert len(found.pop()) == 64
