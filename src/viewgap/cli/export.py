"""`viewgap export`: a saved model as one ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viewgap.cli.model import Model
from viewgap.cli.output import AsJson, print_json, say


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
