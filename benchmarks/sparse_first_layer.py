"""The first layer of a network on a sparse view: sparse products beside those of dense rows.

`python -m benchmarks.sparse_first_layer` measures processor time, on one thread, of what a step of
training does there: standardised rows (x - mean) * scale times the weights, and the gradient of the
weights. Centred columns are not sparse: the sparse form multiplies what is stored, and adds what
all zeros together give, one row for the whole batch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

CASES = ((256, 20_000, 0.01, 256), (256, 20_000, 0.01, 2048), (256, 3000, 0.03, 256))
REPEATS = 9


def milliseconds(work: Callable[[], Any], repeats: int) -> float:
    """Median of the processor time; other processes on the machine do not count."""
    work()
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return round(1000 * statistics.median(taken), 2)


def as_torch(matrix: Any) -> Tensor:
    parts = (torch.from_numpy(np.asarray(part)) for part in (matrix.indptr, matrix.indices))
    return torch.sparse_csr_tensor(*parts, torch.from_numpy(matrix.data), matrix.shape)


def measure(
    rows: int, columns: int, density: float, units: int, repeats: int = REPEATS
) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    stored = sparse.csr_array(
        sparse.random(rows, columns, density, format="csr", dtype=np.float32, rng=rng)
    )
    offset = torch.from_numpy(rng.normal(size=columns).astype(np.float32))  # what a zero becomes
    weight = torch.from_numpy(rng.normal(size=(units, columns)).astype(np.float32))
    gradient = torch.from_numpy(rng.normal(size=(rows, units)).astype(np.float32))
    some, other = as_torch(stored), as_torch(sparse.csr_array(stored.T))

    def densify() -> Tensor:
        return torch.from_numpy(stored.toarray()) + offset

    x = densify()

    def sparse_forward() -> Tensor:
        return some @ weight.T + weight @ offset

    def sparse_backward() -> Tensor:
        product = (
            other @ gradient
        ).T  # the layout of the weights, which the optimiser goes through
        return product + torch.outer(gradient.sum(dim=0), offset)

    apart = [
        float((a - b).abs().max() / b.abs().max())
        for a, b in ((sparse_forward(), x @ weight.T), (sparse_backward(), gradient.T @ x))
    ]
    return {
        "rows": rows,
        "columns": columns,
        "density": density,
        "units": units,
        "ms_densify": milliseconds(densify, repeats),
        "ms_dense_forward": milliseconds(lambda: x @ weight.T, repeats),
        "ms_dense_backward": milliseconds(lambda: gradient.T @ x, repeats),
        "ms_sparse_forward": milliseconds(sparse_forward, repeats),
        "ms_sparse_backward": milliseconds(sparse_backward, repeats),
        "largest_relative_difference": max(apart),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sparse_first_layer", description=__doc__
    )
    parser.add_argument("--out", help="JSON file that gets the figures")
    parser.add_argument("--quick", action="store_true", help="tiny shapes")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", message="Sparse ", category=UserWarning)
    torch.set_num_threads(1)
    cases = [measure(8, 200, 0.02, 4, 1)] if options.quick else [measure(*case) for case in CASES]
    text = json.dumps({"torch": torch.__version__, "cases": cases}, indent=1)
    print(text)
    if options.out:
        Path(options.out).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
