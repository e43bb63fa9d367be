"""Label sets on the data of a page: how often their promise held, and words for its samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, first_few, parameter
from viewgap.inspection.findings import Finding
from viewgap.methods.base import MultiViewClassifier
from viewgap.model_report.stories import Story

if TYPE_CHECKING:
    from viewgap.decide import LabelSets
    from viewgap.decide.measured import PatternLoss


@dataclass(frozen=True, eq=False)
class SetsOnData:
    """What label sets say of the data.

    Attributes
    ----------
    promise, assumption : str
    shares : dict of str to float
        Share of the label entries that are certain, possible and ruled out.
    losses : list of (tuple of str, PatternLoss)
        Views of a pattern, and the loss of its samples; empty without labels.
    words : array of shape (n, c)
    """

    promise: str
    assumption: str
    shares: dict[str, float]
    losses: list[tuple[tuple[str, ...], PatternLoss]]
    words: NDArray[Any]

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        losses = [{"views": names, **own.to_dict()} for names, own in self.losses]
        said = {"promise": self.promise, "assumption": self.assumption}
        return said | {"shares": self.shares, "patterns": losses}


def sets_on_data(
    sets: LabelSets, model: MultiViewClassifier, views: ViewSet, labels: Labels | None
) -> SetsOnData:
    """Decide matched views, and measure the loss where there are labels."""
    from viewgap.decide import LabelSets
    from viewgap.decide.set_file import fingerprint
    from viewgap.decide.thresholds import CERTAIN, POSSIBLE, RULED_OUT

    if not isinstance(sets, LabelSets):
        raise SettingError(
            f"label_sets must be LabelSets, found {type(sets).__name__}; a file of them is read by "
            "viewgap.LabelSets.load(path, model)"
        )
    if sets.model is not model and fingerprint(sets.model) != fingerprint(model):
        raise SettingError("the label sets were made for another model; calibrate this one")
    if sets.nan != model.nan:
        raise SettingError(
            f"the label sets were calibrated with {parameter('nan', sets.nan)}; the page is with "
            f"{parameter('nan', model.nan)}: take the same"
        )
    words = sets.words(views)
    kinds = (CERTAIN, POSSIBLE, RULED_OUT)
    losses = []
    for own in [] if labels is None else sets.pattern_losses(views, labels):
        flags = zip(views.names, own.pattern, strict=True)
        losses.append((tuple(name for name, flag in flags if flag == "1"), own))
    shares = {kind: float((words == kind).mean()) for kind in kinds}
    return SetsOnData(sets.promise, sets.assumption, shares, losses, words)


def verdict(own: PatternLoss) -> str:
    """What the rows of a pattern say about the promise."""
    if np.isnan(own.loss):
        return "no sample that counts"
    if own.broken:
        return "broken"
    return "kept" if own.high <= own.promised else "not contradicted"


def set_findings(found: SetsOnData | None) -> Iterator[Finding]:
    """A warning where the promise is broken."""
    broken = [] if found is None else [own for own in found.losses if own[1].broken]
    if not broken:
        return
    shown = first_few(
        f"{' + '.join(names)}{'' if own.label is None else f', label {own.label}'} "
        f"({own.loss:.2f}, promised {own.promised:.2f})"
        for names, own in broken
    )
    remedy = "these samples are not like the calibration rows: calibrate anew with such samples"
    yield Finding("warning", "label_sets", f"label sets break their promise: {shown}", remedy)


def with_words(
    stories: Sequence[Story], rows: Sequence[int], names: Sequence[str], found: SetsOnData | None
) -> list[Story]:
    """The stories of these rows with what the label sets say of each label."""
    if found is None:
        return list(stories)
    place = {name: j for j, name in enumerate(names)}
    return [
        replace(
            own,
            lines=[line | {"set": found.words[row, place[line["label"]]]} for line in own.lines],
        )
        for own, row in zip(stories, rows, strict=True)
    ]
