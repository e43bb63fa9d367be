"""`viewgap methods`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated

import typer

from viewgap.cli.output import make_table, print_json, print_table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


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
