"""Kills processes while they write: is what they leave always readable, whole and the newest?

    python -m benchmarks.kill_writes                  # 500 kills
    python -m benchmarks.kill_writes --kills 2000 --out benchmarks/kill_writes.json

A process saves a model over the one before, writes a step of a checkpoint and appends a line to a
journal, in a loop, and says after each that it is done. It is killed by SIGKILL at a random time.
Then the model must load, the checkpoint must give a step without a warning, the journal must be
whole up to its last line: each that of the last round that was told to be done, or of the one after
it. The next writer goes on in the same folders; what the killed ones left must be gone when it has
written once. Processes are forked: needs Linux or macOS.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a forked process has only one of the threads

import numpy as np

import viewgap
from benchmarks.experiments import forked, keep
from viewgap.bench.results.journal import append_line, read_lines
from viewgap.checkpoints import CheckpointFolder, epoch_step
from viewgap.errors import ViewgapError, ViewgapWarning
from viewgap.model_file import load_model, save_model
from viewgap.state import State

KINDS = ("model", "checkpoint", "journal")
LONGEST = 0.05  # seconds between the first round of a process and its kill
NUMBERS = 20_000  # in a step of the checkpoint


class Places:
    """What is written, in one folder, and what is read from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model, self.steps = folder / "model", folder / "run"
        self.journal = folder / "journal.jsonl"

    def write(self, fitted: Any, round_: int) -> None:
        """Everything once; all of it says of which round it is."""
        fitted.label_frequency_[:] = 1 / (1 + round_)
        save_model(fitted, self.model, overwrite=True)
        state = State({"w": np.full(NUMBERS, float(round_))}, {"round": round_})
        self.checkpoint.save(epoch_step(1 + round_), state)
        append_line(self.journal, {"round": round_, "text": "x" * 200})

    def begin(self) -> None:
        """As a process does that goes on: it looks at the steps first."""
        self.checkpoint = CheckpointFolder(self.steps)
        self.checkpoint.load()

    def read(self) -> dict[str, int]:
        """The round of each, -1 where nothing was written yet; anything damaged is an error."""
        found = dict.fromkeys(KINDS, -1)
        if self.model.exists():
            found["model"] = round(1 / load_model(self.model).label_frequency_[0]) - 1
        loaded = CheckpointFolder(self.steps).load()
        if loaded is not None:
            step, state = loaded
            number = int(state.metadata["round"])
            if step != epoch_step(1 + number) or not (state.arrays["w"] == number).all():
                raise ViewgapError(f"{step} holds round {number}, or not all of it")
            found["checkpoint"] = number
        with warnings.catch_warnings():  # a torn last line is told and cut: as promised
            warnings.simplefilter("ignore", ViewgapWarning)
            lines = [line["round"] for line in read_lines(self.journal)]
        if lines != sorted(set(lines)):
            raise ViewgapError("rounds of the journal are not in order")
        found["journal"] = lines[-1] if lines else -1
        return found

    def leftovers(self) -> list[str]:
        """Temporary files and folders, at any depth."""
        return sorted(path.name for path in self.folder.rglob(".viewgap-*"))


def start_writer(places: Places, fitted: Any, first: int, told: int) -> int:
    """A process that writes round after round and tells of each on `told`; its number."""

    def work() -> None:
        places.begin()
        for number in range(first, first + 100_000):
            places.write(fitted, number)
            os.write(told, f"{number}\n".encode())

    return forked(work)


def written_until_killed(places: Places, fitted: Any, first: int, chance: random.Random) -> int:
    """Let a process write, kill it at a random time; the last round it told of."""
    told, tell = os.pipe()
    process = start_writer(places, fitted, first, tell)
    os.close(tell)
    with os.fdopen(told, "rb") as reader:
        head = reader.readline()  # the first round is done: leftovers must be gone
        left = places.leftovers() if head else []
        time.sleep(chance.uniform(0, LONGEST))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        rounds = [int(line) for line in (head + reader.read()).splitlines()]
    if not os.WIFSIGNALED(status) or not rounds:
        raise SystemExit(f"a writer ended by itself, with status {status}")
    own = f"-{process}-"
    if any(own not in name for name in left):
        raise SystemExit(f"the next writer left what a killed one had begun: {left}")
    return rounds[-1]


def kill_writers(kills: int, chance: random.Random, folder: Path) -> dict[str, Any]:
    """How often what is left was the last round, the next one, or anything else."""
    data = viewgap.load_dataset("synthetic", n_samples=40, seed=0)
    fitted = viewgap.LabelFrequency().fit(data.views, data.labels)
    places = Places(folder)
    counts = {kind: Counter[str]() for kind in KINDS}
    first, during, bad = 0, 0, []
    for number in range(kills):
        last = written_until_killed(places, fitted, first, chance)
        during += bool(places.leftovers())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ViewgapWarning)  # a damaged step would be told
                found = places.read()
        except (ViewgapError, ViewgapWarning) as error:
            bad.append(f"kill {number}: {error}")
            found = {}
        for kind in KINDS:
            place = {last: "the last round", last + 1: "the next round"}
            counts[kind][place.get(found.get(kind, -2), "neither")] += 1
        first = 2 + last  # never the number of a round that a killed writer has begun
    return {
        "kills": kills,
        "rounds": first,
        "killed with a file half written": during,
        "found": {kind: dict(own) for kind, own in counts.items()},
        "neither": sum(own["neither"] for own in counts.values()),
        "errors": bad,
    }


def main() -> None:
    """Print the counts; the exit code is 1 where something was neither old nor new."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the counts")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = kill_writers(arguments.kills, random.Random(arguments.seed), Path(folder))
    print(json.dumps(result, indent=1))
    keep(arguments.out, **result)
    sys.exit(result["neither"] > 0)


if __name__ == "__main__":
    main()
