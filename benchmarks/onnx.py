"""Rows a second and largest difference of ONNX Runtime against the library, within one run.

    python -m benchmarks.onnx [--data multidigits] [--out benchmarks/onnx.json]

For every pattern of missing views the answers are compared; for SCSD, the samples are counted whose
two nearest codes are within 1e-5 of each other in similarity in any segment of any network.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import viewgap
from viewgap.export.onnx_file import build

TIE = 1e-5
MODELS: dict[str, Any] = {
    "late_fusion_ridge": lambda: viewgap.LateFusionRidge(
        features="auto", random_state=0, on_empty="prior"
    ),
    "extra_trees": lambda: viewgap.ExtraTrees(n_estimators=20, random_state=0, on_empty="prior"),
    "scsd": lambda: viewgap.SCSD(max_epochs=5, random_state=0, device="cpu", on_empty="prior"),
}


def near_ties(model: Any, views: dict[str, Any]) -> Any:
    """Whether any of its codes is nearly a tie, (n, m)."""
    import torch
    from torch.nn import functional as F

    scaler, columns = model.scaler_, []
    for j, values in enumerate(views.values()):
        x = torch.from_numpy(scaler.apply(j, values, np.ones(len(values), dtype=bool)))
        near = np.zeros(len(values), dtype=bool)
        for network in model.network_.networks:
            with torch.no_grad():
                raw = network.encoders[j](x)
            unit = F.normalize(network.codebook.codes, dim=1)
            segments = F.normalize(raw.reshape(len(x), -1, network.codebook.code_dim), dim=2)
            best = (segments @ unit.T).topk(2, dim=2).values
            near |= ((best[..., 0] - best[..., 1]) < TIE).any(dim=1).numpy()
        columns.append(near)
    return np.stack(columns, axis=1)


def rows_per_second(function: Any, rows: int) -> float:
    """Best of three."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return rows / min(times)


def measure(name: str, train: dict[str, Any], labels: Any, test: dict[str, Any]) -> dict[str, Any]:
    """One method on one data set."""
    import onnxruntime

    model = MODELS[name]().fit(train, labels)
    data = build(model).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options)
    n = len(next(iter(test.values())))
    ties = near_ties(model, test) if name == "scsd" else None
    worst, worst_no_tie, tied, beyond = 0.0, 0.0, 0, 0
    for pattern in itertools.product([False, True], repeat=len(test)):
        seen = dict(zip(test, pattern, strict=True))
        shown = {k: v if seen[k] else np.full_like(v, np.nan) for k, v in test.items()}
        feed = dict(test) | {f"{k}:observed": np.full(n, seen[k]) for k in test}
        gap = np.abs(session.run(None, feed)[0] - model.predict_proba(shown)).max(axis=1)
        near = np.zeros(n, dtype=bool) if ties is None else (ties & np.array(pattern)).any(axis=1)
        worst, tied = max(worst, float(gap.max())), tied + int(near.sum())
        beyond += int((gap > 1e-5).sum())
        worst_no_tie = max(worst_no_tie, float(gap[~near].max(initial=0.0)))
    full = dict(test) | {f"{k}:observed": np.ones(n, dtype=bool) for k in test}
    return {
        "method": name,
        "rows": n,
        "patterns": 2 ** len(test),
        "bytes": len(data),
        "max_difference": worst,
        "max_difference_without_near_ties": worst_no_tie,
        "answers_beyond_1e-5": beyond,
        "answers_with_near_ties": tied,
        "answers": n * 2 ** len(test),
        "library_rows_per_second": round(rows_per_second(lambda: model.predict_proba(test), n)),
        "onnxruntime_rows_per_second": round(rows_per_second(lambda: session.run(None, full), n)),
    }


def data_sets() -> dict[str, tuple[dict[str, Any], Any, dict[str, Any]]]:
    """Training views, labels and test views of each data set."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1200, 30)).astype(np.float32)
    made = {"a": x[:, :12], "b": x[:, 12:22], "c": x[:, 22:]}
    labels = (x @ rng.normal(size=(30, 6)) > 0).astype(float)
    found = {"synthetic": (made, labels)}
    digits = viewgap.load_dataset("multidigits")
    views = {n: np.asarray(digits.views.rows(n), dtype=np.float32) for n in digits.views.names}
    found["multidigits"] = (views, np.asarray(digits.labels, dtype=float))
    result = {}
    for name, (own, y) in found.items():
        half = len(y) // 2
        first = {k: np.ascontiguousarray(v[:half]) for k, v in own.items()}
        result[name] = (first, y[:half], {k: v[half : half + 500].copy() for k, v in own.items()})
    return result


def main() -> None:
    """Measure all and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("onnx.json"))
    out = parser.parse_args().out
    warnings.simplefilter("ignore")
    lines = []
    for data, parts in data_sets().items():
        for name in MODELS:
            lines.append({"data": data, **measure(name, *parts)})
            print(json.dumps(lines[-1]), flush=True)
    machine = f"{platform.machine()}, one thread"
    out.write_text(json.dumps({"machine": machine, "measured": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
