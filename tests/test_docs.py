"""Every block of the documentation runs, every example too, and tables show what records hold."""

from __future__ import annotations

import importlib.util
import os
import re
import runpy
import shlex
import sys
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import typer
from benchmarks.scaling import Machine

from viewgap import methods
from viewgap.cli import app, run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def load(name: str) -> ModuleType:
    """A module of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(DOCS))  # as when it is run: it finds the modules beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module


tables, generate = load("tables"), load("generate")


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```(python|bash)\n(.*?)^```", text, re.M | re.S)


def run_page(page: Path) -> dict[str, Any]:
    """Run the blocks and return the names that those in Python share."""
    names: dict[str, Any] = {"__name__": "docs"}
    for number, (language, block) in enumerate(blocks(page), 1):
        if language == "python":
            exec(compile(block, f"{page.name}, block {number}", "exec"), names)
            continue
        for line in block.strip().splitlines():
            program, *arguments = shlex.split(line, comments=True)
            assert program == "viewgap"
            assert run(arguments) == 0, line
    return names


PAGES = [page for page in sorted(DOCS.glob("*.md")) if blocks(page)]
SLOW = {"start", "experiments", "decision_tutorial", "clusters"}
pytestmark = pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")  # shown on purpose


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * (p.stem in SLOW)) for p in PAGES],
)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.stem == "tune":
        pytest.importorskip("optuna")
    if page.stem == "batch_prediction":
        pytest.importorskip("dask.dataframe")
    if page.stem == "clusters":
        pytest.importorskip("distributed")
    if page.stem == "export":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    if page.stem == "decision_tutorial":
        pytest.importorskip("onnxruntime")
        give_cll(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    run_page(page)


def give_cll(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real data set where it is there; else patients with the same names and kinds of gaps."""
    if Path(os.environ.get("VIEWGAP_DATA", "nowhere"), "cll").is_dir():
        return
    rng = np.random.default_rng(0)
    n, alterations = 254, ["IGHV", "del11q", "del13q", "trisomy12", "TP53"]
    signal = rng.normal(size=(n, 5))
    sizes = {"drug_screen_A": 8, "drug_screen_B": 7, "seahorse": 5}
    observed = rng.random((n, 3)) < (0.75, 0.75, 0.5)
    observed[~observed.any(axis=1), 0] = True
    arrays: dict[str, Any] = {"view_names": list(sizes), "label_names": alterations}
    for number, (name, width) in enumerate(sizes.items()):
        values = signal @ rng.normal(size=(5, width)) + rng.normal(size=(n, width))
        values[~observed[:, number]] = np.nan
        arrays[f"view{number}"] = values
        arrays[f"feature_names{number}"] = [f"{name}_{k}" for k in range(width)]
    labels = (signal > 0.7).astype(float)
    labels[rng.random(labels.shape) < 0.15] = np.nan
    arrays |= {"labels": labels, "sample_ids": [f"H{i:03d}" for i in range(n)]}
    (folder / "data" / "cll").mkdir(parents=True)
    np.savez(folder / "data" / "cll" / "cll_natural.npz", **arrays)
    monkeypatch.setenv("VIEWGAP_DATA", str(folder / "data"))


def test_own_data_becomes_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_page(DOCS / "own_data.md")
    assert len(Path("predictions.csv").read_text().splitlines()) == 5
    assert names["apart"].observed.sum(axis=0).tolist() == [20, 20]
    assert names["data"].views.feature_names["drugs"] == ("ibrutinib", "venetoclax")


@pytest.mark.slow
@pytest.mark.in_docs
@pytest.mark.parametrize("example", sorted(DOCS.glob("examples/*.py")), ids=lambda path: path.stem)
def test_gallery_examples_run(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    if example.stem == "plot_batch_prediction":
        pytest.importorskip("dask.dataframe")
    pyplot.switch_backend("Agg")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    runpy.run_path(str(example))
    assert pyplot.get_fignums()
    pyplot.close("all")


@pytest.mark.parametrize(
    ("page", "name", "text"),
    [
        pytest.param(page, name, text, id=f"{page.stem}-{name}")
        for page in tables.PAGES
        for name, text in tables.blocks(page)
    ],
)
def test_tables_of_results_are_the_records(page: Path, name: str, text: str) -> None:
    assert text == tables.TABLES[name](), "run `python docs/tables.py`"


def test_the_diagram_of_ranks_is_of_the_records() -> None:
    text = (DOCS / "_static" / "ranks.svg").read_text("utf-8")
    test = tables.compared().test
    for method, rank in zip(test.methods, test.ranks, strict=True):
        labels = (f" {method}  {rank:.2f} ", f" {rank:.2f}  {method} ")
        assert any(label in text for label in labels), "run `make tables`"


def test_every_method_has_an_average_rank() -> None:
    ranks = {title.removesuffix("†"): rank for title, (_, rank) in tables.average_ranks().items()}
    assert set(ranks) == set(methods.names())
    assert not np.isnan(list(ranks.values())).any()


OF_OTHER_PROGRAMS = {"--cov", "--gpus-per-task", "--nproc-per-node", "--pty", "--signal"}
"""Options of pytest, torchrun, srun and sbatch that the pages explain."""


def test_options_on_the_pages_exist() -> None:
    """Of the commands or, where a page shows one, of a script in benchmarks/."""
    found: set[str] = set()
    commands = [typer.main.get_command(app)]
    while commands:
        command = commands.pop()
        found.update(option for parameter in command.params for option in parameter.opts)
        found.update(word for parameter in command.params for word in parameter.secondary_opts)
        commands.extend(getattr(command, "commands", {}).values())
    for script in (ROOT / "benchmarks").glob("*.py"):
        found.update(re.findall(r'"(--[a-z-]+)"', script.read_text("utf-8")))
    found.update(f"--{field.name.replace('_', '-')}" for field in fields(Machine))
    for page in tables.PAGES:
        text = re.sub(r"^(#SBATCH|dask) .*$", "", page.read_text("utf-8"), flags=re.M)
        shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - OF_OTHER_PROGRAMS
        assert shown <= found, f"{page.name}: {sorted(shown - found)}"


def test_every_table_is_shown() -> None:
    shown = {name for page in tables.PAGES for name, _ in tables.blocks(page)}
    assert shown == set(tables.TABLES)


@pytest.mark.parametrize(
    ("table", "parts"),
    [("table2", ("solvers", "baselines", "paper")), ("ablation", ("ablation",))],
)
def test_rendered_tables_are_the_records(
    table: str, parts: tuple[str, ...], tmp_path: Path
) -> None:
    folder, out = ROOT / "results" / "corel5k", tmp_path / "table.md"
    folders = [str(folder / part) for part in parts]
    options = ["--published", "--format", "markdown", "--out", str(out)]
    assert run(["bench", "table", *options, *folders]) == 0
    assert out.read_text() == (folder / f"{table}.md").read_text()


def test_parts_made_from_the_code_name_what_is_there(tmp_path: Path) -> None:
    """The walk through `fit` and `predict_proba` names modules and functions that exist."""
    generate.write(tmp_path)
    tree = (tmp_path / "tree.md").read_text()
    for path in generate.SOURCE.rglob("*.py"):
        assert f"`{path.name}`" in tree or path.name == "__init__.py"
    assert all((tmp_path / f"{name}.md").stat().st_size for name in ("fit_walk", "predict_walk"))
