"""`viewgap serve`: saved models as an HTTP service."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from viewgap.cli.output import say


def serve(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="Model folders, or NAME=FOLDER.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the bearer token; else $VIEWGAP_TOKEN, if it is set."),
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, help="Largest body in bytes.")] = 16 * 2**20,
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows of a request.")] = 10_000,
    timeout: Annotated[float, typer.Option(help="Seconds for a body, and for an answer.")] = 30.0,
    max_predictions: Annotated[
        int, typer.Option(min=1, help="Most predictions of an /explain request: 2**k for k views.")
    ] = 20_000,
    label_sets: Annotated[
        list[str] | None,
        typer.Option(help="File of label sets, for /decide; with several models NAME=FILE."),
    ] = None,
    queue: Annotated[int, typer.Option(min=1, help="Most requests that wait for a model.")] = 128,
) -> None:
    """Serve saved models over HTTP: /predict, /explain, /decide, and /v2 for other clients.

    A view that is absent or null in a request is missing. A model folder that is replaced is loaded
    again. SIGTERM and Ctrl-C finish the running requests.
    """
    from viewgap.serve import ServiceSettings, create_app, run_server

    logging.basicConfig(format="viewgap: %(message)s", level=logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    settings = ServiceSettings(
        token=_token(token_file),
        max_body=max_body,
        max_rows=max_rows,
        max_predictions=max_predictions,
        timeout=timeout,
        queue=queue,
    )
    named = dict(_name_and_folder(model) for model in models)
    if len(named) < len(models):
        from viewgap.errors import SettingError

        raise SettingError("several models have the same name; give them names: NAME=FOLDER")
    app = create_app(named, settings, _named_files(label_sets or [], list(named)))
    if settings.token is None and host not in ("127.0.0.1", "localhost", "::1"):
        say(f"viewgap: note: {host} can be reached by others, and no token is asked for")

    def started(host: str, port: int) -> None:
        say(f"viewgap: {', '.join(named)} at http://{host}:{port}")

    run_server(app, settings, host, port, started)


def _name_and_folder(model: str) -> tuple[str, Path]:
    name, equals, folder = model.partition("=")
    if equals and not Path(model).exists():
        return name, Path(folder)
    return Path(model).resolve().name, Path(model)


def _named_files(files: list[str], models: list[str]) -> dict[str, Path]:
    """Files by the names of their models: NAME=FILE, or FILE where there is one model."""
    from viewgap.errors import SettingError

    found: dict[str, Path] = {}
    for file in files:
        name, equals, path = file.partition("=")
        if not equals or Path(file).exists():
            if len(models) > 1:
                raise SettingError(
                    f"--label-sets {file}: say for which of the {len(models)} models it is: "
                    f"--label-sets NAME={file}"
                )
            name, path = models[0], file
        if name in found:
            raise SettingError(f"--label-sets: two files for the model {name!r}")
        found[name] = Path(path)
    return found


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get("VIEWGAP_TOKEN") or None
    from viewgap.errors import SettingError

    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise SettingError(f"--token-file {file} cannot be read: {error}") from error
