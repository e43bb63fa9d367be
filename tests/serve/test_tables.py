"""Parquet and Arrow bodies: the bits of JSON, and nothing that a few bytes could blow up."""

from __future__ import annotations

import io
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from service_calls import JSON, LABELS, call, calls, frames, post, row
from viewgap.serve import ServiceSettings, create_app
from viewgap.serve.tables import ARROW, PARQUET

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def app(folder: Path) -> Any:
    return create_app([folder], ServiceSettings(max_body=200_000, max_rows=50))


def table(n: int = 20) -> Any:
    parts = {
        f"{view}:{name}": pa.array(values[name].iloc[:n].to_numpy())
        for view, values in frames().items()
        for name in values.columns
    }
    return pa.table({"id": [f"s{i}" for i in range(n)], **parts})


def content(value: Any, kind: str, **options: Any) -> bytes:
    sink = io.BytesIO()
    if kind == PARQUET:
        parquet.write_table(value, sink, **options)
    else:
        with pa.ipc.new_stream(sink, value.schema, **options) as stream:
            stream.write_table(value)
    return sink.getvalue()


def send(app: Any, body: bytes, kind: str, **headers: str) -> Any:
    own = {"Content-Type": kind, **headers}
    return call(app, "POST", "/predict", content=body, headers=own)


def read(body: bytes, kind: str) -> Any:
    if kind == PARQUET:
        return parquet.read_table(io.BytesIO(body))
    return pa.ipc.open_stream(body).read_all()


def error(answer: Any, status: int = 400) -> str:
    assert answer.status_code == status, answer.text
    found = answer.json()["error"]
    return f"{found['field']}: {found['message']}"


@pytest.mark.parametrize("kind", [PARQUET, ARROW])
def test_answers_are_those_of_json(app: Any, kind: str) -> None:
    X = frames()
    expected = post(app, {"rows": [row(X, i) for i in range(20)]}).json()
    answer = send(app, content(table(), kind), kind)
    assert answer.headers["content-type"] == kind
    found = read(answer.content, kind)
    assert found.column_names == ["id", "no_view", *LABELS, *(f"decision:{n}" for n in LABELS)]
    for line, other in zip(found.to_pylist(), expected["rows"], strict=True):
        assert (line["id"], line["no_view"]) == (other["id"], other["no_view"])
        for label in LABELS:
            assert line[label] == other["probabilities"][label]
            assert line[f"decision:{label}"] == other["decisions"][label]
    head = json.loads(found.schema.metadata[b"viewgap"])
    assert head == {"model": "cells", "version": 1, "notes": []}
    as_json = send(app, content(table(), kind), kind, Accept="application/json")
    assert as_json.json() == expected


@pytest.mark.parametrize("kind", [PARQUET, ARROW])
def test_absent_views_null_rows_and_null_values(app: Any, model: Any, kind: str) -> None:
    X = {name: values.iloc[:20].copy() for name, values in frames().items()}
    whole = table().drop_columns(["id", "proteins:p1", "proteins:p2"])
    found = read(send(app, content(whole, kind), kind).content, kind)
    expected = model.predict_proba({"genes": X["genes"], "proteins": None})
    np.testing.assert_array_equal(found.select(LABELS).to_pandas(), expected)
    assert found.column("id").to_pylist() == list(range(20))
    for name, rows in (("proteins:p1", (3,)), ("proteins:p2", (3,)), ("genes:MYC", (5, 6))):
        view, column = name.split(":")
        X[view].loc[[f"s{i}" for i in rows], column] = np.nan
    value = table()
    for view, values in X.items():
        for name in values.columns:
            at = value.column_names.index(f"{view}:{name}")
            numbers = pa.array(values[name], from_pandas=True)
            value = value.set_column(at, f"{view}:{name}", numbers)
    found = read(send(app, content(value, kind), kind).content, kind)
    np.testing.assert_array_equal(found.select(LABELS).to_pandas(), model.predict_proba(X))


def test_a_file_of_pandas_with_whole_numbers_as_ids(app: Any) -> None:
    data = table().drop_columns(["id"]).to_pandas()
    data.index = pd.Index(range(100, 120), name="id")
    sink = io.BytesIO()
    data.to_parquet(sink)  # a range: pandas writes no column for it
    assert "index=True" in error(send(app, sink.getvalue(), PARQUET))
    sink = io.BytesIO()
    data.to_parquet(sink, index=True)
    found = read(send(app, sink.getvalue(), PARQUET).content, PARQUET)
    assert found.column("id").to_pylist() == list(range(100, 120))


def test_json_rows_may_be_answered_by_a_table(app: Any) -> None:
    X = frames()
    rows = [row(X, 0), row(X, 1)]
    headers = JSON | {"Accept": f"application/json;q=0.5, {ARROW}"}
    answer = call(app, "POST", "/predict", json={"rows": rows}, headers=headers)
    assert read(answer.content, ARROW).column("id").to_pylist() == ["s0", "s1"]
    del rows[1]["id"]
    answer = call(app, "POST", "/predict", json={"rows": rows}, headers=headers)
    assert error(answer).startswith("rows[1].id: ")
    for accept in ("text/csv", "application/json;q=0", "application/json;q=x"):
        answer = call(
            app, "POST", "/predict", json={"rows": rows[:1]}, headers=JSON | {"Accept": accept}
        )
        assert error(answer, 406).startswith("Accept: ")


def changed(name: str, values: Any) -> Any:
    value = table()
    return value.set_column(value.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize("kind", [PARQUET, ARROW])
@pytest.mark.parametrize(
    ("value", "start"),
    [
        (table().append_column("lipids:x", pa.array([1.0] * 20)), "lipids:x: unknown column"),
        (table().append_column("<b>", pa.array([1.0] * 20)), "<b>: unknown column"),
        (table().drop_columns(["genes:MYC"]), "genes:MYC: 1 of 3 columns are absent"),
        (changed("genes:MYC", ["1"] * 20), "genes:MYC: expected numbers, found string"),
        (changed("genes:MYC", [True] * 20), "genes:MYC: expected numbers, found bool"),
        (changed("genes:MYC", [[1.0]] * 20), "genes:MYC: expected numbers, found list"),
        (changed("id", [1.5] * 20), "id: expected text or whole numbers, found double"),
        (changed("id", ["x"] * 20), "rows[1].id: "),
        (changed("id", ["x", None] * 10), "id[1]: "),
        (changed("id", ["x" * 5_000, *map(str, range(19))]), "id: an id of more than"),
        (table().drop_columns(["id"]).slice(0, 0), "None: the table has no rows"),
        (changed("genes:MYC", [float("inf")] * 20), "None: "),
    ],
)
def test_other_tables_are_refused_with_the_column(
    app: Any, kind: str, value: Any, start: str
) -> None:
    assert error(send(app, content(value, kind), kind)).startswith(start)


@pytest.mark.parametrize("kind", [PARQUET, ARROW])
def test_an_empty_or_cut_body_is_refused(app: Any, kind: str) -> None:
    whole = content(table(3), kind)
    for n in (0, 1, 4, 8, len(whole) // 2):
        assert "not a readable" in error(send(app, whole[:n], kind))


def test_too_many_rows_are_413(app: Any) -> None:
    value = pa.concat_tables([table(20).drop_columns(["id"])] * 3)
    for kind in (PARQUET, ARROW):
        assert "60 rows" in error(send(app, content(value, kind), kind), 413) or kind == ARROW
        assert send(app, content(value, kind), kind).status_code == 413


def test_compression_without_a_small_limit_is_not_read(app: Any) -> None:
    for codec in ("ZSTD", "GZIP", "BROTLI", "LZ4"):
        found = error(send(app, content(table(), PARQUET, compression=codec), PARQUET))
        assert "SNAPPY" in found
    for codec in ("lz4", "zstd"):
        options = pa.ipc.IpcWriteOptions(compression=codec)
        body = content(table(), ARROW, options=options)
        assert "without compression" in error(send(app, body, ARROW))


def test_dictionaries_are_not_read_from_a_stream(app: Any) -> None:
    value = table()
    value = value.set_column(0, "id", value.column("id").dictionary_encode())
    assert "id: expected text" in error(send(app, content(value, ARROW), ARROW))


def test_ids_of_a_page_each_are_refused_before_they_fill_the_memory(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every id repeats the one before and adds nothing: a file of 150 kB is 50 times as much."""
    long = "x" * 100_000
    value = changed("id", [long] * 20)
    options = {"use_dictionary": False, "column_encoding": {"id": "DELTA_BYTE_ARRAY"}}
    body = content(value, PARQUET, **options)
    assert len(body) < 200_000
    sizes: list[int] = []
    whole = parquet.ParquetFile.iter_batches

    def watched(self: Any, size: int, **more: Any) -> Any:
        sizes.append(size)
        return whole(self, size, **more)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", watched)
    assert "an id of more than" in error(send(app, body, PARQUET))
    assert sizes[0] * len(body) * 24 <= 64 * 2**20


def test_without_pyarrow_it_is_said_what_to_install(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [own for own in sys.modules if own.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    for kind in (PARQUET, ARROW):
        assert "pip install" in error(send(app, b"", kind), 415)
    headers = JSON | {"Accept": PARQUET}
    body = {"rows": [{"views": {}}]}
    assert "pip install" in error(call(app, "POST", "/predict", json=body, headers=headers), 406)
    assert post(app, body).status_code == 200


def test_a_model_whose_columns_would_have_one_name(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    X = {
        "a": pd.DataFrame(draw.normal(size=(30, 1)), columns=["b:c"]),
        "a:b": pd.DataFrame(draw.normal(size=(30, 1)), columns=["c"]),
    }
    model = viewgap.LateFusionRidge().fit(X, (X["a"].to_numpy() > 0).astype(float))
    viewgap.save_model(model, tmp_path / "m")
    app = create_app([tmp_path / "m"])
    body = content(pa.table({"a:b:c": [1.0]}), PARQUET)
    assert "send JSON" in error(send(app, body, PARQUET))


@pytest.mark.parametrize("kind", [PARQUET, ARROW])
def test_damaged_tables_are_never_an_error_of_the_server(app: Any, kind: str) -> None:
    draw, whole = random.Random(0), content(table(3), kind)
    requests = []
    for _ in range(150):
        body = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(body))
            body[at : at + draw.randint(0, 4)] = draw.randbytes(draw.randint(0, 4))
        headers = {"Content-Type": kind}
        requests.append(("POST", "/predict", {"content": bytes(body), "headers": headers}))
    found = []
    for part in range(0, 150, 50):
        found += [answer.status_code for answer in calls(app, requests[part : part + 50])]
    assert set(found) <= {200, 400, 413}
    assert found.count(400) > 30
