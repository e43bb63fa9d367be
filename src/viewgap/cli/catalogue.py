"""`viewgap methods`: what there is to choose from."""

from __future__ import annotations

from viewgap.cli.output import AsJson, make_table, print_json, print_table


def methods(json: AsJson = False) -> None:
    """List the methods, one line each."""
    from dataclasses import asdict

    from viewgap.methods import names

    if json:
        from viewgap.methods._catalogue import catalogue

        print_json([asdict(entry) for entry in catalogue()])
        return
    from viewgap.methods._metadata import read_metadata

    found = {name: read_metadata(name) for name in names()}
    rows = [
        {
            "method": name,
            "year": str(own.year or ""),
            "summary": own.summary,
            "certainty": own.certainty or "baseline",
        }
        for name, own in found.items()
    ]
    print_table(make_table(rows, ["method", "year", "summary", "certainty"]))
