"""Options of the command line that say how DATA is to be read, for every command that reads it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from viewgap.errors import SettingError

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
