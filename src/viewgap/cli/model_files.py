"""`viewgap verify`, `export` and `push`: the files of a saved model, here and elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from viewgap.cli.options import Model
from viewgap.cli.output import AsJson, print_json, say
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


def export(
    model: Model,
    out: Annotated[Path, typer.Argument(help="File to write, such as model.onnx.")],
    json: AsJson = False,
) -> None:
    """Write a model as one ONNX file that predicts without viewgap and torch.

    Two inputs for every view: its values (batch, columns) and a mask VIEW:observed (batch,), true
    where a sample has the view. The output probabilities (batch, labels) is what predict writes.
    Columns, labels and thresholds stand in the metadata of the file.
    """
    from viewgap.export import export_onnx
    from viewgap.export.onnx_file import input_names
    from viewgap.model_file import load_model

    fitted = load_model(model, device="cpu")
    export_onnx(fitted, out)
    size = out.stat().st_size
    if json:
        inputs = {view: list(names) for view, names in input_names(fitted.view_names_).items()}
        print_json({"model": str(model), "file": str(out), "bytes": size, "inputs": inputs})
        return
    say(f"{out}: {size:,} bytes, {len(fitted.view_names_)} views")


def push(
    model: Model,
    repository: Annotated[str, typer.Argument(help="owner/name on the Hugging Face Hub.")],
    private: Annotated[
        bool | None, typer.Option(help="Whether a new repository is private.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Branch to commit to.")] = None,
    json: AsJson = False,
) -> None:
    """Upload a model with a model card; other commands then take hf://owner/name as MODEL.

    The access token is that of hf auth login, or of the environment variable HF_TOKEN.
    """
    from viewgap.hub import push_to_hub

    address = push_to_hub(model, repository, private=private, revision=revision)
    if json:
        print_json({"model": str(model), "repository": repository, "commit": address})
        return
    say(f"{model}: {address}")
