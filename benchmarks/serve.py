"""Speed of the service beside the library: `python -m benchmarks.serve [--seconds 3]`.

`viewgap serve` runs in a process of its own; the clients are this one, over 127.0.0.1, each with a
connection that it keeps and a new request as soon as the answer is there. Requests are made
beforehand, answers are read but not parsed; the first one is compared with the library. In the same
run and in turn with the service, the library is called directly, by one thread: `predict_proba` of
the same rows as arrays, which no JSON has to be made of. Service and clients share the cores. Keeps
`serve.json`, and with `--write-docs` its table in `docs/serve.md`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import viewgap
from benchmarks.machine import machine_name

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs" / "serve.md"
METHODS: dict[str, Callable[[], Any]] = {
    "late_fusion_ridge": lambda: viewgap.LateFusionRidge(random_state=0),
    "extra_trees": lambda: viewgap.ExtraTrees(random_state=0),
    "scsd": lambda: viewgap.SCSD(random_state=0, max_epochs=10),
}
DIMS = {"a": 40, "b": 30, "c": 10}
N_LABELS, N_TRAIN = 12, 600
ROWS = (1, 256)
CLIENTS = (1, 4, 16, 64)
Seconds = list[float]


def data(n: int, seed: int) -> dict[str, Any]:
    """Views of n rows; a fifth of them lacks the last one."""
    rng = np.random.default_rng(seed)
    views = {name: rng.normal(size=(n, dim)) for name, dim in DIMS.items()}
    views["c"][rng.random(n) < 0.2] = np.nan
    return views


def fitted(name: str) -> Any:
    X = data(N_TRAIN, 0)
    first = np.nan_to_num(np.hstack(list(X.values())))
    rng = np.random.default_rng(1)
    labels = first @ rng.normal(size=(first.shape[1], N_LABELS)) > 0
    return METHODS[name]().fit(X, labels.astype(float))


def as_request(X: dict[str, Any], model: str) -> bytes:
    """An HTTP request with all rows as JSON."""

    def given(values: Any) -> Any:
        return None if np.isnan(values).all() else values.tolist()

    n = len(X["a"])
    rows = [{"views": {name: given(values[i]) for name, values in X.items()}} for i in range(n)]
    body = json.dumps({"rows": rows}).encode()
    head = (
        f"POST /predict?model={model} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


# ---------------------------------------------------------------------- the service


@contextmanager
def service(folder: Path) -> Iterator[int]:
    """`viewgap serve` of all models; its port."""
    folders = [str(folder / name) for name in METHODS if (folder / name).exists()]
    command = [sys.executable, "-m", "viewgap", "serve", *folders, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r":(\d+)$", line.strip())
            if found is None:
                raise RuntimeError(line + process.stderr.read())
            yield int(found[1])
        finally:
            process.send_signal(signal.SIGTERM)


async def one_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    assert length, head
    return int(head.split(b" ", 2)[1]), await reader.readexactly(int(length[1]))


async def client(port: int, requests: Sequence[bytes], end: float) -> tuple[Seconds, int]:
    """Seconds of every answered request until the end, and how many were refused."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    seconds, refused = [], 0
    while (start := time.perf_counter()) < end:
        writer.write(requests[len(seconds) % len(requests)])
        status, _ = await one_answer(reader)
        if status == 200:
            seconds.append(time.perf_counter() - start)
        else:
            refused += 1
    writer.close()
    return seconds, refused


async def load(port: int, requests: Sequence[bytes], clients: int, seconds: float) -> Any:
    """All clients at once; seconds of requests, number refused, and how long it took."""
    start = time.perf_counter()
    each = await asyncio.gather(*(client(port, requests, start + seconds) for _ in range(clients)))
    took = time.perf_counter() - start
    return [s for own, _ in each for s in own], sum(n for _, n in each), took


async def check(port: int, request: bytes, expected: Any) -> None:
    """The service answers what the library does, to the bit."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    status, body = await one_answer(reader)
    writer.close()
    assert status == 200, body
    rows = json.loads(body)["rows"]
    found = np.array([list(row["probabilities"].values()) for row in rows])
    np.testing.assert_array_equal(found, expected)


# ---------------------------------------------------------------------- figures


def library(model: Any, parts: Sequence[dict[str, Any]], seconds: float) -> tuple[Seconds, float]:
    """Seconds of every direct call, and how long all took."""
    found: Seconds = []
    start = time.perf_counter()
    while time.perf_counter() < start + seconds:
        before = time.perf_counter()
        model.predict_proba(parts[len(found) % len(parts)])
        found.append(time.perf_counter() - before)
    return found, time.perf_counter() - start


def summary(seconds: Seconds, took: float) -> dict[str, float]:
    return {
        "per_second": round(len(seconds) / took, 1),
        "p50_ms": round(1000 * float(np.percentile(seconds, 50)), 2),
        "p99_ms": round(1000 * float(np.percentile(seconds, 99)), 2),
        "n": len(seconds),
    }


def measure(
    port: int, name: str, model: Any, n_rows: int, clients: Sequence[int], seconds: float
) -> list[dict[str, Any]]:
    """One method and one size of request: library and service in turn, for all clients."""
    parts = [data(n_rows, seed) for seed in range(10, 26)]
    requests = [as_request(part, name) for part in parts]
    asyncio.run(check(port, requests[0], model.predict_proba(parts[0])))
    lines = []
    for count in clients:
        direct = summary(*library(model, parts, seconds / 2))
        times, refused, took = asyncio.run(load(port, requests, count, seconds))
        served = summary(times, took)
        lines.append(
            {
                "method": name,
                "rows": n_rows,
                "clients": count,
                "body_bytes": len(requests[0]),
                "service": served,
                "library": direct,
                "refused": refused,
                "requests_to_library_calls": round(served["per_second"] / direct["per_second"], 3),
                "p50_to_library": round(served["p50_ms"] / direct["p50_ms"], 2),
            }
        )
        print(json.dumps(lines[-1]), flush=True)
    return lines


def table(measured: Sequence[dict[str, Any]]) -> str:
    """The figures as a table of the documentation."""
    head = (
        "| method | rows | clients | requests/s | rows/s | p50 ms | p99 ms "
        "| library calls/s | library p50 ms | service / library |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    lines = []
    for own in measured:
        served, direct = own["service"], own["library"]
        lines.append(
            f"| {own['method']} | {own['rows']} | {own['clients']} | {served['per_second']:,.0f} "
            f"| {served['per_second'] * own['rows']:,.0f} | {served['p50_ms']:.1f} "
            f"| {served['p99_ms']:.1f} | {direct['per_second']:,.0f} | {direct['p50_ms']:.1f} "
            f"| {own['requests_to_library_calls']:.2f} |\n"
        )
    return head + "".join(lines)


def write_docs(kept: dict[str, Any]) -> None:
    """Put the table between its marks."""
    start, end = "<!-- serve -->\n", "<!-- /serve -->"
    text = DOCS.read_text(encoding="utf-8")
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    shown = f"{kept['machine']}; {kept['note']}.\n\n{table(kept['measured'])}"
    DOCS.write_text(before + start + shown + end + after, encoding="utf-8")


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="per figure")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--note", default="nothing else ran", help="on the state of the machine")
    parser.add_argument("--out", type=Path, default=HERE / "serve.json")
    parser.add_argument("--write-docs", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    models = {name: fitted(name) for name in given.methods}
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models.items():
            viewgap.save_model(model, Path(folder) / name)
        with service(Path(folder)) as port:
            for name, model in models.items():
                for n_rows in ROWS:
                    measured += measure(port, name, model, n_rows, given.clients, given.seconds)
    kept = {
        "machine": machine_name("cpu"),
        "note": given.note,
        "seconds": given.seconds,
        "shapes": {"views": DIMS, "labels": N_LABELS},
        "measured": measured,
    }
    given.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if given.write_docs:
        write_docs(kept)


if __name__ == "__main__":
    main()
