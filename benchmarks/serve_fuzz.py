"""Malformed requests to the service: `python -m benchmarks.serve_fuzz [--count 10000] [--seed 0]`.

Sends damaged and hostile bodies to a real process on 127.0.0.1: right bodies with bytes changed,
JSON with values changed at any depth (NaN, infinities, numbers of hundreds of digits, text, nulls,
lists in lists), keys twice, deep nesting, damaged Parquet and Arrow, wrong content types, and
lengths that lie. Ends with 1 if an answer was 5xx other than 503, named a path or a traceback or
did not come, or if the process died. Prints the answers by kind as JSON.
"""

from __future__ import annotations

import argparse
import copy
import http.client
import io
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import viewgap
from benchmarks.machine import machine_name
from viewgap.decide.label_sets import LabelSets

PATHS = ("/predict", "/explain", "/decide", "/v2/models/m/infer")
LEAKS = re.compile(r"Traceback|File \"|site-packages|/tmp/|\.py\b")
TABLES = ("application/vnd.apache.parquet", "application/vnd.apache.arrow.stream")
RAW_VALUES = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e308", b"1e308", b"9" * 400, b"9" * 5000,
    b"-0", b"0.1e-400", b"null", b"true", b'"1"', b'"\\ud800"', b'"\\u0000"', b"[]", b"{}",
    b"[" * 200 + b"]" * 200, b'{"a":' * 100 + b"1" + b"}" * 100, b"\xff", b"\x00", b"", b"1 2",
)  # fmt: skip
VALUES = (
    None, True, False, 0, -1, 1e308, -1e308, 1e-320, 10**300, 10**400, 2**53 + 1, 2**63, -(2**70),
    "", "1", "NaN", "x" * 3000, "\ud800", "\x00", "../../etc/passwd", [], [None], [[]], [[[1]]],
    {}, {"a": {}}, {"": None}, {"genes": 3},
)  # fmt: skip


def fitted() -> tuple[Any, dict[str, Any], Any]:
    """A small model with two views, and rows to calibrate label sets with."""
    import pandas as pd

    draw = np.random.default_rng(0)
    X = {
        "genes": pd.DataFrame(draw.normal(size=(160, 3)), columns=["TP53", "MYC", "<b>"]),
        "proteins": pd.DataFrame(draw.normal(size=(160, 2)), columns=["p1", "p2"]),
    }
    y = pd.DataFrame({"high": X["genes"]["TP53"] > 0, "low": X["proteins"]["p1"] < 0}).astype(float)
    model = viewgap.LateFusionRidge().fit({name: x[:80] for name, x in X.items()}, y[:80])
    return model, {name: x[80:] for name, x in X.items()}, y[80:]


@contextmanager
def service(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`viewgap serve` with a model and label sets; the process and its port."""
    model, X, y = fitted()
    viewgap.save_model(model, folder / "m")
    LabelSets(model).calibrate(X, y).save(folder / "sets.json")
    command = [sys.executable, "-m", "viewgap", "serve", str(folder / "m"), "--port", "0"]
    command += ["--label-sets", str(folder / "sets.json"), "--timeout", "2"]
    command += ["--max-body", "100000", "--max-rows", "200", "--max-predictions", "400"]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log) as process,
    ):
        try:
            yield process, _port(process, folder / "log")
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=30)
            finally:
                process.kill()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    for _ in range(600):
        found = re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())
        if found:
            return int(found[1])
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit(f"the service did not start: {log.read_text()}")


# ---------------------------------------------------------------------- bodies


def right(path: str) -> dict[str, Any]:
    """A body that is answered with 200."""
    if path.startswith("/v2"):
        tensor = {"name": "genes", "shape": [2, 3], "datatype": "FP64", "data": [0.5] * 6}
        return {"id": "x", "inputs": [tensor], "outputs": [{"name": "probabilities"}]}
    rows = [
        {"id": "s0", "views": {"genes": {"TP53": 0.4, "MYC": None, "<b>": 1}, "proteins": None}},
        {"id": 1, "views": {"genes": [0.1, 0.2, 0.3], "proteins": {"p1": 1.5, "p2": -2}}},
    ]
    body = {"model": "m", "columns": {"genes": ["MYC", "<b>", "TP53"]}, "rows": rows}
    if path == "/explain":
        body |= {"labels": ["high"], "scale": "log_odds", "interactions": True}
    return body


def table(kind: str) -> bytes:
    """A table that is answered with 200."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = {f"genes:{name}": [0.5, None, 1.0] for name in ("TP53", "MYC", "<b>")}
    value, sink = pa.table({"id": ["a", "b", "c"], **columns}), io.BytesIO()
    if kind == TABLES[0]:
        parquet.write_table(value, sink)
    else:
        with pa.ipc.new_stream(sink, value.schema) as stream:
            stream.write_table(value)
    return sink.getvalue()


def damaged(draw: random.Random, body: bytes) -> bytes:
    """Some bytes changed, left out, doubled or put in."""
    found = bytearray(body)
    for _ in range(draw.randint(1, 5)):
        at, length = draw.randrange(len(found) + 1), draw.randint(0, 8)
        new = draw.choice([draw.randbytes(length), draw.choice(RAW_VALUES), found[at : at + 30]])
        found[at : at + draw.randint(0, 8)] = new
    if draw.random() < 0.1:
        del found[draw.randrange(len(found) + 1) :]
    return bytes(found)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a value with every key or index in it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(pairs):
        yield value, key
        if isinstance(item, (dict, list)):
            yield from places(item)


def other_values(draw: random.Random, path: str) -> bytes:
    """A right body with other values at some places."""
    value = copy.deepcopy(right(path))
    for _ in range(draw.randint(1, 3)):
        container, key = draw.choice(list(places(value)) or [(value, "rows")])
        change = draw.random()
        if change < 0.6:
            container[key] = copy.deepcopy(draw.choice(VALUES))
        elif isinstance(container, dict):
            item = container.pop(key, None)
            if change < 0.8:
                container[draw.choice(["", "id", "x" * 200, "\ud800", "rows ", "model"])] = item
        elif change < 0.8:
            container.append(copy.deepcopy(container[0]) if container else 1)
        else:
            container.clear()
    return json.dumps(value).encode()


def other_text(draw: random.Random, path: str) -> bytes:
    """A right body with another token somewhere: what `json` itself would not write."""
    text = json.dumps(right(path)).encode()
    tokens = list(re.finditer(rb'-?\d+\.?\d*|null|true|"[^"]*"', text))
    token = draw.choice(tokens)
    return text[: token.start()] + draw.choice(RAW_VALUES) + text[token.end() :]


def twice(draw: random.Random, path: str) -> bytes:
    """A right body with a key twice."""
    text = json.dumps(right(path))
    key = draw.choice(re.findall(r'"[^"]*":', text))
    return text.replace(key, f"{key} {draw.choice(['1', 'null', '[]', '{}'])}, {key}", 1).encode()


def nested(draw: random.Random, path: str) -> bytes:
    """Brackets in brackets."""
    depth = draw.choice([50, 1000, 20_000])
    opening, closing = draw.choice([(b"[", b"]"), (b'{"rows":', b"}"), (b'[{"a":', b"}]")])
    body = opening * depth + b"1" + closing * draw.choice([depth, 0])
    return draw.choice([body, b'{"rows": ' + body + b"}"])


Body = tuple[str, str, dict[str, str], bytes]


def request(draw: random.Random) -> Body:
    """The kind, path, headers and body of one request."""
    path = draw.choice(PATHS)
    headers = {"Content-Type": "application/json"}
    makers: dict[str, Callable[[random.Random, str], bytes]] = {
        "other values": other_values,
        "other text": other_text,
        "keys twice": twice,
        "nested": nested,
        "damaged": lambda draw, path: damaged(draw, json.dumps(right(path)).encode()),
    }
    kind = draw.choice([*makers, "table", "content type", "length"])
    if kind in makers:
        return kind, path, headers, makers[kind](draw, path)
    if kind == "table":
        media = draw.choice(TABLES)
        headers = {"Content-Type": media, "Accept": draw.choice(["*/*", "application/json", media])}
        return kind, "/predict", headers, damaged(draw, table(media))
    body = json.dumps(right(path)).encode()
    if kind == "content type":
        return kind, path, other_headers(draw), draw.choice([body, b"", draw.randbytes(50)])
    lengths = ["-1", "1e3", "", "9" * 30, "0", "3", str(len(body) - 1), "100001", "0x10", "+5"]
    return kind, path, headers | {"Content-Length": draw.choice(lengths)}, body


def other_headers(draw: random.Random) -> dict[str, str]:
    """Headers that do not fit the body."""
    kinds = ["", "text/plain", "application/json; charset=utf-16", "application/xml", "json",
             "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", *TABLES,
             "application/json, application/json", "a" * 3000]  # fmt: skip
    headers = {"Content-Type": draw.choice(kinds)}
    if draw.random() < 0.3:
        headers["Content-Encoding"] = draw.choice(["gzip", "br", "identity", "x"])
    if draw.random() < 0.3:
        headers["Accept"] = draw.choice(["", "*", "text/html", ";q", "*/*;q=nan", TABLES[0]])
    return headers


# ---------------------------------------------------------------------- sending


def send(connection: http.client.HTTPConnection, path: str, headers: Any, body: bytes) -> Any:
    """Status and body of the answer, 0 where none came in time; None for a closed connection."""
    try:
        connection.putrequest("POST", path)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    except TimeoutError:
        return 0, "no answer"
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def run(count: int, seed: int) -> dict[str, Any]:
    """Send the requests; counts by kind and status, and what is wrong."""
    draw, found, wrong = random.Random(seed), Counter[str](), []
    with tempfile.TemporaryDirectory() as name, service(Path(name)) as (process, port):
        for path in PATHS:  # right bodies are answered: else all of this would show nothing
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            sent = send(connection, path, {"Content-Type": "application/json"},
                        json.dumps(right(path)).encode())  # fmt: skip
            if sent is None or sent[0] != 200:
                raise SystemExit(f"{path}: a right body was not answered: {sent}")
        for number in range(count):
            kind, path, headers, body = request(draw)
            # A body that is shorter than stated is waited for until the time limit: of a few.
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            answer = send(connection, path, headers, body)
            status = "closed" if answer is None else str(answer[0])
            found[f"{kind}: {status}"] += 1
            bad = answer is not None and (
                answer[0] == 0 or (answer[0] >= 500 and answer[0] != 503) or LEAKS.search(answer[1])
            )
            if bad or (process.poll() is not None):
                wrong.append([number, kind, path, headers, repr(body[:2000]), answer])
            if process.poll() is not None:
                break
        alive = process.poll() is None
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        body = json.dumps(right("/predict")).encode()
        last = send(connection, "/predict", {"Content-Type": "application/json"}, body)
    return {
        "machine": machine_name("cpu"),
        "requests": sum(found.values()),
        "seed": seed,
        "alive": alive and last is not None and last[0] == 200,
        "statuses": dict(sorted(Counter(_by_status(found)).items())),
        "by_kind": dict(sorted(found.items())),
        "wrong": wrong,
    }


def _by_status(found: Counter[str]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for name, number in found.items():
        total[name.rpartition(": ")[2]] += number
    return total


def main() -> int:
    """Run, print, and tell by the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/serve_fuzz.json"))
    options = parser.parse_args()
    result = run(options.count, options.seed)
    text = json.dumps(result, indent=1)
    print(text)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text + "\n")
    return 0 if result["alive"] and not result["wrong"] else 1


if __name__ == "__main__":
    sys.exit(main())
