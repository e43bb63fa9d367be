"""`viewgap datasets` and `viewgap methods`: what is there."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from viewgap.cli.output import make_table, print_json, print_table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


_COLUMNS = ("name", "here", "samples", "labels", "per sample", "fold files", "where")


def datasets(json: AsJson = False) -> None:
    """List the data sets that can be named.

    They are embedded, generated, or found in the folders of $VIEWGAP_DATA.
    """
    from viewgap.datasets import describe

    rows = [dict(row) for row in describe()]
    if json:
        print_json(rows)
    else:
        print_table(make_table([_for_people(row) for row in rows], _COLUMNS))


def _for_people(row: dict[str, Any]) -> dict[str, Any]:
    published = row["published"] or {}
    size = {key: row[key] or published.get(key) for key in ("n", "c", "cardinality")}
    absent = "put it into $VIEWGAP_DATA (see the documentation)"
    return {
        "name": row["name"],
        "here": row["present"],
        "samples": size["n"],
        "labels": size["c"],
        "per sample": size["cardinality"],
        "fold files": row["fold_files"],
        "where": row["problem"] or row["path"] or absent,
    }


def methods(json: AsJson = False) -> None:
    """List the methods, one line each."""
    from viewgap import methods as room

    rows = []
    for name in room.names():
        kind = room.get(name)
        row = {"method": name, "class": kind.__name__, "summary": kind.summary}
        rows.append({**row, "reference": kind.reference or None})
    if json:
        print_json(rows)
    else:
        print_table(make_table(rows, ["method", "summary", "reference"]))
