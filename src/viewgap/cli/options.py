"""What several commands take: DATA, a model, labels, and the options of how DATA is read."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from viewgap.errors import SettingError

Data = Annotated[
    str,
    typer.Argument(
        help="A named data set, a file with all views (.mat, .npz, .h5, .hdf5, .h5ad, .h5mu, "
        ".arff, .xlsx, .zarr), a folder with one file per view (.csv, .tsv, .csv.gz, .tsv.gz, "
        ".parquet, .npy or sparse .npz), or one table with the columns of all views (see --views)."
    ),
]
Model = Annotated[
    Path, typer.Argument(help="Folder of a saved model, or hf://owner/name[@revision].")
]
LabelFile = Annotated[
    Path | None,
    typer.Option(help="Table of labels (.csv, .tsv, .parquet, ...); first column = sample id."),
]

Groups = Annotated[
    str | None,
    typer.Option(
        metavar="FILE[:COLUMN]",
        help="Table by sample id with the group of each sample (a patient, say): samples of "
        "one group are never on both sides of a fold.",
    ),
]
MethodSettings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Parameter of a method, method.key=value (repeatable)."),
]


class NanPolicy(StrEnum):
    """What a NaN in an observed row means."""

    MEAN = "mean"
    ERROR = "error"
    MISSING_VIEW = "missing_view"


_MISSING_HELP = (
    "What a NaN among values means: a value to fill with the mean of its column in the training "
    "data, an error, or that the view is missing for that sample."
)
Missing = Annotated[NanPolicy, typer.Option(help=_MISSING_HELP)]
MissingAsFitted = Annotated[
    NanPolicy | None, typer.Option(help=f"{_MISSING_HELP} Without it, as in the fit.")
]

Reading = dict[str, Any]
"""How files are read, as parameters of `read_data` and `read_views`."""

_OPTIONS: dict[str, tuple[Any, Any]] = {
    "views": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--views",
                help="Columns of a view in one table with all columns: name=pattern "
                "(genes=genes_*), several patterns by commas; once per view. In .h5ad and .h5mu, "
                "where its matrix lies (protein=obsm/protein).",
            ),
        ],
        None,
    ),
    "label_columns": (
        Annotated[
            list[str] | None,
            typer.Option(
                "--label-columns",
                help="Columns that hold labels (IGHV, label_*; in .h5ad and .h5mu obs/IGHV); may "
                "be repeated.",
            ),
        ],
        None,
    ),
    "label_separator": (
        Annotated[
            str | None,
            typer.Option(help="What stands between the labels in a column of lists, as ; in A;B."),
        ],
        None,
    ),
    "id_column": (
        Annotated[
            str | None,
            typer.Option(
                help="Name of the column of sample ids in tables; without it the first one."
            ),
        ],
        None,
    ),
    "decimal": (
        Annotated[str, typer.Option(help="Decimal sign in tables of text: . or a comma.")],
        ".",
    ),
}


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of this file, in the place of its parameter `reading`.

    The command gets all of them as one dict of type `Reading`.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for own in inspect.signature(command).parameters.values():
        if own.name != "reading":
            parameters.append(own.replace(annotation=hints[own.name]))
            continue
        for name, (annotation, default) in _OPTIONS.items():
            option = inspect.Parameter(name, own.kind, default=default, annotation=annotation)
            parameters.append(option)

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        options = {name: given.pop(name) for name in _OPTIONS}
        command(**given, reading=_parsed(**options))

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {own.name: own.annotation for own in parameters}
    return wrapped


def _parsed(
    views: list[str] | None, label_columns: list[str] | None, **others: str | None
) -> Reading:
    return {"views": _views(views or []), "label_columns": label_columns or [], **others}


def typed_options(reading: Reading) -> list[str]:
    """Return the options as words of a command line, defaults left out."""
    words: list[str] = []
    for name, patterns in (reading["views"] or {}).items():
        words += ["--views", f"{name}={','.join(patterns)}"]
    for column in reading["label_columns"]:
        words += ["--label-columns", column]
    for key in ("label_separator", "id_column", "decimal"):
        if reading[key] != _OPTIONS[key][1]:
            words += [f"--{key.replace('_', '-')}", reading[key]]
    return words


def _views(entries: list[str]) -> dict[str, list[str]] | None:
    result: dict[str, list[str]] = {}
    for entry in entries:
        name, sign, patterns = entry.partition("=")
        found = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
        if not sign or not name.strip() or not found:
            raise SettingError(f"--views takes name=pattern, as in genes=genes_*; found {entry!r}")
        if name.strip() in result:
            raise SettingError(
                f"--views gives {name.strip()!r} twice; separate its patterns by commas"
            )
        result[name.strip()] = found
    return result or None
