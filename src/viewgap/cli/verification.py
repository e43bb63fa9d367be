"""`viewgap verify`: whether saved models are whole and can be used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from viewgap.cli.output import AsJson, print_json
from viewgap.errors import printable

_Models = Annotated[
    list[str],
    typer.Argument(metavar="MODEL...", help="Folders of viewgap fit --out, or hf://owner/name."),
]


def verify(models: _Models, json: AsJson = False) -> None:
    """Read every byte of saved models, and rebuild them, without using them.

    Sizes and SHA-256 of the files, their format, the arrays that the method must have, and that all
    numbers are finite: what every command does before it uses a model. Copies of a model have the
    same digest. Exit code 0: all are whole; 1: one is not.
    """
    results = [_verified(path) for path in models]
    if json:
        print_json(results)
    else:
        for result in results:
            print(printable(_line(result)))
    raise typer.Exit(0 if all(result["usable"] for result in results) else 1)


def _verified(path: str) -> dict[str, Any]:
    from viewgap.errors import ModelFileError
    from viewgap.hub_download import local_folder
    from viewgap.model_file import load_model, read_description
    from viewgap.model_folder import digest

    try:
        folder = Path(local_folder(path))
        load_model(folder, device="cpu")
        method = read_description(folder).stored["method"]
        return {"model": path, "usable": True, "method": method, "digest": digest(folder)}
    except ModelFileError as error:
        return {"model": path, "usable": False, "problem": str(error)}


def _line(result: dict[str, Any]) -> str:
    if result["usable"]:
        return f"{result['model']}: {result['method']}, whole; digest {result['digest']}"
    return f"{result['model']}: not usable: {result['problem']}"
