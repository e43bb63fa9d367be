"""`viewgap.BatchPredictor`: batches of one wide table, however it is cut, with the same bits."""

from __future__ import annotations

import pickle
import shutil
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import viewgap
from viewgap.cli import run
from viewgap.errors import (
    DataFileError,
    ModelFileError,
    SettingError,
    ViewError,
    ViewgapWarning,
)
from viewgap.prediction import batches

N = 40
COLUMNS = {"blood": ["x", "y", "z"], "scan": ["p", "q"]}
METHODS: dict[str, Any] = {
    "late_fusion_ridge": viewgap.LateFusionRidge(),
    "extra_trees": viewgap.ExtraTrees(n_estimators=4, random_state=0),
    "scsd": viewgap.SCSD(
        n_networks=2, max_epochs=2, codebook_size=16, embedding=16, hidden=(32,), batch_size=32,
        device="cpu", random_state=0,
    ),
    "cdmm": viewgap.CDMM(),  # solves with all rows at once: its last bits depend on the batch
}  # fmt: skip


def wide_table(seed: int = 0, ids: Any = None) -> pd.DataFrame:
    """Samples with both views, one of them, none, and single missing values."""
    rng = np.random.default_rng(seed)
    names = [f"{view}:{column}" for view, own in COLUMNS.items() for column in own]
    table = pd.DataFrame(rng.normal(size=(N, len(names))), columns=names)
    table.loc[::5, ["scan:p", "scan:q"]] = np.nan
    table.loc[1::7, ["blood:x", "blood:y", "blood:z"]] = np.nan
    table.loc[15, names] = np.nan
    table.loc[[2, 11], "blood:y"] = np.nan
    table.insert(0, "id", [f"s{i:02d}" for i in range(N)] if ids is None else ids)
    return table


def views_of(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    indexed = table.set_index("id")
    return {
        view: indexed[[f"{view}:{name}" for name in own]].set_axis(own, axis=1)
        for view, own in COLUMNS.items()
    }


def labels() -> pd.DataFrame:
    table = wide_table()
    first = (table["blood:x"].fillna(0) > 0).astype(float)
    second = (table["scan:p"].fillna(0) > 0.3).astype(float)
    truth = pd.DataFrame({"ill": first, "at risk": second, "never seen": np.nan})
    return truth.set_axis(table["id"], axis=0)


@pytest.fixture(scope="module", params=METHODS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of each method."""
    return save(METHODS[request.param], tmp_path_factory.mktemp(request.param) / "model")


@pytest.fixture(scope="module")
def ridge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(METHODS["late_fusion_ridge"], tmp_path_factory.mktemp("ridge") / "model")


def save(method: Any, path: Path, y: Any = None, overwrite: bool = False) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViewgapWarning)  # a label never seen, a row without views
        fitted = clone(method).set_params(on_empty="prior")
        fitted.fit(views_of(wide_table()), labels() if y is None else y)
    viewgap.save_model(fitted, path, overwrite=overwrite)
    return path


quiet = pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")


def predictor(path: Path, **options: Any) -> viewgap.BatchPredictor:
    return viewgap.BatchPredictor(path, **{"id_column": "id", "what": "both", **options})


def in_arrow(table: pd.DataFrame) -> pa.RecordBatch:
    return pa.RecordBatch.from_pandas(table, preserve_index=False)


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one, other, check_exact=True)


# ---------------------------------------------------------------------------------- same answers


@quiet
def test_answers_are_those_of_the_model(folder: Path) -> None:
    answers = predictor(folder)(wide_table())
    fitted = viewgap.load_model(folder).set_params(on_empty="prior")
    views = viewgap.ViewSet(views_of(wide_table()))
    rows = [fitted.predict_proba(views[[i]]) for i in range(N)]  # one by one, as rows are
    probabilities = np.concatenate([np.asarray(row) for row in rows])
    np.testing.assert_array_equal(answers[["ill", "at risk", "never seen"]], probabilities)
    decided = answers[["decision:ill", "decision:at risk"]].to_numpy()
    np.testing.assert_array_equal(decided, (probabilities > fitted.thresholds_)[:, :2])
    assert answers["decision:never seen"].isna().all()
    assert answers["no_view"].to_numpy().nonzero()[0].tolist() == [15]
    assert answers["id"].tolist() == wide_table()["id"].tolist()


@quiet
@pytest.mark.parametrize("odd", ["", None, float(2**60), "s01"])
def test_ids_of_a_batch_are_given_back_whatever_they_are(ridge: Path, odd: Any) -> None:
    table = wide_table()
    table["id"] = [odd, *table["id"][1:]]
    answers = predictor(ridge)(table)
    assert answers["id"].tolist()[1:] == table["id"].tolist()[1:]
    assert answers["id"].tolist()[0] == odd or odd is None
    same(answers.drop(columns="id"), predictor(ridge)(wide_table()).drop(columns="id"))


@quiet
@settings(max_examples=15)
@given(cuts=st.lists(st.integers(0, N), max_size=4), arrow=st.booleans())
def test_the_same_bits_however_the_table_is_cut(folder: Path, cuts: list[int], arrow: bool) -> None:
    table, predict = wide_table(), predictor(folder)
    whole = predict(table)
    ends = [0, *sorted(cuts), N]
    parts = [table.iloc[a:b] for a, b in pairwise(ends)]
    given_parts = [in_arrow(part) for part in parts] if arrow else parts
    found = list(predict(iter(given_parts)))
    assert [len(one) for one in found] == [len(part) for part in parts]
    if arrow:
        joined = pa.Table.from_batches(found).to_pandas()
        same(joined.astype(whole.dtypes.to_dict()), whole)
    else:
        same(pd.concat(found), whole)


@quiet
def test_the_command_line_answers_the_same(ridge: Path, tmp_path: Path) -> None:
    table = wide_table()
    table.to_parquet(tmp_path / "wide.parquet", index=False)
    out = tmp_path / "answers.parquet"
    command = ["predict", str(ridge), str(tmp_path / "wide.parquet"), "--what", "both"]
    assert run([*command, "--out", str(out)]) == 0
    expected = pd.read_parquet(out).rename(columns={"sample": "id"})
    found = predictor(ridge)(table)
    assert list(found.columns) == list(expected.columns)
    same(found.astype(expected.dtypes.to_dict()), expected)


@quiet
def test_nothing_is_read_before_it_is_asked_for(ridge: Path) -> None:
    read = []

    def rows() -> Iterator[pd.DataFrame]:
        for number in range(3):
            read.append(number)
            yield wide_table()

    answers = viewgap.predict_batches(rows(), ridge, id_column="id")
    assert read == []
    assert list(next(answers).columns) == ["id", "no_view", "ill", "at risk", "never seen"]
    assert read == [0]


# ---------------------------------------------------------------------------------- views, columns


@quiet
def test_a_view_without_columns_is_missing(ridge: Path) -> None:
    table = wide_table()
    blood = [name for name in table if not name.startswith("scan")]
    hidden = table.copy()
    hidden.loc[:, ["scan:p", "scan:q"]] = np.nan
    same(predictor(ridge)(table[blood]), predictor(ridge)(hidden))
    with pytest.warns(ViewgapWarning, match="views not given, treated as missing: scan"):
        predictor(ridge)(table[blood])


def test_some_columns_of_a_view_are_refused_by_name(ridge: Path) -> None:
    with pytest.raises(ViewError, match=r"view 'blood': 1 of the 3 columns .* absent: y"):
        predictor(ridge)(wide_table().drop(columns="blood:y"))


@quiet
def test_columns_are_matched_by_name_and_others_left_out_with_a_warning(ridge: Path) -> None:
    table, predict = wide_table(), predictor(ridge)
    turned = table[table.columns[::-1]].assign(site="north")
    same(predict(turned), predict(table))
    with pytest.warns(ViewgapWarning, match="1 columns belong to no view and are not read: site"):
        predict(turned)


@quiet
def test_columns_of_views_can_be_told(ridge: Path) -> None:
    table = wide_table()
    plain = table.rename(columns=lambda name: name.rpartition(":")[2]).assign(ill=1.0)
    told = predictor(ridge, views={"blood": ["x", "y", "z"], "scan": ["p", "q*"]})
    same(told(plain), predictor(ridge)(table))
    with pytest.raises(DataFileError, match=r"the batch: no column is named 'r\*' \(of view 'sc"):
        predictor(ridge, views={"blood": ["x", "y", "z"], "scan": "r*"})(plain)
    with pytest.raises(DataFileError, match="in two views"):
        predictor(ridge, views={"blood": "*", "scan": ["p", "q"]})(plain)
    with pytest.raises(DataFileError, match="which of them make up which view"):
        predictor(ridge)(plain)


def test_other_views_only_are_refused(ridge: Path) -> None:
    with pytest.raises(ViewError, match="none of the views is one that the model was fitted on"):
        predictor(ridge)(pd.DataFrame({"id": [1], "urine:x": [1.0]}))


# ---------------------------------------------------------------------------------- arrays


def with_arrays(table: pd.DataFrame) -> pd.DataFrame:
    """Every view as one column of arrays, null where it is missing."""
    found = table[["id"]].copy()
    for view, own in COLUMNS.items():
        part = table[[f"{view}:{name}" for name in own]]
        rows = [None if row.isna().all() else row.to_numpy() for _, row in part.iterrows()]
        found[view] = pd.Series(rows, index=table.index, dtype=object)
    return found


LISTS = {
    "list": pa.list_(pa.float64()),
    "large_list": pa.large_list(pa.float64()),
    "fixed_size_list": None,  # as wide as the view
}


def arrays_in_arrow(table: pd.DataFrame, kind: str) -> pa.RecordBatch:
    columns = {"id": pa.array(table["id"])}
    for view, own in COLUMNS.items():
        width = len(own)
        type_ = LISTS[kind] or pa.list_(pa.float64(), width)
        rows = [
            None if row is None else [None if np.isnan(v) else float(v) for v in row]
            for row in table[view]
        ]
        columns[view] = pa.array(rows, type_)
    return pa.RecordBatch.from_pydict(columns)


@quiet
def test_a_view_may_be_one_column_of_arrays(folder: Path) -> None:
    table, predict = wide_table(), predictor(folder)
    expected, arrays = predict(table), with_arrays(table)
    same(predict(arrays), expected)
    same(predict(arrays[["scan", "id", "blood"]].assign(site="north")), expected)
    mixed = arrays.drop(columns="scan").join(table[["scan:q", "scan:p"]])
    same(predict(mixed), expected)
    lists = arrays.assign(
        blood=[None if row is None else [None if np.isnan(v) else v for v in row]
               for row in arrays["blood"]]
    )  # fmt: skip
    same(predict(lists), expected)
    told = predictor(folder, views={"blood": "b", "scan": "s"})
    same(told(arrays.rename(columns={"blood": "b", "scan": "s"})), expected)


@quiet
@pytest.mark.parametrize("kind", LISTS)
def test_arrays_of_arrow_are_the_same(ridge: Path, kind: str) -> None:
    expected = predictor(ridge)(wide_table())
    batch = arrays_in_arrow(with_arrays(wide_table()), kind)
    parts = [batch.slice(a, b - a) for a, b in pairwise([0, 0, 3, 17, N])]
    for incoming in (parts, [pa.Table.from_batches([part]) for part in parts]):
        found = list(predictor(ridge)(incoming))
        assert [len(own) for own in found] == [0, 3, 14, N - 17]
        whole = [label for own in found for label in own.column("ill").to_pylist()]
        assert whole == expected["ill"].tolist()


@quiet
@pytest.mark.parametrize("form", ["pandas", "arrow", "null"])
def test_a_part_in_which_all_arrays_are_null_lacks_the_view(ridge: Path, form: str) -> None:
    table = wide_table()
    expected = predictor(ridge)(table.drop(columns=["scan:p", "scan:q"]))
    arrays = with_arrays(table).assign(scan=pd.Series([None] * N, dtype=object))
    batch: Any = arrays
    if form != "pandas":
        batch = arrays_in_arrow(arrays, "list")
    if form == "null":
        batch = batch.set_column(batch.schema.get_field_index("scan"), "scan", pa.nulls(N))
    found = predictor(ridge)(batch)
    assert list(found["ill"].tolist() if form == "pandas" else found["ill"].to_pylist()) == (
        expected["ill"].tolist()
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], "an array of 3 values, .* found an array of 2 values; null stands for"),
        ([], "found an array of 0 values"),
        (["1", "2", "3"], "expected an array of numbers|holds list.*string|holds string"),
    ],
)
def test_an_array_that_is_no_row_of_the_view_is_refused(
    ridge: Path, value: list[Any], message: str
) -> None:
    table = with_arrays(wide_table())
    table.at[4, "blood"] = value
    with pytest.raises(ViewError, match=rf"column 'blood', sample 's04': .*({message})"):
        predictor(ridge)(table)
    texts = any(isinstance(item, str) for item in value)
    column = pa.array([value] * 2 if texts else [[1.0] * 3, value])
    batch = pa.RecordBatch.from_pydict({"id": ["s03", "s04"], "blood": column})
    with pytest.raises(ViewError, match=rf"column 'blood'.*({message})"):
        predictor(ridge)(batch)


def test_a_view_that_is_there_twice_is_refused(ridge: Path) -> None:
    table = with_arrays(wide_table()).join(wide_table()[["blood:x"]])
    with pytest.raises(ViewError, match="view 'blood' is there twice, as a column of arrays and"):
        predictor(ridge)(table)


# ---------------------------------------------------------------------------------- ids


@quiet
@pytest.mark.parametrize(
    "ids",
    [range(N), ["same"] * N, [None, *range(1, N)], pd.date_range("2020-01-01", periods=N)],
    ids=["numbers", "repeated", "nulls", "dates"],
)
def test_ids_are_kept_as_they_are(ridge: Path, ids: Any) -> None:
    table = wide_table(ids=list(ids))
    answers = predictor(ridge)(table)
    pd.testing.assert_series_equal(answers["id"], table["id"])
    same(answers.drop(columns="id"), predictor(ridge)(wide_table()).drop(columns="id"))
    batch = in_arrow(table)
    (kept,) = predictor(ridge)([batch])
    assert isinstance(kept, pa.RecordBatch)
    assert kept.column("id").equals(batch.column("id"))
    assert kept.schema.field("id") == batch.schema.field("id")


@quiet
def test_without_an_id_column_the_index_is_kept(ridge: Path) -> None:
    table = wide_table().set_index("id")
    answers = predictor(ridge, id_column=None)(table)
    assert answers.index.equals(table.index)
    assert list(answers.columns)[:2] == ["no_view", "ill"]
    found = predictor(ridge, id_column=None)(in_arrow(table))
    assert found.schema.names == list(answers.columns)


def test_an_absent_id_column_is_refused(ridge: Path) -> None:
    with pytest.raises(ViewError, match=r"no column is named 'patient' \(id_column\); found id"):
        predictor(ridge, id_column="patient")(wide_table())


@pytest.mark.parametrize("form", [lambda table: table, in_arrow])
def test_a_column_that_is_there_twice_is_refused(ridge: Path, form: Any) -> None:
    table = wide_table()
    twice = form(table)
    if isinstance(twice, pa.RecordBatch):
        arrays = [*twice.columns, twice.column("blood:x")]
        twice = pa.RecordBatch.from_arrays(arrays, names=[*twice.schema.names, "blood:x"])
    else:
        twice = pd.concat([table, table[["blood:x"]]], axis=1)
    with pytest.raises(ViewError, match="must be unique; 1 occur more than once: blood:x"):
        predictor(ridge)(twice)


# ---------------------------------------------------------------------------------- values


@quiet
def test_nulls_without_a_type_of_their_own_change_nothing(ridge: Path) -> None:
    """What a partition's nulls make of its types (object, nullable, null) is not in the answer."""
    table = wide_table()
    expected = predictor(ridge)(table)
    objects = table.astype(object).where(table.notna(), None)
    same(predictor(ridge)(objects).astype(expected.dtypes.to_dict()), expected)
    numbers = [name for name in table if name != "id"]
    nullable = table.astype(dict.fromkeys(numbers, "Float64"))
    same(predictor(ridge)(nullable), expected)
    gone = table.assign(**{"scan:p": None, "scan:q": None})
    by_value = table.assign(**{"scan:p": np.nan, "scan:q": np.nan})
    same(predictor(ridge)(gone), predictor(ridge)(by_value))
    nulls = pa.nulls(N)
    batch = in_arrow(by_value)
    for name in ("scan:p", "scan:q"):
        batch = batch.set_column(batch.schema.get_field_index(name), name, nulls)
    found = predictor(ridge)(batch)
    assert found.column("ill").to_pylist() == predictor(ridge)(by_value)["ill"].tolist()


@quiet
def test_whole_numbers_booleans_and_decimals_are_numbers(ridge: Path) -> None:
    table = wide_table().drop(columns=["blood:x", "blood:y", "blood:z"])
    whole = table.assign(**{"blood:x": 1.0, "blood:y": 0.0, "blood:z": 2.5})
    expected = predictor(ridge)(whole)
    decimals = [Decimal("2.5")] * N
    same(
        predictor(ridge)(table.assign(**{"blood:x": 1, "blood:y": False, "blood:z": decimals})),
        expected,
    )
    arrays = {
        "blood:x": pa.array([1] * N),
        "blood:y": pa.array([False] * N),
        "blood:z": pa.array(decimals),
    }
    batch = in_arrow(table)
    for name, values in arrays.items():
        batch = batch.append_column(name, values)
    assert predictor(ridge)(batch).column("ill").to_pylist() == expected["ill"].tolist()


def test_text_is_refused_with_its_place(ridge: Path) -> None:
    table = wide_table().astype({"blood:x": object})
    table.loc[4, "blood:x"] = "1.5 mg"
    with pytest.raises(ViewError, match=r"view 'blood': column 'x' .*'1.5 mg' for sample 's04'"):
        predictor(ridge)(table)
    texts = wide_table().astype({"blood:x": str})
    with pytest.raises(ViewError, match=r"column 'blood:x' holds .*string; expected numbers"):
        predictor(ridge)(in_arrow(texts))


def test_an_infinite_value_is_refused_with_its_sample(ridge: Path) -> None:
    table = wide_table()
    table.loc[3, "blood:x"] = np.inf
    with pytest.raises(ViewError, match="s03"):
        predictor(ridge)(table)


@quiet
def test_what_a_missing_value_means_can_be_told(ridge: Path) -> None:
    table = wide_table()
    without = table.copy()
    without.loc[[2, 11], ["blood:x", "blood:y", "blood:z"]] = np.nan
    same(predictor(ridge, nan="missing_view")(table), predictor(ridge)(without))
    with pytest.raises(ViewError, match="id s02"):
        predictor(ridge, nan="error")(table)
    with pytest.raises(SettingError):
        predictor(ridge, nan="zero")


# ---------------------------------------------------------------------------------- what comes out


@quiet
@pytest.mark.parametrize("what", ["probabilities", "decisions", "both"])
def test_no_row_has_the_columns_and_types_of_rows(ridge: Path, what: str) -> None:
    predict, table = predictor(ridge, what=what), wide_table()
    answers = predict(table)
    meta = predict.meta(table)
    assert len(meta) == 0
    assert meta.dtypes.equals(answers.dtypes)
    batch = in_arrow(table)
    assert predict(batch.slice(0, 0)).schema == predict(batch).schema
    names = [part.split("`")[1] for part in predict.output_schema().split(", ")]
    assert names == list(answers.columns) == predict(batch).schema.names


def test_the_schema_for_spark_quotes_every_name(tmp_path: Path) -> None:
    y = labels().rename(columns={"ill": "ill, `really`", "at risk": "int"})
    path = save(METHODS["late_fusion_ridge"], tmp_path / "model", y)
    predict = predictor(path, id_column="patient id", what="decisions")
    assert predict.output_schema("bigint") == (
        "`patient id` bigint, `no_view` boolean, `ill, ``really``` bigint, `int` bigint, "
        "`never seen` bigint"
    )


@quiet
def test_classes_of_one_label_are_answered_as_they_are(tmp_path: Path) -> None:
    y = np.where(np.arange(N) % 2 == 0, "sick", "well")
    path = save(METHODS["late_fusion_ridge"], tmp_path / "model", y)
    predict, table = predictor(path), wide_table()
    answers = predict(table)
    decided = answers.columns[-1]
    assert set(answers[decided]) <= {"sick", "well"}
    assert predict.meta(table).dtypes.equals(answers.dtypes)
    assert predict.output_schema().endswith(f"`{decided}` string")
    assert predict(in_arrow(table)).column(decided).to_pylist() == answers[decided].tolist()


def test_columns_that_could_not_be_told_apart_are_refused(tmp_path: Path) -> None:
    y = labels().rename(columns={"ill": "id"})
    path = save(METHODS["late_fusion_ridge"], tmp_path / "model", y)
    with pytest.raises(SettingError, match="two columns of the answers would be named 'id'"):
        predictor(path)
    with pytest.raises(SettingError, match="what must be one of"):
        predictor(path, what="scores")


# ---------------------------------------------------------------------------------- processes


@quiet
def test_what_travels_is_a_path(ridge: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ridge.parent)
    predict = viewgap.BatchPredictor("model", id_column="id", what="both")
    monkeypatch.chdir("/")
    content = pickle.dumps(predict)
    assert len(content) < 500 + len(str(ridge))
    same(pickle.loads(content)(wide_table()), predict(wide_table()))


@quiet
def test_a_process_loads_a_model_once(ridge: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    load = batches.load_model

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return load(*arguments, **options)

    monkeypatch.setattr(batches, "load_model", counted)
    monkeypatch.setattr(batches, "_models", type(batches._models)())
    copies = [pickle.loads(pickle.dumps(predictor(ridge))) for _ in range(8)]
    table = wide_table()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda one: one(table), copies))
    assert len(calls) == 1
    for answers in found:
        same(answers, found[0])
    monkeypatch.setattr(batches, "MOST_MODELS", 1)
    predictor(ridge, nan="missing_view")(table)
    assert len(batches._models) == 1


@quiet
def test_a_model_that_was_replaced_is_not_mixed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(METHODS["late_fusion_ridge"], tmp_path / "model")
    predict = predictor(path)
    before = predict(wide_table())
    content = pickle.dumps(predict)
    save(viewgap.LateFusionRidge(features="auto"), path, overwrite=True)
    same(predict(wide_table()), before)  # this process has it
    monkeypatch.setattr(batches, "_models", type(batches._models)())  # another one has not
    with pytest.raises(ModelFileError, match=r"another model .* than when the work began"):
        pickle.loads(content)(wide_table())
    shutil.rmtree(path)
    with pytest.raises(ModelFileError, match="model"):
        pickle.loads(content)(wide_table())


def test_a_model_that_answers_by_batch_is_refused(
    ridge: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "answers_by_batch", lambda model: True)
    with pytest.raises(SettingError, match="depend on how the table is cut"):
        predictor(ridge)


# ---------------------------------------------------------------------------------- engines


@quiet
def test_dask_has_the_same_answers(ridge: Path) -> None:
    frames = pytest.importorskip("dask.dataframe")
    table, predict = wide_table(), predictor(ridge)
    parts = frames.from_pandas(table, npartitions=3)
    answers = parts.map_partitions(predict, meta=predict.meta(parts))
    found = answers.compute(scheduler="threads")
    expected = predict(table).astype(found.dtypes.to_dict())  # text of ids: Dask's own type
    same(found, expected)


@quiet
@pytest.mark.slow
def test_spark_has_the_same_answers(ridge: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("needs java")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # else the python3 that is on the path
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
    }
    builder = sql.SparkSession.builder.master("local[2]")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        table, predict = wide_table(ids=range(N)), predictor(ridge)
        values = table.astype(object).where(table.notna(), None)
        columns = ", ".join(f"`{name}` double" for name in table if name != "id")
        rows = list(values.itertuples(index=False, name=None))
        frame = spark.createDataFrame(rows, f"id bigint, {columns}").repartition(3)
        schema = predict.output_schema(dict(frame.dtypes)["id"])
        expected = predict(table)
        for method in ("mapInPandas", "mapInArrow"):
            answers = getattr(frame, method)(predict, schema).collect()
            found = pd.DataFrame([row.asDict() for row in answers]).sort_values("id")
            found = found.reset_index(drop=True).astype(expected.dtypes.to_dict())
            same(found, expected)
    finally:
        spark.stop()
