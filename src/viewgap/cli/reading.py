"""Options of the command line that say how DATA is to be read, for every command that reads it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from viewgap.errors import SettingError

Views = Annotated[
    list[str] | None,
    typer.Option(
        "--views",
        help="Columns of a view in one table with all columns: name=pattern (genes=genes_*), "
        "several patterns by commas; once per view. In .h5ad and .h5mu, where its matrix lies "
        "(protein=obsm/protein).",
    ),
]
LabelColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--label-columns",
        help="Columns that hold labels (IGHV, label_*; in .h5ad and .h5mu obs/IGHV); may be "
        "repeated.",
    ),
]
LabelSeparator = Annotated[
    str | None,
    typer.Option(help="What stands between the labels in a column of lists, as ; in A;B."),
]
IdColumn = Annotated[
    str | None,
    typer.Option(help="Name of the column of sample ids in tables; without it the first one."),
]
Decimal = Annotated[str, typer.Option(help="Decimal sign in tables of text: . or a comma.")]


def read_options(
    views: list[str] | None,
    label_columns: list[str] | None,
    label_separator: str | None,
    id_column: str | None,
    decimal: str,
) -> dict[str, Any]:
    """Return the options as parameters of `read_data` and `read_views`."""
    return {
        "views": _views(views or []),
        "label_columns": label_columns or [],
        "label_separator": label_separator,
        "id_column": id_column,
        "decimal": decimal,
    }


def typed_options(options: dict[str, Any]) -> list[str]:
    """Return what `read_options` gave as words of a command line, defaults left out."""
    words: list[str] = []
    for name, patterns in (options["views"] or {}).items():
        words += ["--views", f"{name}={','.join(patterns)}"]
    for column in options["label_columns"]:
        words += ["--label-columns", column]
    for key in ("label_separator", "id_column"):
        if options[key] is not None:
            words += [f"--{key.replace('_', '-')}", options[key]]
    return words + ["--decimal", options["decimal"]] * (options["decimal"] != ".")


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
