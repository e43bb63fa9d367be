"""Share a model on the Hugging Face Hub: the files of its folder, and a model card."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

from viewgap.errors import RunError, SettingError, printable, remedy
from viewgap.hub_download import FILES, brief, require_hub
from viewgap.methods.base import MultiViewClassifier
from viewgap.model_file import save_model
from viewgap.model_info import ModelInfo, info

_REPO = re.compile(r"[\w][\w.-]*/[\w][\w.-]*", re.ASCII)
_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+!|~$&])")
_MOST_LINES = 200


def push_to_hub(
    model: MultiViewClassifier | str | os.PathLike[str],
    repo_id: str,
    *,
    private: bool | None = None,
    token: str | None = None,
    revision: str | None = None,
    commit_message: str = "Upload a viewgap model",
) -> str:
    """Upload a model to the Hugging Face Hub, with a model card; needs `viewgap[hub]`.

    The three files of the model folder and `README.md`, in one commit. `load_model` reads it back
    from `hf://owner/name`.

    Parameters
    ----------
    model : MultiViewClassifier, str or path
        A fitted model, or the folder of a saved one, which is verified first.
    repo_id : str
        `"owner/name"`; made if it is not there.
    private : bool, optional
        Whether a new repository is private; None: as the account is set.
    token : str, optional
        Access token; None: as `hf auth login` or the environment variable HF_TOKEN say.
    revision : str, optional
        Branch to commit to.
    commit_message : str
        What the commit says.

    Returns
    -------
    str
        Address of the commit.
    """
    if not isinstance(repo_id, str) or _REPO.fullmatch(repo_id) is None:
        name = remedy("repo_id", "REPOSITORY")
        raise SettingError(f"{name} must be owner/name, found {repo_id!r:.200}")
    hub = require_hub()
    if isinstance(model, MultiViewClassifier):
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "model"
            save_model(model, folder)
            return _upload(hub, folder, repo_id, private, token, revision, commit_message)
    return _upload(hub, Path(model), repo_id, private, token, revision, commit_message)


def _upload(
    hub: Any,
    folder: Path,
    repo_id: str,
    private: bool | None,
    token: str | None,
    revision: str | None,
    message: str,
) -> str:
    card = model_card(info(folder), repo_id)  # reads and verifies all files
    operations = [
        hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=(folder / name).read_bytes())
        for name in FILES
    ]
    operations.append(
        hub.CommitOperationAdd(path_in_repo="README.md", path_or_fileobj=card.encode("utf-8"))
    )
    try:
        api = hub.HfApi(token=token)
        api.create_repo(repo_id, repo_type="model", private=private, exist_ok=True)
        done = api.create_commit(
            repo_id, operations, commit_message=message, repo_type="model", revision=revision
        )
    except Exception as error:  # of its own, of HTTP and of the network: there is no common base
        raise RunError(f"{repo_id} cannot be uploaded: {brief(error)}") from error
    return str(done.commit_url)


def model_card(found: ModelInfo, repo_id: str) -> str:
    """Return a model card in Markdown: data, settings, versions, scores, limits.

    `found` is what `viewgap.info` says of the model, `repo_id` the repository, `"owner/name"`.
    """
    samples = "an unknown number of" if found.n_samples is None else f"{found.n_samples:,}"
    changed = ", ".join(f"{name} = {value!r}" for name, value in found.changed.items())
    lines = [
        "---",
        "library_name: viewgap",
        "pipeline_tag: tabular-classification",
        "tags: [viewgap, multi-view, multi-label, missing-data]",
        "---",
        f"# {_text(repo_id)}",
        "",
        f"{_text(found.method)}: {_text(found.summary)}. Fitted by viewgap "
        f"{_text(found.viewgap)} on {samples} samples, {len(found.views)} views and "
        f"{len(found.labels)} labels.",
        "",
        "```python",
        "import viewgap",
        f'model = viewgap.load_model("hf://{repo_id}")',
        "```",
        "",
        f"Settings: {_text(changed) or 'all parameters at their defaults'}.",
        "",
        *_scores(found),
        "## Views",
        "",
        *_table(found.views),
        "## Labels",
        "",
        *_table(found.labels),
        "## Limits",
        "",
        "- Views and labels of new samples must be those above, with the same columns.",
        "- Probabilities are calibrated, at best, for samples like those of the training data.",
        "- A sample without any view is answered with the label frequencies.",
        "- Labels that were not observed are taken to be missing at random.",
    ]
    if found.interrupted:
        lines.append("- The fit was ended early by a signal.")
    return "\n".join(lines) + "\n"


def _scores(found: ModelInfo) -> list[str]:
    own = found.scores.get("out_of_fold")
    lines = ["## Scores", ""]
    if own is None:
        return [*lines, "No out-of-fold scores were kept with this model.", ""]
    told = [
        f"- {name}: {own[key]:.3f}"
        for key, name in (("average_precision", "average precision"), ("macro_auc", "macro AUC"))
        if own.get(key) is not None
    ]
    return [*lines, f"Out of fold, {own['n_entries']:,} observed label entries:", "", *told, ""]


def _table(rows: list[dict[str, Any]]) -> list[str]:
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    lines += [
        "| " + " | ".join(_cell(row[name]) for name in names) + " |" for row in rows[:_MOST_LINES]
    ]
    if len(rows) > _MOST_LINES:
        lines += ["", f"{len(rows) - _MOST_LINES:,} more are in model.json."]
    return [*lines, ""]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else _text(str(value))


def _text(text: str) -> str:
    """Text from outside, in one line, in which nothing is markup."""
    flat = " ".join(printable(text).split())
    return _MARKUP.sub(r"\\\1", flat)
