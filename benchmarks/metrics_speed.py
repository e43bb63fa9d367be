"""Time of the six metrics against plain loops over samples, depths and label pairs.

Run: python benchmarks/metrics_speed.py

The reference computes the same six figures the way evaluation scripts of the field do, in
O(n c^2) steps, with numpy inside the innermost loop. Both run on the same data in the same process
and must agree to 1e-12; what counts is the ratio, which does not depend on the machine's speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from viewgap.metrics.evaluation import field_metrics

Array = NDArray[np.float64]
SIZES = ((750, 260, 3.4), (3750, 300, 4.7))


def reference(Y: Array, P: Array) -> dict[str, float]:
    """The six metrics (field variant) by loops."""
    n, c = Y.shape
    ranks = np.zeros((n, c), dtype=int)
    for i in range(n):
        ranks[i, np.argsort(P[i], kind="stable")] = np.arange(c, 0, -1)
    precision = loss = top = depth = 0.0
    for i in range(n):
        positives, negatives = np.flatnonzero(Y[i] == 1), np.flatnonzero(Y[i] == 0)
        top += Y[i, np.argmax(P[i])]
        depth += (max(ranks[i, positives], default=0) - 1) / c
        wrong = 0
        for a in positives:
            precision += sum(ranks[i, positives] <= ranks[i, a]) / ranks[i, a] / len(positives)
            for b in negatives:
                wrong += P[i, b] >= P[i, a]
        loss += wrong / max(len(positives) * len(negatives), 1)
    return {
        "AP": precision / n,
        "1-HL": float(np.mean((P > 0.5) == Y)),
        "1-RL": 1 - loss / n,
        "AUC": reference_auc(Y, ranks),
        "1-OE": top / n,
        "1-Cov": 1 - depth / n,
    }


def reference_auc(Y: Array, ranks: NDArray[np.int64]) -> float:
    """Adapted AUC: for every depth, for every sample, count what is declared positive."""
    n, c = Y.shape
    rates = np.zeros((c, 2))
    for depth in range(1, c + 1):
        hits = alarms = 0
        for i in range(n):
            found = int(np.count_nonzero(Y[i, ranks[i] <= depth]))
            hits += found
            alarms += depth - found
        rates[depth - 1] = alarms / (n * c - Y.sum()), hits / Y.sum()
    area = np.sum(np.diff(rates[:, 0]) * (rates[1:, 1] + rates[:-1, 1]) / 2)
    return float(area / (1 - rates[0, 0]))


def compare(Y: Array, P: Array) -> tuple[float, float]:
    """Seconds of the reference and of `field_metrics` on the same data."""
    start = time.perf_counter()
    expected = reference(Y, P)
    slow = time.perf_counter() - start
    found = field_metrics(Y, P)
    worst = max(abs(found[key] - expected[key]) for key in expected)
    assert worst < 1e-12, (found, expected)
    return slow, best_time(lambda: field_metrics(Y, P), 20)


def best_time(call: Callable[[], object], repeats: int) -> float:
    """Shortest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print one line per size and kind of scores."""
    rng = np.random.default_rng(0)
    for n, c, cardinality in SIZES:
        Y = (rng.random((n, c)) < cardinality / c).astype(float)
        untied = rng.random((n, c))
        for kind, P in (("no ties", untied), ("many ties", untied.round(2))):
            slow, fast = compare(Y, P)
            print(
                f"evaluate, {n} x {c}, {kind}: {slow / fast:.0f} times as fast as loops "
                f"({1000 * fast:.1f} ms, loops {1000 * slow:.0f} ms)"
            )


if __name__ == "__main__":
    main()
