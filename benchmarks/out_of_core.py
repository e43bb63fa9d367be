"""Fits and predictions on data that stay on disk: peak memory, and rows per second beside memory.

`python -m benchmarks.out_of_core` makes data with a seed and measures every kind of file in a
process of its own: one fit (`--epochs`), a prediction in blocks, and the most memory that the
process ever had in use. The ratio of the rows per second is of training steps that alternate
between the arrays in memory and the files, in one process: two processes one after the other would
compare what else the machine had to do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("memory", "npy", "memmap", "h5", "zarr", "parquet")
BLOCK = 16_384
MISSING = 0.2  # share of the rows that lack a view
QUICK = {"rows": 3000, "widths": "6,4", "labels": 3}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.out_of_core", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--widths", default="40,40,32,16,16,8", help="columns of each view")
    parser.add_argument("--labels", type=int, default=20)
    parser.add_argument("--kinds", default="memory,npy,h5,zarr", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--figures", default="fits,ratios", help="of fits, ratios")
    parser.add_argument("--networks", type=int, default=1, help="networks of the committee")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--window", type=int, default=0, help="rows shuffled together")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of runs of steps, for ratios")
    parser.add_argument("--steps", type=int, default=200, help="steps of a run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="where the data lie, or are to be made")
    parser.add_argument("--out", help="JSON file that gets the figures; others in it stay")
    parser.add_argument("--quick", action="store_true", help="tiny shapes")
    parser.add_argument("--one", choices=("fit", "ratio"), help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.quick:
        parser.set_defaults(**QUICK, pairs=1, steps=3)
        return parser.parse_args(arguments)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.one:
        print(json.dumps({"fit": measure_fit, "ratio": measure_ratio}[options.one](options)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.folder or temporary)
        report = run_all(options, folder)
    if options.out and Path(options.out).exists():
        report = joined(json.loads(Path(options.out).read_text(encoding="utf-8")), report)
    text = json.dumps(report, indent=1)
    print(text)
    if options.out:
        Path(options.out).write_text(text + "\n", encoding="utf-8")
    return 0


def joined(kept: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """Figures of an earlier run on the same data that this one has not measured, and its own."""
    tables = ("fits", "ratios")
    other = [name for name in report if name not in tables and kept.get(name) != report[name]]
    if other:
        raise SystemExit(f"the kept figures are of another run: {', '.join(other)} differ")
    return report | {name: kept[name] | report[name] for name in tables}


def run_all(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Every kind in a process of its own."""
    import torch

    kinds = options.kinds.split(",")
    for kind in {"npy", *kinds}:
        make(kind, folder, options)
    report: dict[str, Any] = {
        "rows": options.rows,
        "widths": widths_of(options),
        "labels": options.labels,
        "networks": options.networks,
        "epochs": options.epochs,
        "seed": options.seed,
        "values_mib": round(4 * options.rows * sum(widths_of(options)) / 2**20),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, torch {torch.__version__}",
        "fits": {},
        "ratios": {},
    }
    for kind in kinds if "fits" in options.figures.split(",") else ():
        report["fits"][kind] = child("fit", kind, folder, options)
        print(kind, report["fits"][kind], file=sys.stderr, flush=True)
    for kind in kinds if "ratios" in options.figures.split(",") else ():
        if kind != "memory" and options.pairs:
            report["ratios"][kind] = child("ratio", kind, folder, options)
            print(kind, report["ratios"][kind], file=sys.stderr, flush=True)
    return report


def child(what: str, kind: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--one", what, "--kind", kind]
    command += ["--folder", str(folder)]
    for name in ("rows", "widths", "labels", "networks", "epochs", "window"):
        command += [f"--{name}", str(getattr(options, name))]
    for name in ("pairs", "steps", "seed"):
        command += [f"--{name}", str(getattr(options, name))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# ---------------------------------------------------------------------- data


def widths_of(options: argparse.Namespace) -> list[int]:
    return [int(width) for width in options.widths.split(",")]


def blocks(options: argparse.Namespace, view: int) -> Iterator[np.ndarray[Any, Any]]:
    """Values of a view, block by block: some signal that all views share, and noise."""
    width = widths_of(options)[view]
    mixing = np.random.default_rng((options.seed, view)).normal(size=(8, width))
    for number, start in enumerate(range(0, options.rows, BLOCK)):
        count = min(BLOCK, options.rows - start)
        rng = np.random.default_rng((options.seed, view, number))
        values = latent(options, number, count) @ mixing + rng.normal(size=(count, width))
        if view:  # every row has the first view
            values[rng.random(count) < MISSING] = np.nan
        yield values.astype(np.float32)


def latent(options: argparse.Namespace, number: int, count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng((options.seed, 10**6, number)).normal(size=(count, 8))


def labels_of(options: argparse.Namespace) -> np.ndarray[Any, Any]:
    mixing = np.random.default_rng((options.seed, 10**7)).normal(size=(8, options.labels))
    starts = range(0, options.rows, BLOCK)
    parts = [latent(options, i, min(BLOCK, options.rows - s)) for i, s in enumerate(starts)]
    return np.vstack([(part @ mixing > 2.0).astype(np.uint8) for part in parts])


def make(kind: str, folder: Path, options: argparse.Namespace) -> None:
    """Write the data as one kind of file, unless they are there already."""
    if kind in ("memory", "memmap"):
        kind = "npy"
    place = folder / kind
    if place.exists():
        return
    place.mkdir(parents=True)
    WRITERS[kind](place, options)


def write_npy(place: Path, options: argparse.Namespace) -> None:
    for view, width in enumerate(widths_of(options)):
        file = np.lib.format.open_memmap(
            place / f"view{view}.npy", mode="w+", dtype=np.float32, shape=(options.rows, width)
        )
        for number, values in enumerate(blocks(options, view)):
            file[number * BLOCK : number * BLOCK + len(values)] = values
        file.flush()
    np.save(place / "labels.npy", labels_of(options))


def write_h5(place: Path, options: argparse.Namespace) -> None:
    import h5py

    with h5py.File(place / "data.h5", "w") as file:
        for view, width in enumerate(widths_of(options)):
            shape, chunks = (options.rows, width), (min(1024, options.rows), width)
            stored = file.create_dataset(f"views/view{view}", shape, np.float32, chunks=chunks)
            for number, values in enumerate(blocks(options, view)):
                stored[number * BLOCK : number * BLOCK + len(values)] = values
        file["labels"] = labels_of(options)


def write_zarr(place: Path, options: argparse.Namespace) -> None:
    import zarr

    root = zarr.open_group(place / "data.zarr", mode="w")
    group = root.create_group("views")
    for view, width in enumerate(widths_of(options)):
        shape, chunks = (options.rows, width), (min(4096, options.rows), width)
        stored = group.create_array(f"view{view}", shape=shape, chunks=chunks, dtype="float32")
        for number, values in enumerate(blocks(options, view)):
            stored[number * BLOCK : number * BLOCK + len(values)] = values
    labels = labels_of(options)
    root.create_array("labels", data=labels)


def write_parquet(place: Path, options: argparse.Namespace) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    def write(name: str, parts: Iterator[np.ndarray[Any, Any]]) -> None:
        writer, start = None, 0
        for values in parts:
            ids = pa.array([f"s{i}" for i in range(start, start + len(values))])
            start += len(values)
            columns = {"id": ids} | {f"c{j}": pa.array(own) for j, own in enumerate(values.T)}
            table = pa.table(columns)
            writer = writer or parquet.ParquetWriter(place / f"{name}.parquet", table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()

    for view in range(len(widths_of(options))):
        write(f"view{view}", blocks(options, view))
    write("labels", iter([labels_of(options)]))


WRITERS = {"npy": write_npy, "h5": write_h5, "zarr": write_zarr, "parquet": write_parquet}


def load(kind: str, folder: Path, options: argparse.Namespace) -> tuple[Any, Any]:
    """Views and labels of the files, or of the same arrays in memory."""
    from viewgap.data import read_data
    from viewgap.data.viewset import ViewSet

    if kind in ("memory", "memmap"):
        mode = "r" if kind == "memmap" else None
        names = [f"view{view}" for view in range(len(widths_of(options)))]
        arrays = {name: np.load(folder / "npy" / f"{name}.npy", mmap_mode=mode) for name in names}
        return ViewSet(arrays), np.load(folder / "npy" / "labels.npy")
    path = folder / kind
    data = read_data(path / f"data.{kind}" if kind in ("h5", "zarr") else path)
    return data.views, data.labels


# ---------------------------------------------------------------------- figures


class Memory:
    """The most memory of this process: all of it, and without pages of files."""

    def __init__(self) -> None:
        self.anonymous = 0
        self._stop = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            self.anonymous = max(self.anonymous, _status("RssAnon"))

    def mib(self) -> dict[str, int]:
        self._stop.set()
        own = max(self.anonymous, _status("RssAnon"))
        return {"peak_mib": round(_status("VmHWM") / 1024), "anonymous_mib": round(own / 1024)}


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def make_model(options: argparse.Namespace, **more: Any) -> Any:
    import viewgap

    return viewgap.SCSD(
        n_networks=options.networks,
        cross_fit=options.networks > 1,
        max_epochs=options.epochs,
        min_epochs=1,
        shuffle_window=options.window,
        random_state=0,
        device="cpu",
        **more,
    )


def measure_fit(options: argparse.Namespace) -> dict[str, Any]:
    """Peak memory and seconds of a fit and of a prediction in blocks."""
    from viewgap.prediction.blocks import predict_blocks
    from viewgap.training.callbacks import Callback

    memory, began = Memory(), time.perf_counter()
    views, labels = load(options.kind, Path(options.folder), options)
    loaded = time.perf_counter()
    epochs: list[float] = []

    class Clock(Callback):  # type: ignore[misc]
        def on_epoch_begin(self, context: Any) -> None:
            epochs.append(-time.perf_counter())

        def on_epoch_end(self, context: Any) -> None:
            epochs[-1] += time.perf_counter()

    model = make_model(options, callbacks=[Clock()]).fit(views, labels)
    fitted = time.perf_counter()
    after_fit = memory.mib()
    total = sum(float(block.probabilities.sum()) for block in predict_blocks(model, views))
    return {
        "seconds_reading": round(loaded - began, 2),
        "seconds_before_epochs": round(fitted - loaded - sum(epochs), 2),
        "seconds_epoch": round(statistics.mean(epochs), 2),
        "seconds_predicting": round(time.perf_counter() - fitted, 2),
        "after_fit": after_fit,
        **Memory().mib(),
        "sum_of_answers": total,
    }


def measure_ratio(options: argparse.Namespace) -> dict[str, Any]:
    """Rows per second of training on files beside training in memory, in turns."""
    import torch

    from viewgap.data.preprocessing import Standardiser
    from viewgap.data.validation import as_labels
    from viewgap.training.batches.source import BatchSource
    from viewgap.training.fit_state import FitState
    from viewgap.training.runtime import choose_runtime
    from viewgap.training.steps.epoch import PlainSteps, make_optimiser

    runtime, busy = choose_runtime("cpu"), os.getloadavg()[0]
    runs, stops = {}, []
    for kind in ("memory", options.kind):
        views, y = load(kind, Path(options.folder), options)
        labels = as_labels(y, views)
        model = make_model(options)
        settings = model._resolve(labels.n_labels, None)
        network = model._make(views.dims, labels.n_labels, settings, torch.Generator())
        network.prepare(labels)
        noise, order = torch.Generator().manual_seed(0), torch.Generator().manual_seed(1)
        network.use_noise(noise)
        state = FitState(network.train(), make_optimiser(network, settings), order, noise, True)
        scaler = Standardiser.fit(views, features=settings.features)
        source = BatchSource(views, labels, scaler, runtime, shuffle_window=settings.shuffle_window)
        batches = source.batches_of_epoch(settings.batch_size, order)
        steps = PlainSteps(state, source, settings)
        runs[kind] = (steps, batches)
        stops.append(steps.close)
    seconds: dict[str, list[float]] = {kind: [] for kind in runs}
    with runtime.active(), runtime.threads_for(network.work):
        for number in range(options.pairs + 1):
            turns = list(runs.items())
            for kind, (steps, batches) in turns if number % 2 else turns[::-1]:
                size = min(options.steps, len(batches[0]))
                start = number * size % max(1, len(batches[0]) - size + 1)
                began = time.perf_counter()
                steps.run([own[start : start + size] for own in batches])
                seconds[kind].append(time.perf_counter() - began)
    for stop in stops:
        stop()
    rows = size * settings.batch_size
    first, second = (seconds[kind][1:] for kind in runs)
    ratios = sorted(a / b for a, b in zip(first, second, strict=True))
    return {
        "rows_per_second_memory": round(rows / statistics.median(first)),
        "rows_per_second": round(rows / statistics.median(second)),
        "pairs": options.pairs,
        "steps": size,
        "load_average_before": round(busy, 1),
        "ratio": round(statistics.median(ratios), 3),
        "ratio_quartiles": [round(q, 3) for q in np.quantile(ratios, [0.25, 0.75])],
    }


if __name__ == "__main__":
    sys.exit(main())
