"""Sphinx configuration. `make docs` builds without network: nothing is fetched, nor linked in."""

from __future__ import annotations

import html
import os
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.addnodes import pending_xref
from sphinx.errors import ExtensionError
from sphinx.util.logging import getLogger

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("OMP_NUM_THREADS", "1")

import generate

import viewgap

generate.write(Path(__file__).parent / "generated")

project = "viewgap"
author = "the viewgap authors"
copyright = "2026, the viewgap authors"
version = release = viewgap.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "examples", "generated/*.md", "gallery/*.ipynb"]
templates_path = ["_templates"]
nitpicky = True  # a reference without a target is a warning, and so an error
nitpick_ignore_regex = [("py:class", ".*")]  # types in Parameters sections are words
default_role = "code"  # docstrings write `name`, as Markdown does

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # types stand in the Parameters sections
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # as one list
toc_object_entries_show_parents = "hide"

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "download_all_examples": False,
    "show_signature": False,
    "plot_gallery": True,
    "abort_on_example_error": True,
    "write_computation_times": False,
}
suppress_warnings = [
    "config.cache"
]  # sphinx_gallery_conf is not picklable; the build is not cached

html_theme = "pydata_sphinx_theme"
html_title = "viewgap"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options: dict[str, Any] = {
    "logo": {"text": "viewgap"},
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "header_links_before_dropdown": 6,
    "navbar_persistent": ["search-button"],
}
# A page without pages below it has no use for a list of them.
html_sidebars = {"[!g]*": []}


# ------------------------------------------------------------------ formulas as MathML


def _mathml(node: nodes.Element, as_block: bool) -> str:
    """The formula as MathML; one that cannot be translated is a warning, and so an error."""
    source = re.sub(r"\\(Big|big)(?![lr])", r"\\\1l", node.astext())
    try:
        return tex2mathml(source, as_block=as_block)
    except MathError as error:
        getLogger(__name__).warning("formula %r: %s", source, error, location=node)
        return f"<code>{html.escape(source)}</code>"


def _inline_math(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _display_math(translator: Any, node: nodes.math_block) -> None:
    # A label eq-N carries the number of the equation in the paper.
    paper = (node.get("label") or "").removeprefix("eq-")
    number = f'<span class="eqno">({paper})</span>' if paper else ""
    label = f' id="{node["ids"][0]}"' if node["ids"] else ""
    formula = _mathml(node, as_block=True)
    translator.body.append(f'<div class="formula"{label}>{formula}{number}</div>')
    raise nodes.SkipNode


# ------------------------------------------------------------------ docstrings


def _formulas(
    _app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]
) -> None:
    """`$$ ... $$` and `$ ... $` in a docstring become formulas."""
    if what in ("property", "attribute") and lines:
        lines[0] = lines[0].replace(": ", "; ")  # napoleon takes what precedes a colon for a type
    text = "\n".join(lines)
    text = re.sub(r"^( *)\$\$(.+?)\$\$ *(.*)$", r"\1.. math:: \2\n\n\1\3\n", text, flags=re.M)
    text = re.sub(r"(?<![`$\w])\$([^$\n]+(?:\n[^$\n]+)?)\$(?![`$\w])", r":math:`\1`", text)
    lines[:] = text.split("\n")


def _types_are_words(_app: Any, doctree: nodes.document) -> None:
    """In "array of shape (n, c)", shape is a word, and no attribute of that name."""
    for reference in list(doctree.findall(pending_xref)):
        target = str(reference.get("reftarget"))
        if reference.get("reftype") == "class" and target.islower() and "." not in target:
            reference.replace_self(reference.children)


def _skip(_app: Any, what: str, name: str, member: Any, skip: bool, _options: Any) -> bool:
    """Leave out class attributes, and what scikit-learn adds: its own manual describes that."""
    theirs = (getattr(member, "__module__", "") or "").startswith("sklearn")
    method = callable(member) or isinstance(member, property | classmethod | staticmethod)
    attribute = what == "class" and (not method or isinstance(member, type))
    return skip or theirs or attribute or name.endswith("_request")


def _every_example_draws(app: Any, exception: Exception | None) -> None:
    images = Path(app.srcdir) / "gallery" / "images"
    for example in Path(app.srcdir).glob("examples/*.py"):
        if exception is None and not (images / f"sphx_glr_{example.stem}_001.png").exists():
            raise ExtensionError(f"{example.name} draws no figure")


def setup(app: Any) -> None:
    """Formulas without JavaScript: browsers show MathML by themselves."""
    app.connect("build-finished", _every_example_draws)
    app.add_html_math_renderer("mathml", (_inline_math, None), (_display_math, None))
    app.connect("autodoc-process-docstring", _formulas, priority=400)
    app.connect("autodoc-skip-member", _skip)
    app.connect("doctree-read", _types_are_words)
