"""The same small data as a user may have it, written in every format; a format is one function."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from data_files import cell

WORDS = {1.0: "yes", 0.0: "no"}


@dataclass(frozen=True)
class Tables:
    """Views by name, of different samples, with blanks; labels of 0, 1 and NaN."""

    views: dict[str, pd.DataFrame]
    labels: pd.DataFrame

    def wide(self, sign: str) -> pd.DataFrame:
        """All columns side by side, named `view<sign>column`; the rows are those of the labels."""
        named = {**self.views, "labels": self.labels}
        table = pd.concat([t.add_prefix(f"{n}{sign}") for n, t in named.items()], axis=1)
        return table.loc[self.labels.index]

    def shuffled(self) -> dict[str, pd.DataFrame]:
        """All tables, the rows of each view in an order of its own, as files of users have it."""
        return {name: _shuffled(frame) for name, frame in self.views.items()} | {
            "labels": self.labels
        }

    def full(self) -> dict[str, pd.DataFrame]:
        """Views with the rows of the labels, for files without ids; NaN where one is missing."""
        return {name: frame.reindex(self.labels.index) for name, frame in self.views.items()}


@dataclass(frozen=True)
class Written:
    """Where the data lies, the options that reading it takes, and which names the files hold."""

    path: Path
    options: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ("ids", "columns", "labels")

    def arguments(self) -> list[str]:
        """The path and the options, as they are typed on a command line."""
        result = [str(self.path)]
        for name, value in self.options.items():
            option = f"--{name.replace('_', '-')}"
            if isinstance(value, dict):
                value = [f"{view}={pattern}" for view, pattern in value.items()]
            entries = value if isinstance(value, list) else [value]
            result += [text for entry in entries for text in (option, entry)]
        return result


Writer = Callable[[Path, Tables], Written]
WRITERS: dict[str, Writer] = {}
NEEDS = {  # packages beside those that viewgap itself needs
    "parquet": "pyarrow",
    "wide_parquet": "pyarrow",
    "excel": "openpyxl",
    "h5ad": "h5py",
    "h5mu": "h5py",
    "hdf5": "h5py",
    "one_sheet": "openpyxl",
    "zarr": "zarr",
}


def writer(function: Writer) -> Writer:
    """Add a format to `WRITERS` under the name of its function."""
    WRITERS[function.__name__.removeprefix("write_")] = function
    return function


def small_cll(n: int = 24, seed: int = 0) -> Tables:
    """Views of different patients, single blank cells, unknown labels."""
    rng = np.random.default_rng(seed)
    ids = [f"H{i:03d}" for i in range(n)]
    sizes = {"drugs": 4, "methylation": 3, "mrna": 5}
    views = {}
    for k, (name, width) in enumerate(sizes.items()):
        columns = [f"{name[:2]}_{j}" for j in range(width)]
        values = np.round(rng.normal(size=(n, width)), 3)
        frame = pd.DataFrame(values, index=ids, columns=columns)
        frame.iloc[3 + k, 1] = np.nan
        views[name] = frame[rng.random(n) < 0.8] if k else frame
    truth = (rng.random((n, 2)) < 0.4).astype(float)
    truth[rng.random((n, 2)) < 0.15] = np.nan
    return Tables(views, pd.DataFrame(truth, index=ids, columns=["IGHV", "trisomy12"]))


def _shuffled(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows in another order: files of different origin never agree in it."""
    return frame.sample(frac=1, random_state=len(frame))


def _write_tables(folder: Path, data: Tables, ending: str, **how: Any) -> Written:
    for name, frame in data.shuffled().items():
        frame.to_csv(folder / f"{name}{ending}", index_label="patient", **how)
    return Written(folder)


# ---------------------------------------------------------------------- one table per view


@writer
def write_csv(folder: Path, data: Tables) -> Written:
    return _write_tables(folder, data, ".csv")


@writer
def write_tsv(folder: Path, data: Tables) -> Written:
    return _write_tables(folder, data, ".tsv", sep="\t")


@writer
def write_semicolons_and_commas(folder: Path, data: Tables) -> Written:
    _write_tables(folder, data, ".csv", sep=";", decimal=",")
    return Written(folder, {"decimal": ","})


@writer
def write_gzip(folder: Path, data: Tables) -> Written:
    return _write_tables(folder, data, ".csv.gz")


@writer
def write_utf16(folder: Path, data: Tables) -> Written:
    return _write_tables(folder, data, ".tsv", sep="\t", encoding="utf-16")


@writer
def write_ids_in_another_column(folder: Path, data: Tables) -> Written:
    for name, frame in data.shuffled().items():
        table = frame.copy()
        table["patient"] = table.index
        table.to_csv(folder / f"{name}.csv", index=False)
    return Written(folder, {"id_column": "patient"})


@writer
def write_rows_counted_before_the_ids(folder: Path, data: Tables) -> Written:
    """As pandas writes a table whose ids are a column: row numbers without a name come first."""
    for name, frame in data.shuffled().items():
        frame.rename_axis("patient").reset_index().to_csv(folder / f"{name}.csv")
    return Written(folder, {"id_column": "patient"})


@writer
def write_parquet(folder: Path, data: Tables) -> Written:
    for name, frame in data.shuffled().items():
        frame.to_parquet(folder / f"{name}.parquet")
    return Written(folder)


@writer
def write_words(folder: Path, data: Tables) -> Written:
    return _write_tables(folder, Tables(data.views, data.labels.replace(WORDS)), ".csv")


@writer
def write_excel(folder: Path, data: Tables) -> Written:
    with pd.ExcelWriter(folder / "all.xlsx", engine="openpyxl") as book:
        for name, frame in data.shuffled().items():
            table = frame.replace(WORDS) if name == "labels" else frame
            table.to_excel(book, sheet_name=name, index_label="patient")
    return Written(folder / "all.xlsx")


@writer
def write_one_sheet(folder: Path, data: Tables) -> Written:
    """A workbook with everything in one sheet, and a hidden one."""
    with pd.ExcelWriter(folder / "all.xlsx", engine="openpyxl") as book:
        data.wide(":").to_excel(book, sheet_name="Sheet1", index_label="patient")
        (2 * data.labels).to_excel(book, sheet_name="draft")
        book.sheets["draft"].sheet_state = "hidden"
    return Written(folder / "all.xlsx")


# ---------------------------------------------------------------------- one array per view


def _write_names(folder: Path, name: str, frame: pd.DataFrame) -> None:
    (folder / f"{name}.ids.txt").write_text("".join(f"{i}\n" for i in frame.index))
    (folder / f"{name}.columns.txt").write_text("".join(f"{c}\n" for c in frame.columns))


@writer
def write_npy(folder: Path, data: Tables) -> Written:
    for name, rows in data.shuffled().items():
        np.save(folder / f"{name}.npy", rows.to_numpy())
        _write_names(folder, name, rows)
    return Written(folder)


@writer
def write_sparse(folder: Path, data: Tables) -> Written:
    """CSR, CSC and a dense array, and a table of labels."""
    from scipy import sparse

    for (name, frame), kind in zip(data.views.items(), ("csr", "csc", ""), strict=False):
        rows = _shuffled(frame)
        _write_names(folder, name, rows)
        if kind:
            matrix = sparse.coo_matrix(rows.to_numpy()).asformat(kind)
            sparse.save_npz(folder / f"{name}.npz", matrix)
        else:
            np.save(folder / f"{name}.npy", rows.to_numpy())
    data.labels.to_csv(folder / "labels.csv")
    return Written(folder)


# ---------------------------------------------------------------------- one wide table


@writer
def write_prefixes(folder: Path, data: Tables) -> Written:
    data.wide(":").to_csv(folder / "all.csv", index_label="patient")
    return Written(folder / "all.csv")


@writer
def write_wide_parquet(folder: Path, data: Tables) -> Written:
    data.wide(":").to_parquet(folder / "all.parquet")
    return Written(folder / "all.parquet")


@writer
def write_wide_gzip(folder: Path, data: Tables) -> Written:
    with gzip.open(folder / "all.tsv.gz", "wt", encoding="utf-8") as file:
        data.wide(":").to_csv(file, index_label="patient", sep="\t")
    return Written(folder / "all.tsv.gz")


@writer
def write_patterns(folder: Path, data: Tables) -> Written:
    """Names of columns without a sign that tells the view; labels and ids between them."""
    views = {name: f"{name[:2]}_*" for name in data.views}
    tables = dict(data.views)
    if not all(c.startswith(views[n][:-1]) for n, t in tables.items() for c in t):
        views = {name: f"{name}_*" for name in tables}
        tables = {name: table.add_prefix(f"{name}_") for name, table in tables.items()}
    table = pd.concat([data.labels, *tables.values()], axis=1).loc[data.labels.index]
    table.insert(3, "patient", table.index)
    table.to_csv(folder / "all.csv", index=False)
    options = {"views": views, "label_columns": list(data.labels), "id_column": "patient"}
    return Written(folder / "all.csv", options)


# ---------------------------------------------------------------------- AnnData and MuData


def put_array(group: Any, name: str, values: Any, kind: str = "array") -> Any:
    """Write numbers or text as anndata does."""
    values = np.asarray(values)
    if values.dtype.kind in "OU":
        import h5py

        kind = "string-array"
        texts = np.array(["" if one != one else one for one in values.ravel()], dtype=object)
        texts = texts.reshape(values.shape)
        stored = group.create_dataset(name, data=texts, dtype=h5py.string_dtype())
    else:
        stored = group.create_dataset(name, data=values)
    stored.attrs.update({"encoding-type": kind, "encoding-version": "0.2.0"})
    return stored


def put_group(parent: Any, name: str, kind: str) -> Any:
    """Begin an element that has parts."""
    group = parent.create_group(name)
    group.attrs.update({"encoding-type": kind, "encoding-version": "0.2.0"})
    return group


def put_categories(parent: Any, name: str, values: Any) -> None:
    """Write a categorical column; None has the code -1."""
    group = put_group(parent, name, "categorical")
    group.attrs["ordered"] = False
    categories = sorted({value for value in values if value is not None})
    codes = [categories.index(value) if value is not None else -1 for value in values]
    put_array(group, "categories", categories)
    put_array(group, "codes", np.array(codes, dtype=np.int8))


def put_nullable(parent: Any, name: str, values: Any) -> None:
    """Write a nullable column of booleans."""
    group = put_group(parent, name, "nullable-boolean")
    put_array(group, "values", np.array([value == 1 for value in values]))
    put_array(group, "mask", np.array([value != value for value in values]))


def put_order(group: Any, columns: Any) -> None:
    """Write the order of the columns of a table."""
    import h5py

    group.attrs.create("column-order", list(map(str, columns)), dtype=h5py.string_dtype())


def put_frame(parent: Any, name: str, index: Any, columns: Any = ()) -> Any:
    """Begin a table; its columns are written by the caller."""
    group = put_group(parent, name, "dataframe")
    group.attrs["_index"] = "_index"
    put_order(group, columns)
    put_array(group, "_index", list(index))
    return group


def put_sparse(parent: Any, name: str, values: Any, kind: str) -> None:
    """Write a CSR or CSC matrix."""
    from scipy import sparse

    matrix = sparse.csr_array(values) if kind == "csr_matrix" else sparse.csc_array(values)
    group = put_group(parent, name, kind)
    group.attrs["shape"] = matrix.shape
    for part in ("data", "indices", "indptr"):
        group.create_dataset(part, data=getattr(matrix, part))


def put_matrix(parent: Any, name: str, values: Any, kind: str = "array") -> None:
    """Write a dense or sparse matrix."""
    if kind == "array":
        put_array(parent, name, values)
    else:
        put_sparse(parent, name, values, kind)


def put_anndata(parent: Any, frame: pd.DataFrame, kind: str = "array") -> None:
    """Write one modality."""
    parent.attrs.update({"encoding-type": "anndata", "encoding-version": "0.1.0"})
    put_matrix(parent, "X", frame.to_numpy(), kind)
    put_frame(parent, "obs", frame.index)
    put_frame(parent, "var", frame.columns)


def put_labels(obs: Any, labels: pd.DataFrame) -> None:
    """Write the first label as categories of words, the others as nullable booleans."""
    first, *others = labels
    put_order(obs, labels)
    words = [WORDS.get(value) for value in labels[first]]
    put_categories(obs, first, words)
    for name in others:
        put_nullable(obs, name, labels[name])


@writer
def write_h5mu(folder: Path, data: Tables) -> Written:
    import h5py

    kinds = ("array", "csr_matrix", "csc_matrix")
    with h5py.File(folder / "data.h5mu", "w") as file:
        file.attrs.update({"encoding-type": "MuData", "axis": 0})
        mod = file.create_group("mod")
        mod.attrs["mod-order"] = list(data.views)
        ids = data.labels.index
        put_labels(put_frame(file, "obs", ids), data.labels)
        for (name, frame), kind in zip(data.views.items(), kinds, strict=False):
            rows = _shuffled(frame)
            put_anndata(mod.create_group(name), rows, kind)
            file[f"obsmap/{name}"] = rows.index.get_indexer(ids) + 1
    return Written(folder / "data.h5mu", {"label_columns": ["obs/*"]})


@writer
def write_h5ad(folder: Path, data: Tables) -> Written:
    """The first view as X, the others as tables in obsm; labels in obsm, too."""
    import h5py

    (first, frame), *others = data.views.items()
    ids = data.labels.index
    with h5py.File(folder / "data.h5ad", "w") as file:
        put_anndata(file, frame.reindex(ids))
        obsm = put_group(file, "obsm", "dict")
        for name, table in [*others, ("labels", data.labels)]:
            group = put_frame(obsm, name, ids, table.columns)
            for column in table:
                put_array(group, column, table[column].reindex(ids).to_numpy())
    views = {first: "X"} | {name: f"obsm/{name}" for name, _ in others}
    return Written(folder / "data.h5ad", {"views": views})


# ---------------------------------------------------------------------- archives without ids


@writer
def write_npz(folder: Path, data: Tables) -> Written:
    """The one archive of these that has ids, and names of everything."""
    views = data.full()
    arrays: dict[str, Any] = {name: frame.to_numpy() for name, frame in views.items()}
    arrays |= {f"{name}_feature_names": _text(frame.columns) for name, frame in views.items()}
    arrays |= {"sample_ids": _text(data.labels.index), "label_names": _text(data.labels.columns)}
    np.savez(folder / "all.npz", **arrays, labels=data.labels.to_numpy())
    return Written(folder / "all.npz")


@writer
def write_hdf5(folder: Path, data: Tables) -> Written:
    import h5py

    with h5py.File(folder / "all.h5", "w") as file:
        for name, frame in data.full().items():
            file[f"views/{name}"] = frame.to_numpy()
        file["labels"] = data.labels.to_numpy()
    return Written(folder / "all.h5", names=())


@writer
def write_zarr(folder: Path, data: Tables) -> Written:
    import zarr

    root = zarr.open_group(folder / "all.zarr", mode="w")
    for name, frame in data.full().items():
        root.create_array(f"views/{name}", data=frame.to_numpy())
    root.create_array("labels", data=data.labels.to_numpy())
    return Written(folder / "all.zarr", names=())


@writer
def write_mat(folder: Path, data: Tables) -> Written:
    import scipy.io

    views = data.full()
    content = {
        "X": cell(*(frame.to_numpy() for frame in views.values())),
        "label": data.labels.to_numpy(),
        "view_names": cell(*views),
        "label_names": cell(*data.labels),
    }
    scipy.io.savemat(folder / "all.mat", content)
    return Written(folder / "all.mat", names=("labels",))


@writer
def write_arff(folder: Path, data: Tables) -> Written:
    """As Mulan writes it; names of columns begin with the view, as its file of views says."""
    table = data.wide("@")
    kinds = {f"labels@{name}": "{0,1}" for name in data.labels}
    lines = [f"@attribute '{name}' {kinds.get(name, 'numeric')}" for name in table]
    rows = [
        ",".join("?" if value != value else repr(float(value)) for value in line[:-n])
        + "".join(",?" if value != value else f",{value:g}" for value in line[-n:])
        for n in [data.labels.shape[1]]
        for line in table.to_numpy(dtype=float).tolist()
    ]
    text = "\n".join(["@relation all", *lines, "@data", *rows])
    (folder / "all.arff").write_text(f"{text}\n")
    named = "".join(f'<label name="labels@{name}"></label>' for name in data.labels)
    (folder / "all.xml").write_text(f"<labels>{named}</labels>")
    views = "".join(f'"{name}" = "{name}@*"\n' for name in data.views)
    (folder / "all.views.toml").write_text(f"[views]\n{views}")
    return Written(folder / "all.arff", names=())


def _text(names: Any) -> Any:
    return np.array(list(map(str, names)))
