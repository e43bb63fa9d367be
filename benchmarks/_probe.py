"""What is measured in a process of its own: `python -m benchmarks._probe NAME DEVICE full|quick`.

Memory that another figure used before would hide what this one needs. Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks._step import EpochEnds, LibraryStep, few_steps, state_bytes
from benchmarks.data import (
    SMALL_NETWORK,
    TINY,
    Shape,
    corel5k,
    make_model,
    naive_training,
    random_data,
    random_labels,
    with_gaps,
)
from benchmarks.machine import (
    give_back,
    peak_bytes,
    reference_precision,
    resident_bytes,
)
from benchmarks.record import Context
from viewgap.bench.run.provenance import forget_host_peak

FEW = 6
WIDE = (200, 100, 100)  # columns enough that the data outweigh the network
MANY_LABELS = Shape(
    512, (100,) * 6, 2000, (("hidden", (256,)), ("embedding", 128), ("codebook_size", 256))
)


def fit_host(context: Context, model_name: str, folder: str = "") -> dict[str, Any]:
    """Peak of a fit; `folder` holds views as .npy files, read as memory maps, and a label count."""
    shape = corel5k(context)
    if folder:
        files = sorted(Path(folder).glob("view*.npy"))
        maps = {path.stem: np.load(path, mmap_mode="r") for path in files}
        dims = tuple(x.shape[1] for x in maps.values())
        labels = int((Path(folder) / "labels").read_text(encoding="ascii"))
        shape = Shape(len(maps["view0"]), dims, labels, shape.sizes)
        views, Y = with_gaps(maps, random_labels(shape))
    else:
        views, Y = random_data(shape)
    model = make_model(model_name, context.device, shape, max_epochs=1)
    forget_host_peak()
    with few_steps(FEW):
        model.fit(views, Y)
    return {
        "peak": peak_bytes(),
        "state": state_bytes(model),
        "views": 4 * shape.n * sum(views.dims),
    }


def fit_gpu(context: Context, model_name: str) -> dict[str, Any]:
    """Peak of what a fit and the naive training allocate on the GPU."""
    shape = corel5k(context)
    views, Y = random_data(shape)
    model = make_model(model_name, context.device, shape, max_epochs=2)
    torch.cuda.reset_peak_memory_stats()
    model.fit(views, Y)
    peak = torch.cuda.max_memory_allocated()
    weights = {k: v.detach().clone() for k, v in model.network_.state_dict().items()}
    settings = model.settings_
    del model
    torch.cuda.empty_cache()
    naive = naive_training(views, Y, settings, weights, context.device)
    torch.cuda.reset_peak_memory_stats()
    with reference_precision(context.device):
        for _ in range(3):
            naive.step()
    return {"peak": peak, "naive": torch.cuda.max_memory_allocated()}


def growth(context: Context, n: str) -> dict[str, Any]:
    """Seconds per epoch of a small bare network on n rows, and the memory its fit adds."""
    for rows in (200, int(n)):  # the first fit loads what torch loads on first use
        shape = Shape(rows, WIDE, TINY.labels, SMALL_NETWORK[:-1])
        views, Y = random_data(shape)
        ends = EpochEnds()
        model = make_model("bare_network", context.device, shape, max_epochs=3, callbacks=[ends])
        before = _memory(context)
        model.fit(views, Y)
    return {"seconds": min(np.diff(ends.times)), "added": _peak(context) - before}


def many_labels(context: Context, which: str) -> dict[str, Any]:
    """Memory that a network and its steps add at 2,000 labels: the library's or the reference's."""
    shape = TINY if context.quick else MANY_LABELS
    views, Y = random_data(shape)
    step: Any = many_labels_step(context, shape, views, Y)
    settings, weights = step.settings, step.weights()
    del step
    before = _memory(context)
    if which == "library":
        step = many_labels_step(context, shape, views, Y)
    else:
        step = naive_training(views, Y, settings, weights, context.device).step
    with reference_precision(context.device):
        for _ in range(3):
            step()
    return {"added": _peak(context) - before}


def many_labels_step(context: Context, shape: Shape, views: Any, Y: Any) -> LibraryStep:
    return LibraryStep(
        make_model("bare_network", context.device, shape, validation_fraction=0.0), views, Y
    )


def _memory(context: Context) -> int:
    """What is held now; the peak counts from here."""
    if context.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    give_back()
    forget_host_peak()
    return resident_bytes()


def _peak(context: Context) -> int:
    return torch.cuda.max_memory_allocated() if context.device == "cuda" else peak_bytes()


def main() -> None:
    baseline = resident_bytes()  # interpreter, torch and this library, before any data
    name, device, size, *arguments = sys.argv[1:]
    found = globals()[name](Context(device, size == "quick"), *arguments)
    print(json.dumps(found | {"baseline": baseline}))


if __name__ == "__main__":
    main()
