"""Kills fits at random times and lets them go on: do they end in the bits of an unbroken fit?

    python -m benchmarks.resume                            # 25 kills of SCSD, 25 of the ensemble
    python -m benchmarks.resume --methods all --kills 1600 --out benchmarks/resume.json
    python -m benchmarks.resume --methods scsd rank --kills 20 --spaced

Every fit runs in a process of its own with `checkpoint_dir`, is killed by SIGKILL at a time drawn
evenly over the length of a whole fit, and goes on in a new process with `resume=True`. The hash of
all arrays and metadata of the model is compared with that of a fit that nobody interrupted. A fit
that had ended before its kill came is no kill; another one is drawn. Processes are forked, so that
none has to import torch again: needs Linux or macOS.

Both processes note the epochs that they begin and end. An epoch that had ended and was computed
again is lost: at most one may be. Steps are written after every epoch here; with `--spaced` as a
fit spaces them (writing takes a tenth of its time at most), and then no epoch may be computed again
that a written step holds. `--out` adds the figures to a file after every method, so that a run
which is cut short has shown what it did.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a forked process has only one of the threads

import numpy as np

import viewgap
import viewgap.ensemble.estimator
import viewgap.methods as methods
import viewgap.methods.scsd
from benchmarks.experiments import forked
from benchmarks.machine import machine_name
from viewgap.data.viewset import ViewSet
from viewgap.training import checkpointing
from viewgap.training.callbacks import TrainingContext

SIZES = {False: (240, 40), True: (80, 6)}  # rows and epochs
SCSD = {"n_networks": 3, "hidden": (32,), "embedding": 16}
NARROW = {
    "batch_size": 32,
    "codebook_size": 16,
    "embedding": 16,
    "feed_forward": 32,
    "hidden": (16,),
    "layers": 1,
    "wide": 16,
}


def deep_methods() -> list[str]:
    """Every method that keeps checkpoints, the ensemble last."""
    found = [name for name in methods.names() if methods.get(name).keeps_checkpoints]
    return sorted(found, key=lambda name: name == "ensemble")


def make_model(name: str, epochs: int) -> Any:
    """A small model that trains for so many epochs, an ensemble for half of them."""
    if name == "ensemble":
        members = {
            "late_fusion_ridge": {},
            "scsd": SCSD | {"patience": epochs, "max_epochs": epochs // 2},
            "extra_trees": {"n_estimators": 20, "n_jobs": 1},
        }
        return viewgap.Ensemble(methods=members, random_state=0, device="cpu")
    kind = methods.get(name)
    known = kind._get_param_names()
    size = SCSD if name == "scsd" else {key: NARROW[key] for key in NARROW if key in known}
    return kind(**size, patience=epochs, max_epochs=epochs, random_state=0, device="cpu")


def make_data(n: int) -> tuple[ViewSet, np.ndarray]:
    """Two views, one of them missing for a third of the rows; some labels not observed."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(n, 12)), rng.normal(size=(n, 8))
    Y = np.column_stack([a[:, :2] > 0, b[:, :2] > 0.5]).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    observed = np.ones((n, 2), dtype=bool)
    observed[::3, 1] = False
    return ViewSet({"a": a, "b": b}, observed=observed), Y


def bits(model: Any) -> str:
    """Hash of everything that a fitted model knows."""
    state = model._get_state()
    digest = hashlib.sha256(repr(sorted(state.metadata.items())).encode())
    for name in sorted(state.arrays):
        array = np.asarray(state.arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


# ------------------------------------------------------------------ epochs, as processes note them


class Noted(checkpointing.EpochCheckpoints):
    """Checkpoints whose fit notes every epoch it begins, ends and has written, line by line."""

    notes: Path

    def _note(self, what: str, epoch: int) -> None:
        line = json.dumps([str(self._folder.path), what, epoch]) + "\n"
        with self.notes.open("a") as file:
            file.write(line)

    def on_epoch_begin(self, context: TrainingContext) -> None:
        """Before any work of the epoch."""
        self._note("begun", context.epoch)

    def on_epoch_end(self, context: TrainingContext) -> None:
        """All work of the epoch is done; only its step is not written."""
        self._note("ended", context.epoch)
        written = self._written
        super().on_epoch_end(context)
        if self._written != written:
            self._note("written", context.epoch)


def read_notes(path: Path) -> dict[tuple[str, str], list[int]]:
    """Epochs by folder and by what happened to them."""
    found: dict[tuple[str, str], list[int]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        folder, what, epoch = json.loads(line)
        found.setdefault((folder, what), []).append(epoch)
    return found


def epochs_lost(before: Path, after: Path) -> tuple[int, int]:
    """Ended epochs that were computed again: all, and those of them that a step held."""
    old, new = read_notes(before), read_notes(after)
    lost = held = 0
    for (folder, what), epochs in new.items():
        if what == "begun":
            lost += max(0, max(old.get((folder, "ended"), [0])) - min(epochs) + 1)
            held += max(0, max(old.get((folder, "written"), [0])) - min(epochs) + 1)
    return lost, held


# ------------------------------------------------------------------ fits that are killed


class KilledFits:
    """Fits of one method in processes of their own."""

    def __init__(self, name: str, folder: Path, small: bool, spaced: bool) -> None:
        self.name, self.small, self.spaced = name, small, spaced
        self.run, self.result = folder / "run", folder / "result"
        self.before, self.after = folder / "before", folder / "after"
        make_model(name, 2)._check_parameters()  # imports what processes would have to import each

    def start(self, notes: Path | None) -> int:
        """Fit in a new process, which writes the hash of its model; returns its number."""

        def work() -> None:
            kept: dict[str, Any] = {}
            if notes is not None:
                self._note_epochs(notes)
                kept = {"checkpoint_dir": self.run, "resume": (self.run / "fit.json").exists()}
            rows, epochs = SIZES[self.small]
            model = make_model(self.name, epochs).fit(*make_data(rows), **kept)
            self.result.write_text(bits(model))

        return forked(work)

    def _note_epochs(self, notes: Path) -> None:
        import viewgap.methods.deep as deep

        Noted.notes = notes
        deep.EpochCheckpoints = Noted  # type: ignore[misc]
        if not self.spaced:
            checkpointing.SPACING = 0.0

    def whole(self, notes: Path | None) -> tuple[str, float]:
        """Hash and seconds of a fit that nobody interrupts from here on."""
        start = time.monotonic()
        _, status = os.waitpid(self.start(notes), 0)
        if status != 0:
            raise SystemExit(f"a fit of {self.name} ended with status {status}")
        return self.result.read_text(), time.monotonic() - start

    def killed_after(self, seconds: float) -> str | None:
        """Kill a fit after a while; where it was, None if it had ended."""
        process, end = self.start(self.before), time.monotonic() + seconds
        while time.monotonic() < end:
            if os.waitpid(process, os.WNOHANG)[0]:
                return None
            time.sleep(0.001)
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if not os.WIFSIGNALED(status):
            return None
        if not (self.run / "fit.json").exists():
            return "before it began"
        return "in training" if list(self.run.rglob("latest.json")) else "before the first step"

    def clear(self) -> None:
        """As if nothing had been fitted."""
        shutil.rmtree(self.run, ignore_errors=True)
        for path in (self.before, self.after, self.result):
            path.unlink(missing_ok=True)


def kill_and_resume(fits: KilledFits, kills: int, chance: random.Random) -> dict[str, Any]:
    """Kill so many fits of a method, let each go on, and compare."""
    whole, _ = fits.whole(None)
    fits.clear()
    _, seconds = fits.whole(fits.before)  # with checkpoints: as long as what is killed
    places: Counter[str] = Counter()
    lost: Counter[int] = Counter()
    equal = held = 0
    while sum(places.values()) < kills:
        fits.clear()
        start = time.monotonic()
        place = fits.killed_after(chance.uniform(0, seconds))
        if place is None:  # other work on the machine had made the first one slow
            seconds = min(seconds, time.monotonic() - start)
        else:
            places[place] += 1
            equal += fits.whole(fits.after)[0] == whole
            again, again_though_written = epochs_lost(fits.before, fits.after)
            lost[again] += 1
            held += again_though_written
    fits.clear()
    return {
        "method": fits.name,
        "kills": kills,
        "bit-equal": equal,
        "killed": dict(places),
        "epochs lost": {str(number): lost[number] for number in sorted(lost)},
        "written epochs computed again": held,
    }


def is_as_promised(line: dict[str, Any], spaced: bool) -> bool:
    """Equal bits, no written epoch twice, and at most one epoch lost where each is written."""
    most = max(map(int, line["epochs lost"]), default=0)
    kept = line["written epochs computed again"] == 0 and (spaced or most <= 1)
    return bool(line["bit-equal"] == line["kills"] and kept)


def main() -> None:
    """Print the table; the exit code is 1 where a fit differs or an epoch too many was lost."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50, help="in all")
    parser.add_argument("--methods", nargs="+", default=["scsd", "ensemble"], metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="a few rows and epochs")
    parser.add_argument("--spaced", action="store_true", help="steps as a fit spaces them")
    parser.add_argument("--out", type=Path, help="JSON file that the figures are added to")
    arguments = parser.parse_args()
    out = arguments.out
    earlier = json.loads(out.read_text())["runs"] if out and out.exists() else []
    names = deep_methods() if arguments.methods == ["all"] else arguments.methods
    lines: list[dict[str, Any]] = []
    share = -(-arguments.kills // len(names))
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(names):
            kills = max(0, min(share, arguments.kills - number * share))
            fits = KilledFits(name, Path(folder), arguments.small, arguments.spaced)
            chance = random.Random(f"{arguments.seed} {name}")
            lines.append(kill_and_resume(fits, kills, chance))
            print(json.dumps(lines[-1]), flush=True)
            if out:
                kept = {"machine": machine_name("cpu"), "arguments": sys.argv[1:], "methods": lines}
                out.write_text(json.dumps({"runs": [*earlier, kept]}, indent=1) + "\n")
    equal = sum(line["bit-equal"] for line in lines)
    print(f"{equal} of {sum(line['kills'] for line in lines)} bit-equal")
    sys.exit(not all(is_as_promised(line, arguments.spaced) for line in lines))


if __name__ == "__main__":
    main()
