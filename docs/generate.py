"""Parts of the pages that are made when the documentation is built, from the code as it is."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from importlib import import_module
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src" / "viewgap"


def methods() -> str:
    """A table of all methods, as `viewgap methods --json` lists them."""
    from viewgap.cli import run

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run(["methods", "--json"]) == 0
    lines = ["| name, class | idea | paper | written from |", "|---|---|---|---|"]
    for entry in json.loads(printed.getvalue()):
        name = f"`{entry['method']}` {{py:obj}}`~viewgap.{entry['class_name']}`"
        cells = (name, entry["summary"], entry["reference"] or "–", entry["certainty"])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def tree() -> str:
    """Every source file with the first line of its docstring, folder by folder."""
    lines: list[str] = []
    for folder in [SOURCE, *sorted(p for p in SOURCE.rglob("*") if (p / "__init__.py").is_file())]:
        name = f"{folder.relative_to(SOURCE.parent)}/"
        lines += [f"### `{name}`", "", first_line(folder / "__init__.py"), ""]
        files = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        if files:
            lines += ["| file | |", "|---|---|"]
            lines += [f"| `{path.name}` | {first_line(path)} |" for path in files]
        lines.append("")
    return "\n".join(lines)


def first_line(path: Path) -> str:
    """The first sentence of a module's docstring, safe inside a table."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return docstring.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


# One `fit` and one `predict_proba` of SCSD: the object that does a step, and what it does.
Steps = tuple[tuple[str, str], ...]

FIT: Steps = (
    ("methods.base:MultiViewClassifier.fit", "checks the parameters and begins"),
    (
        "data.validation:as_viewset",
        "the dict of DataFrames becomes a `ViewSet`: rows aligned by id, missing views in a mask; "
        "the values are not copied",
    ),
    ("data.validation:as_labels", "labels are checked and aligned by id: values and a mask"),
    (
        "methods.deep:DeepClassifier._fit",
        "settles the settings (`profiled.py`), holds rows out for validation",
    ),
    (
        "data.preprocessing:Standardiser.fit",
        "learns how columns are prepared and scaled, from observed training values",
    ),
    (
        "training.committee:Committee",
        "the networks side by side, each a `SCSDNetwork` (`methods/scsd/network.py`), weights "
        "drawn from the seed",
    ),
    ("training.runtime:choose_runtime", "device, number formats, threads"),
    (
        "training.batches.source:BatchSource",
        "rows on the device, read through `data/preprocessing/prepared_rows.py`: prepared, scaled, "
        "zero where missing",
    ),
    ("training.loop:train", "epoch after epoch, with callbacks in between"),
    (
        "training.batches.epoch_index:EpochIndex",
        "which rows every batch of an epoch reads, view by view and pair by pair",
    ),
    (
        "training.steps.epoch:make_steps",
        "the steps of an epoch: one by one, or recorded as a CUDA graph and replayed",
    ),
    ("methods.scsd.network:SCSDNetwork.loss_terms", "the loss of a batch, term by term (Eq. 10)"),
    ("training.steps.epoch:update_weights", "clipping, AdamW, averaged weights"),
    (
        "training.callbacks:EarlyStopping",
        "keeps the weights with the best validation score (`training/scores.py`)",
    ),
    (
        "nn.pooling:LogOddsPooling.fit",
        "weights of the views, calibration and thresholds, from the held-out rows",
    ),
)
PREDICT: Steps = (
    ("methods.base:MultiViewClassifier.predict_proba", "begins"),
    (
        "data.validation:match_views",
        "validates as in `fit`, and matches views and columns by name with those of the fit",
    ),
    (
        "training.prediction:run_by_view",
        "reads the observed rows of every view in blocks of one shape "
        "(`data/preprocessing/prepared_rows.py`)",
    ),
    (
        "methods.scsd.network:SCSDNetwork.encode_rows",
        "encoder, codebook and classifier of the view, row by row; the mean over the networks",
    ),
    ("training.committee:Committee.answer", "the views of a sample merged by log-odds pooling"),
    (
        "methods.base:MultiViewClassifier._checked_probabilities",
        "finite or refused; label frequencies for samples without any view",
    ),
    (
        "methods.base:MultiViewClassifier._with_ids",
        "ids and label names put back: a DataFrame where DataFrames came in",
    ),
)


def fit_walk() -> str:
    """The steps of a fit."""
    return walk(FIT)


def predict_walk() -> str:
    """The steps of a prediction."""
    return walk(PREDICT)


def walk(steps: Steps) -> str:
    """The steps as a numbered list; a name that is not there is an error."""
    lines = []
    for number, (place, what) in enumerate(steps, 1):
        module, _, name = place.partition(":")
        found: Any = import_module(f"viewgap.{module}")
        for part in name.split("."):
            found = getattr(found, part)
        lines.append(f"{number}. `{module.replace('.', '/')}.py`, `{name}`: {what}")
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write the parts as files that the pages include."""
    folder.mkdir(exist_ok=True)
    for part in (methods, tree, fit_walk, predict_walk):
        (folder / f"{part.__name__}.md").write_text(part() + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).parent / "generated")
