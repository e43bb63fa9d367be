"""Where a model is: a folder, or `hf://owner/name[@revision]` on the Hugging Face Hub.

Of a repository only the three files of a model are fetched, all of one commit; what is read of
them is verified like any model folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from viewgap.errors import ModelFileError, RunError
from viewgap.model_folder import CHECKSUMS, MODEL, WEIGHTS

FILES = (CHECKSUMS, MODEL, WEIGHTS)
# One slash is what is left of two where the address went through a path.
_ADDRESS = re.compile(r"hf:/{1,2}([\w][\w.-]*/[\w][\w.-]*)(?:@([\w./-]+))?", re.ASCII)
_LONGEST = 300


def require_hub() -> Any:
    """Return the module huggingface_hub; RunError where it is not installed."""
    try:
        import huggingface_hub
    except ImportError:
        raise RunError(
            "models on the Hugging Face Hub need the package huggingface_hub: "
            "pip install 'viewgap[hub]'"
        ) from None
    return huggingface_hub


def is_address(path: str | os.PathLike[str]) -> bool:
    """Whether a model is named by an address of the hub instead of a folder."""
    return os.fspath(path).startswith("hf:/")


def local_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder of a model; one on the hub is downloaded to the cache of the hub first.

    Parameters
    ----------
    path : str or path
        A folder, or `hf://owner/name`, with `@revision` for a branch, tag or commit.

    Returns
    -------
    Path
    """
    if not is_address(path):
        return Path(path)
    text = os.fspath(path)
    parts = _ADDRESS.fullmatch(text)
    if parts is None:
        raise ModelFileError(
            f"{text[:_LONGEST]!r} is no address of a model; expected hf://owner/name or "
            "hf://owner/name@revision"
        )
    hub = require_hub()
    repo, revision = parts.groups()
    try:
        commit = hub.HfApi().model_info(repo, revision=revision).sha
        files = [Path(hub.hf_hub_download(repo, name, revision=commit)) for name in FILES]
    except Exception as error:  # of its own, of HTTP and of the network: there is no common base
        raise ModelFileError(f"hf://{repo} cannot be downloaded: {brief(error)}") from error
    return files[0].parent


def brief(error: Exception) -> str:
    """Return the first line of what a server or library says."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line[:_LONGEST]
