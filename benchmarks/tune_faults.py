"""`viewgap tune` on real data: two processes share a study, one is killed; what was found?

    VIEWGAP_DATA=... python -m benchmarks.tune_faults [--data cll birds] [--trials 6]

A random 30 % of the samples are held out first. Two processes of the command line share a study of
the others; the second is killed by SIGKILL while it runs a trial of which it holds the claim. Once
the first has ended, the same command is typed once more: it must find nothing left to do. Default
and winner are then fitted on the training rows, and answer the held-out rows, once.
Kept in `tune_faults.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import viewgap
import viewgap.methods as methods
from benchmarks.machine import machine_name

HELD_OUT, SEED = 0.3, 1  # another seed than that of the methods
BEFORE_KILL = 1  # trials that have ended when the second process is killed
INSIDE = 0.5  # seconds that its trial has run by then
LONGEST = 3000.0


def write_training_rows(path: Path, data: Any, rows: Any) -> None:
    """An archive as a user has it: NaN where a view is missing or a label unknown."""
    views = data.views[rows]
    arrays = {}
    for index, name in enumerate(views.names):
        values = np.asarray(views.rows(name), dtype=float)
        values[~views.observed[:, index]] = np.nan
        arrays[name] = values
    labels = np.asarray(data.labels, dtype=float)[rows]
    np.savez(path, **arrays, labels=labels, label_names=np.array(list(data.label_names)))


def start(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def trial_of(study: Path, process: int) -> str | None:
    """The trial that a process holds the claim of."""
    for claim in sorted(study.glob("claims/*")):
        try:
            if json.loads(claim.read_text()).get("pid") == process:
                return claim.name
        except (OSError, ValueError):  # it ended, or is being written, in this moment
            continue
    return None


def ended(study: Path) -> int:
    """How many trials have ended; 0 before the first has."""
    try:
        states = pd.read_csv(study / "trials.csv")["state"]
    except (OSError, ValueError):
        return 0
    return int((states == "complete").sum())


def kill_in_a_trial(study: Path, process: subprocess.Popen[bytes]) -> str | None:
    """Kill a process that runs a trial; the name of the trial, None if it ended before."""
    limit = time.monotonic() + LONGEST
    before, since = None, time.monotonic()
    while process.poll() is None and time.monotonic() < limit:
        trial = trial_of(study, process.pid)
        if trial != before:
            before, since = trial, time.monotonic()
        inside = trial is not None and time.monotonic() - since > INSIDE
        if inside and ended(study) >= BEFORE_KILL:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return trial
        time.sleep(0.05)
    return None


def share_and_kill(command: list[str], study: Path) -> dict[str, Any]:
    """Run two processes, kill one, let the other end, repeat the command; what is left behind."""
    began = time.monotonic()
    first = start(command)
    second = start(command)
    killed = kill_in_a_trial(study, second)
    code = first.wait()
    again = subprocess.run(command, capture_output=True, text=True)
    trials = pd.read_csv(study / "trials.csv")
    lines = (study / "journal.jsonl").read_text().splitlines()
    return {
        "killed in": killed,
        "exit codes": [code, again.returncode],
        "states": dict(Counter(trials["state"])),
        "journal lines": len(lines),
        "journal is whole": all(isinstance(json.loads(line), dict) for line in lines),
        "claims left": sum(1 for _ in (study / "claims").iterdir()),
        "seconds": round(time.monotonic() - began, 1),
        "picture bytes": (study / "study.svg").stat().st_size,
    }


def on_held_out_rows(data: Any, method: str, params: dict[str, Any], rows: Any, test: Any) -> Any:
    """AP and AUC of a fit on the training rows."""
    labels = np.asarray(data.labels, dtype=float)
    model = methods.get(method)(random_state=0, **params).fit(data.views[rows], labels[rows])
    scores = viewgap.evaluate(labels[test], np.asarray(model.predict_proba(data.views[test])))
    return {name: round(float(scores[name]), 4) for name in ("AP", "AUC")}


def measured(name: str, method: str, trials: int, keep: Path | None) -> dict[str, Any]:
    data = viewgap.load_dataset(name)
    usable = np.flatnonzero(data.views.has_view)
    order = np.random.default_rng(SEED).permutation(usable)
    cut = int(HELD_OUT * len(order))
    test, rows = np.sort(order[:cut]), np.sort(order[cut:])
    with tempfile.TemporaryDirectory() as folder:
        source, study = Path(folder) / "train.npz", Path(folder) / "study"
        write_training_rows(source, data, rows)
        options = ["--out", str(study), "--method", method, "--trials", str(trials)]
        command = [sys.executable, "-m", "viewgap", "tune", str(source), *options]
        faults = share_and_kill(command, study)
        best = json.loads((study / "best.json").read_text())
        if keep is not None:
            shutil.copytree(study, keep / name, dirs_exist_ok=True)
    found = {key: best[key] for key in ("metric", "best", "default", "gain", "standard_error")}
    winner = best["best"]["params"]
    held_out = {
        "default": on_held_out_rows(data, method, {}, rows, test),
        "winner": on_held_out_rows(data, method, winner, rows, test),
    }
    sizes = {"training rows": len(rows), "held-out rows": len(test)}
    return {"data": name, "method": method, **sizes, **faults, **found, "held out": held_out}


def main() -> None:
    """Measure and keep the lines; the exit code is 1 where a study was not left as it must be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=["cll", "birds"])
    parser.add_argument("--method", default="late_fusion_ridge")
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--studies", type=Path, help="keep the folders of the studies here")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/tune_faults.json"))
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    lines = []
    for name in given.data:
        lines.append(measured(name, given.method, given.trials, given.studies))
        print(json.dumps(lines[-1]), flush=True)
        content = {"machine": machine_name("cpu"), "lines": lines}
        given.out.write_text(json.dumps(content, indent=1) + "\n")
    sys.exit(not all(_is_right(line, given.trials) for line in lines))


def _is_right(line: dict[str, Any], trials: int) -> bool:
    states = line["states"]
    done = states.get("complete", 0) + states.get("pruned", 0)
    whole = line["journal is whole"] and not line["claims left"] and line["exit codes"] == [0, 0]
    return whole and done == trials and states.get("fail", 0) == 1 and line["killed in"] is not None


if __name__ == "__main__":
    main()
