"""Where a model is: a folder, or `hf://owner/name[@revision]` on the Hugging Face Hub.

Of a repository only the three files of a model are fetched, all of one commit; what is read of
them is verified like any model folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from viewgap.errors import ModelFileError, RunError
from viewgap.model_folder import CHECKSUMS, MODEL, WEIGHTS

FILES = (CHECKSUMS, MODEL, WEIGHTS)
# One slash is what is left of two where the address went through a path.
_ADDRESS = re.compile(r"hf:/{1,2}([\w][\w.-]*/[\w][\w.-]*)(?:@([\w./-]+))?", re.ASCII)
_LONGEST = 300
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MEANING = {
    "RevisionNotFoundError": "it has no such revision (branch, tag or commit)",
    "GatedRepoError": "its owner has to grant access first",
    "RepositoryNotFoundError": "there is no such repository, or it is private: log in with "
    "'hf auth login', or set HF_TOKEN",
    "RemoteEntryNotFoundError": "it holds no model of viewgap",
    "OfflineModeIsEnabled": "HF_HUB_OFFLINE is set; name a commit that is in the cache",
    "ConnectError": "the server cannot be reached",
}
"""What errors of huggingface_hub and of its HTTP client mean here, by the name of their class."""


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

    `path` is a folder, or `hf://owner/name`, with `@revision` for a branch, tag or commit. A commit
    (its forty digits) that is in the cache is taken from there, without any request.
    """
    if not is_address(path):
        return Path(path)
    text = os.fspath(path)
    parts = _ADDRESS.fullmatch(text)
    if parts is None:
        shown = re.sub("^hf:/(?!/)", "hf://", text)[:_LONGEST]  # a Path folds the slashes
        raise ModelFileError(
            f"{shown!r} is no address of a model; expected hf://owner/name or "
            "hf://owner/name@revision"
        )
    hub = require_hub()
    repo, revision = parts.groups()
    if revision is not None and _COMMIT.fullmatch(revision):
        cached = [hub.try_to_load_from_cache(repo, name, revision=revision) for name in FILES]
        if all(isinstance(own, str) for own in cached):
            return Path(cached[0]).parent
    try:
        commit = hub.HfApi().model_info(repo, revision=revision).sha
        files = [Path(hub.hf_hub_download(repo, name, revision=commit)) for name in FILES]
    except Exception as error:  # of its own, of HTTP and of the network: there is no common base
        raise ModelFileError(f"hf://{repo} cannot be downloaded: {brief(error)}") from error
    return files[0].parent


@contextmanager
def held_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The folder of a model while it is read; says how to repair what was damaged on its way."""
    folder = local_folder(path)
    try:
        yield folder
    except ModelFileError as error:
        if not is_address(path):
            raise
        # The snapshot only links to the files beside it: they have to go, too.
        cached = folder.parents[1]
        raise ModelFileError(
            f"{error}; it was downloaded from {os.fspath(path)}: delete the folder {cached} and "
            "load it again"
        ) from error


def brief(error: Exception) -> str:
    """Return what a server or library says in one line, and what it means if that is known."""
    said = " ".join(str(error).split()) or type(error).__name__
    kinds = (kind.__name__ for kind in type(error).__mro__)
    meaning = next((_MEANING[name] for name in kinds if name in _MEANING), None)
    return said[:_LONGEST] if meaning is None else f"{meaning} ({said[:_LONGEST]})"
