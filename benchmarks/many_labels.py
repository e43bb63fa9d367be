"""Memory and seconds against the number of labels, and accuracy of what is made for many of them.

    python -m benchmarks.many_labels growth
    python -m benchmarks.many_labels growth --labels 20000 --rows 1000000 --steps 8 --name million
    python -m benchmarks.many_labels accuracy --folds 0 1
    python -m benchmarks.many_labels correlation --set max_epochs=10
    python -m benchmarks.many_labels teacher --labels 2000 --weights 0.035 0.0047

`growth` fits SCSD on generated data, every number of labels in a process of its own: six views,
ten positives per sample whatever the number of labels, frequencies that fall as 1 / rank, and the
labels as a scipy sparse matrix. An epoch has `--steps` steps; held-out rows are scored after it,
and pooling and thresholds learned from them, as in any fit. Kept are CPU seconds, which other
programs on the machine change less than the time that passes, and the peak of resident memory
above that of the imported library. `--sparse no` hands the labels over as a dense matrix, and
computes all labels at once.

`accuracy` fits SCSD on the training rows of folds of a data set twice, as it is and with all that
is made for thousands of labels forced on (sparse labels, losses by blocks, scores and thresholds as
streams), and measures both on the validation rows. Test rows are never looked at. `--ways forced`
leaves the first one out.

`correlation` fits SCSD with fusion by label correlations on all labels. From the predictions of
single views on the validation rows the weights of the views are then computed by all labels, and by
the most frequent ones only, as `correlation_labels` has it: how far apart are they, and the AP?

`teacher` fits SCSD with each of the weights of the teacher (`distill_weight`) on 1,800 generated
samples whose labels can be learned, and measures it on 600 others.

Lines are added to `--out`, one per run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.machine import machine_name, peak_bytes, resident_bytes
from benchmarks.record import ROOT
from viewgap.training.callbacks import Callback, TrainingContext

OUT = ROOT / "benchmarks" / "many_labels.jsonl"
LABELS = (100, 1000, 5000, 20_000)
POSITIVES = 10  # of a sample
N_VIEWS, WIDTH = 6, 16
SIZES = {"hidden": [256], "embedding": 128, "codebook_size": 256}
HELD_OUT = 512
PREDICTED = 1024
GB = 1e9


def main(words: Sequence[str] | None = None) -> int:
    """Run one of the two; returns an exit code."""
    arguments = _parser().parse_args(words)
    if arguments.what == "child":
        print(json.dumps(grow(arguments)))
        return 0
    if arguments.what == "growth":
        for c in arguments.labels:
            _keep(arguments.out, _in_child(arguments, c))
        return 0
    if arguments.what == "teacher":
        for weight in arguments.weights:
            _keep(arguments.out, teach(arguments, weight))
        return 0
    measure = compare if arguments.what == "accuracy" else compare_weights
    for fold in arguments.folds:
        _keep(arguments.out, measure(arguments, fold))
    return 0


def _keep(out: Path, line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


# ---------------------------------------------------------------------- growth


def _in_child(arguments: argparse.Namespace, c: int) -> dict[str, Any]:
    names = ("rows", "steps", "seed", "threads", "sparse")
    words = [word for name in names for word in (f"--{name}", str(getattr(arguments, name)))]
    command = [sys.executable, "-m", "benchmarks.many_labels", "child", "--labels", str(c), *words]
    threads = {"OMP_NUM_THREADS": str(arguments.threads)}
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | threads, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return {"run": "growth", "name": arguments.name, "machine": machine_name("cpu")} | found


def make_views(n: int, seed: int) -> dict[str, Any]:
    """Six views; a third of the rows of each is missing, and no sample has none."""
    rng = np.random.default_rng(seed)
    views = {f"v{v}": rng.standard_normal((n, WIDTH), dtype=np.float32) for v in range(N_VIEWS)}
    missing = rng.random((n, N_VIEWS)) < 1 / 3
    missing[np.arange(n), rng.integers(0, N_VIEWS, n)] = False
    for v, values in enumerate(views.values()):
        values[missing[:, v]] = np.nan
    return views


def make_labels(n: int, c: int, seed: int) -> Any:
    """Ten positives per sample, drawn by frequency; a sparse matrix of ones, (n, c)."""
    rng = np.random.default_rng(seed + 1)
    shares = 1.0 / np.arange(1, c + 1)
    ends = np.cumsum(shares / shares.sum())
    columns = np.minimum(np.searchsorted(ends, rng.random((n, POSITIVES))), c - 1)
    rows = np.repeat(np.arange(n), POSITIVES)
    matrix = sparse.coo_array((np.ones(rows.size, np.float32), (rows, columns.ravel())), (n, c))
    labels = matrix.tocsr()
    labels.data[:] = 1  # a label that was drawn twice is there once
    return labels


def grow(arguments: argparse.Namespace) -> dict[str, Any]:
    """One fit and some predictions, in this process."""
    import viewgap
    from viewgap.data import SparseLabels
    from viewgap.metrics import evaluate_blocks
    from viewgap.prediction.blocks import predict_blocks
    from viewgap.training.batches.source import BatchSource

    (c,), n = arguments.labels, arguments.rows
    baseline = resident_bytes()
    views, Y = make_views(n, arguments.seed), make_labels(n, c, arguments.seed)
    X = viewgap.ViewSet(views)
    as_sparse = arguments.sparse == "yes"
    labels: Any = SparseLabels.from_sparse(Y) if as_sparse else Y.toarray()
    data = resident_bytes()
    every_batch = BatchSource.batches_of_epoch

    def some_batches(self: Any, size: int, generator: Any) -> Any:
        return [own[: arguments.steps] for own in every_batch(self, size, generator)]

    settings: dict[str, Any] = SIZES | {"n_networks": 1, "cross_fit": False, "batch_size": 256}
    # The same way for every number of labels; with --sparse no, the way of few labels.
    settings["label_block"] = 2048 if as_sparse else 0
    timer = StepTimer()
    BatchSource.batches_of_epoch = some_batches  # type: ignore[method-assign]
    model = viewgap.SCSD(
        max_epochs=1,
        min_epochs=0,
        device="cpu",
        precision="highest",
        random_state=arguments.seed,
        validation_fraction=HELD_OUT / n,
        callbacks=[timer],
        **settings,
    )
    start = time.process_time()
    model.fit(X, labels)
    fitted = time.process_time() - start
    few = X[np.arange(min(n, PREDICTED))]
    start = time.process_time()
    answers = (block.probabilities for block in predict_blocks(model, few))
    scores = evaluate_blocks(_beside(Y, answers))
    predicted = time.process_time() - start
    return {
        "labels": c,
        "rows": n,
        "steps": min(arguments.steps, -(-(n - HELD_OUT) // 256)),
        "sparse": as_sparse,
        "threads": arguments.threads,
        "seconds_fit": round(fitted, 2),
        "seconds_epoch": round(timer.seconds, 2),
        "seconds_predict_and_evaluate": round(predicted, 2),
        "rows_predicted": len(few),
        "gb_data": round((data - baseline) / GB, 3),
        "gb_peak": round((peak_bytes() - baseline) / GB, 3),
        "gb_weights": round(4 * sum(p.numel() for p in model.network_.parameters()) / GB, 3),
        "gb_process": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GB, 3),
        "AP": round(scores["AP"], 5),
    }


def _beside(Y: Any, answers: Any) -> Any:
    """Labels beside the probabilities of the same rows, block by block."""
    start = 0
    for probabilities in answers:
        yield Y[start : start + len(probabilities)].toarray(), probabilities
        start += len(probabilities)


class StepTimer(Callback):
    """CPU seconds of an epoch, with the score of the held-out rows at its end."""

    seconds = 0.0

    def on_epoch_begin(self, context: TrainingContext) -> None:
        """Start the clock."""
        self.start = time.process_time()

    def on_epoch_end(self, context: TrainingContext) -> None:
        """Stop the clock."""
        self.seconds += time.process_time() - self.start


# ---------------------------------------------------------------------- accuracy


def compare(arguments: argparse.Namespace, fold_number: int) -> dict[str, Any]:
    """Both fits of a fold, on its validation rows."""
    import viewgap
    from viewgap.cli.inputs import parse_settings
    from viewgap.data import SparseLabels, as_labels
    from viewgap.metrics import evaluate_all

    data = viewgap.load_dataset(arguments.dataset)
    fold = viewgap.data.make_fold(data.views, data.labels, seed=fold_number)
    (views, Y), (held_views, truth), _ = fold.split(data.views, data.labels)
    settings: dict[str, Any] = {"n_networks": 1, "cross_fit": False, "random_state": fold_number}
    settings |= parse_settings(arguments.set)
    line: dict[str, Any] = {
        "run": "accuracy",
        "name": arguments.name,
        "machine": machine_name("cpu"),
        "dataset": arguments.dataset,
        "fold": fold_number,
        "settings": settings,
    }
    forced = SparseLabels.from_labels(as_labels(Y, views))
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "dense": (Y, {}),
        "forced": (forced, {"label_block": 64}),
    }
    for way in arguments.ways:
        labels, more = ways[way]
        start = time.process_time()
        model = viewgap.SCSD(device="cpu", **settings | more).fit(views, labels)
        seconds = time.process_time() - start
        found = evaluate_all(truth, model.predict_proba(held_views), threshold=model.thresholds_)
        line[way] = {name: round(value, 5) for name, value in found.items()}
        line[way] |= {"best_epoch": model.best_epoch_, "seconds": round(seconds, 1)}
    return line


# ---------------------------------------------------------------------- correlation


def compare_weights(arguments: argparse.Namespace, fold_number: int) -> dict[str, Any]:
    """Weights of the views by the most frequent labels beside those by all labels."""
    import torch

    import viewgap
    from viewgap.cli.inputs import parse_settings
    from viewgap.metrics import average_precision
    from viewgap.nn.fusion import fusion_weights, label_correlation, view_quality

    data = viewgap.load_dataset(arguments.dataset)
    fold = viewgap.data.make_fold(data.views, data.labels, seed=fold_number)
    (views, Y), (held_views, truth), _ = fold.split(data.views, data.labels)
    settings: dict[str, Any] = {"n_networks": 1, "cross_fit": False, "random_state": fold_number}
    settings |= {"fusion": "label_correlation"} | parse_settings(arguments.set)
    model = viewgap.SCSD(device="cpu", **settings).fit(views, Y)
    answers = np.stack(list(model.predict_views(held_views).values()))
    single = torch.from_numpy(np.nan_to_num(answers))
    there = torch.from_numpy(np.array(held_views.observed))
    positives = torch.from_numpy((np.asarray(Y, dtype=np.float64) == 1).astype(np.float64))
    order = torch.argsort(positives.sum(dim=0), descending=True, stable=True)
    every = torch.ones(1, len(single), dtype=torch.bool)
    temperature = model.settings_.temperature

    def weights_and_ap(count: int) -> tuple[Any, float]:
        chosen = order[:count]
        target = label_correlation(positives[:, chosen])
        quality = view_quality(single[..., chosen], every[0], target)
        shares = fusion_weights(quality, there, temperature)
        fused = (shares.T.unsqueeze(-1) * single).sum(dim=0)
        of_all = fusion_weights(quality, every, temperature)[0]
        return of_all.numpy(), average_precision(truth, fused.numpy(), variant="clean")

    expected, ap = weights_and_ap(len(order))
    line: dict[str, Any] = {
        "run": "correlation",
        "name": arguments.name,
        "machine": machine_name("cpu"),
        "dataset": arguments.dataset,
        "fold": fold_number,
        "settings": settings,
        "weights": [round(value, 4) for value in expected.tolist()],
        "AP": round(ap, 5),
        "compared": {},
    }
    for count in (16, 32, 64, 128):
        found, own = weights_and_ap(count)
        apart = float(np.abs(found - expected).max())
        line["compared"][count] = {"weights_apart": round(apart, 4), "AP": round(own, 5)}
    return line


# ---------------------------------------------------------------------- teacher


def teach(arguments: argparse.Namespace, weight: float) -> dict[str, Any]:
    """One fit, and its metrics on samples that it has not seen."""
    import viewgap
    from viewgap.data import SparseLabels
    from viewgap.metrics import evaluate_blocks

    c, n, n_fitted, epochs = arguments.labels[0], 2400, 1800, 40
    rng = np.random.default_rng(arguments.seed)
    hidden = rng.normal(size=(n, 8))
    frequency = -0.8 * np.log(np.arange(1, c + 1))
    scores = 1.5 * hidden @ rng.normal(size=(8, c)) + frequency + rng.gumbel(size=(n, c))
    columns = np.argpartition(-scores, POSITIVES, axis=1)[:, :POSITIVES].ravel()
    rows = np.repeat(np.arange(n), POSITIVES)
    Y = sparse.coo_array((np.ones(rows.size), (rows, columns)), (n, c)).tocsr()
    views: dict[str, Any] = {}
    for v in range(3):
        values = hidden @ rng.normal(size=(8, WIDTH)) + 2 * rng.normal(size=(n, WIDTH))
        values[rng.random(n) < 1 / 3] = np.nan
        views[f"v{v}"] = values.astype(np.float32)
    views["v0"][np.isnan([values[:, 0] for values in views.values()]).all(axis=0)] = 0.0
    X = viewgap.ViewSet(views)
    settings: dict[str, Any] = {"hidden": [64], "embedding": 64, "codebook_size": 64}
    settings |= {"n_networks": 1, "cross_fit": False, "batch_size": 256, "learning_rate": 5e-3}
    settings |= {"max_epochs": epochs, "min_epochs": epochs, "label_block": 2048}
    model = viewgap.SCSD(device="cpu", random_state=0, distill_weight=weight, **settings)
    model.fit(X[:n_fitted], SparseLabels.from_sparse(Y[:n_fitted]))
    parts = np.array_split(np.arange(n_fitted, n), 6)
    found = evaluate_blocks((Y[part].toarray(), model.predict_proba(X[part])) for part in parts)
    line = {"run": "teacher", "name": arguments.name, "machine": machine_name("cpu"), "labels": c}
    scored = {name: round(value, 4) for name, value in found.items()}
    return line | {"distill_weight": weight, "settings": settings} | scored


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.many_labels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("growth", "accuracy", "correlation", "teacher", "child"))
    parser.add_argument("--labels", type=int, nargs="+", default=LABELS)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=12, help="steps of the one epoch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sparse", choices=("yes", "no"), default="yes")
    parser.add_argument("--dataset", default="corel5k")
    parser.add_argument("--folds", type=int, nargs="+", default=[0])
    parser.add_argument(
        "--ways", nargs="+", choices=("dense", "forced"), default=("dense", "forced")
    )
    parser.add_argument("--weights", type=float, nargs="+", default=[0.035])
    parser.add_argument("--set", nargs="*", default=[], help="settings of SCSD, key=value")
    parser.add_argument("--name", default="")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser


if __name__ == "__main__":
    sys.exit(main())
