"""`viewgap push`: a saved model on the Hugging Face Hub."""

from __future__ import annotations

from typing import Annotated

import typer

from viewgap.cli.model import Model
from viewgap.cli.output import AsJson, print_json, say


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
