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
    from dataclasses import asdict

    from viewgap.methods._catalogue import catalogue

    rows = [asdict(entry) for entry in catalogue()]
    if json:
        print_json(rows)
    else:
        shown = [row | {"year": str(row["year"] or "")} for row in rows]
        print_table(make_table(shown, ["method", "year", "summary", "certainty"]))
