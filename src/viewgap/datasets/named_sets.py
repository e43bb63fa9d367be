"""What every data set known by name must hold: sizes, views, gaps, ranges of values, files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from viewgap.data.formats.mulan import ViewSplit
from viewgap.datasets.sources import PUBLISHED, SIX_VIEWS

NOT_NEGATIVE = (0.0, math.inf)
SHARE = (0.0, 1.0)


@dataclass(frozen=True)
class NamedSet:
    """A data set as it is published.

    Attributes
    ----------
    n, c, cardinality
        Samples, labels, positive labels per sample.
    views : mapping of str to int
        Width of each view.
    ranges : mapping of str to (low, high)
        Values that a view can have; a view that is not named may have any.
    percent_missing, percent_unobserved : float
        Entries (sample, view) and label entries that are missing by nature.
    file : str
        Name of the data file; `*` where it may have any.
    table1 : bool
        Whether the sizes are those of Table 1 of the SCSD paper.
    """

    n: int
    c: int
    cardinality: float
    views: Mapping[str, int]
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    percent_missing: float = 0.0
    percent_unobserved: float = 0.0
    file: str = "*.npz"
    table1: bool = False


def _benchmark(name: str) -> NamedSet:
    size = PUBLISHED[name]
    # Histograms of counts, and energies of filters: scaled or not, none is ever negative.
    ranges = dict.fromkeys(SIX_VIEWS, NOT_NEGATIVE)
    file = f"{name}_six_view.mat"
    return NamedSet(size.n, size.c, size.cardinality, SIX_VIEWS, ranges, file=file, table1=True)


NAMED_SETS = {
    **{name: _benchmark(name) for name in PUBLISHED},
    "3sources": NamedSet(
        416,
        6,
        1.123,
        {"bbc": 3560, "guardian": 3631, "reuters": 3068},
        dict.fromkeys(("bbc", "guardian", "reuters"), NOT_NEGATIVE),
        percent_missing=24.04,
    ),
    "emotions": NamedSet(593, 6, 1.868, {"view0": 8, "view1": 64}),
    "scene": NamedSet(
        2407,
        6,
        1.074,
        {"luminance_98": 98, "chroma_196": 196},
        dict.fromkeys(("luminance_98", "chroma_196"), SHARE),
    ),
    "plant": NamedSet(
        978,
        12,
        1.079,
        {"GO": 3091, "amino_acid": 20, "pseudo_amino_acid": 20, "dipeptide": 400},
        {"GO": SHARE},
    ),
    "birds": NamedSet(
        645,
        19,
        1.014,
        {"audio_ssd": 153, "segments": 105, "recorder_site": 12},
        {"recorder_site": SHARE},
        percent_missing=17.42,
    ),
    "cll": NamedSet(
        254,
        39,
        2.772,
        {"drug_screen_A": 320, "drug_screen_B": 315, "seahorse": 11},
        percent_missing=32.15,
        percent_unobserved=15.53,
    ),
}
"""By name: the five benchmark sets of the field, and sets made from public files."""

MULAN_VIEWS = {
    "emotions": ViewSplit({"view0": ["BH*"], "view1": ["Mean_*", "Std_*"]}),
    "scene": ViewSplit({"luminance_98": ["1-98"], "chroma_196": ["99-294"]}),
    "birds": ViewSplit(
        {
            "audio_ssd": ["audio-ssd*"],
            "segments": ["cluster*", "segments", "mean_rect_*", "std_rect_*"],
            "recorder_site": ["location"],
        },
        ignore=["hasSegments"],
        missing={"segments": ("hasSegments", "0")},
    ),
}
"""Columns of the views in Mulan's files, which say nothing of views."""
