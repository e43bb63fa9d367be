"""What `complete_labels` gives back: tables, and the reasons for what is flagged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.completion.answers import log_odds
from viewgap.completion.suspicion import expected
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, first_few, remedy

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

MIN_ODDS = 5.0
_LOG_FACTOR = float(np.log(2.0))  # a view that changes the odds by less says nothing
_MOST_SHOWN = 3


def check_limits(min_odds: float, most: int | None) -> None:
    """Refuse limits of what is flagged that make no sense."""
    if not (np.isfinite(min_odds) and min_odds > 0):
        name = remedy("min_odds", "--min-odds")
        raise SettingError(f"{name} must be a positive number; found {min_odds!r}")
    if most is not None and most < 0:
        raise SettingError(f"{remedy('most', '--most')} must be 0 or more; found {most!r}")


@dataclass(frozen=True, eq=False)
class LabelCompletion:
    """Out-of-fold probabilities of all label entries, and the observed ones that look wrong.

    Attributes
    ----------
    probabilities : DataFrame of shape (n_samples, n_labels)
        Probability that the label is there, by models that were fitted without the sample. NaN for
        a label that was never observed.
    completed : DataFrame of shape (n_samples, n_labels)
        Observed labels as they are, probabilities where nobody looked.
    suspicious : DataFrame
        A line per flagged entry, the most suspicious first; see `flagged`.
    unobserved : DataFrame
        A line per entry that was not observed: `sample`, `label`, `probability`, `expected`.
    entries : DataFrame
        A line per entry: `sample`, `label`, `observed` (NaN where it was not), `probability`,
        `expected` (the frequency of the label), `odds_against` the observed value (NaN where
        nothing can be said).
    judged : array of shape (n_labels,)
        Labels whose out-of-fold probabilities tell positives from negatives; entries of the others
        are never flagged.
    """

    views: ViewSet
    labels: Labels
    whole: Floats
    alone: Floats
    scores: Floats
    judged: NDArray[np.bool_]
    duplicate_of: NDArray[np.intp]

    @cached_property
    def probabilities(self) -> pd.DataFrame:
        """See the class."""
        return self._matrix(self.whole)

    @cached_property
    def completed(self) -> pd.DataFrame:
        """See the class."""
        return self._matrix(np.where(self.labels.observed, self.labels.as_float(), self.whole))

    @cached_property
    def entries(self) -> pd.DataFrame:
        """See the class."""
        rows, columns = (own.ravel() for own in np.indices(self.whole.shape))
        return self._lines(rows, columns)

    @cached_property
    def unobserved(self) -> pd.DataFrame:
        """See the class."""
        rows, columns = np.nonzero(~self.labels.observed)
        return self._lines(rows, columns)[["sample", "label", "probability", "expected"]]

    @cached_property
    def suspicious(self) -> pd.DataFrame:
        """See the class."""
        return self.flagged()

    def flagged(self, min_odds: float = MIN_ODDS, most: int | None = None) -> pd.DataFrame:
        """Observed entries that look wrong, the most suspicious first.

        Parameters
        ----------
        min_odds : float, default=5
            Least odds against the observed value: the geometric mean of the plain odds of the
            other value and of their ratio to the odds by chance.
        most : int, optional
            At most so many.

        Returns
        -------
        DataFrame
            `rank`, `sample`, `label`, `observed`, `probability` (of the label, out of fold),
            `expected` (by chance), `odds_against`, `views_against` and `views_for` (what the model
            says given that view alone), `duplicates` (samples with the same values and the other
            label), and `reason`, all of it in words.
        """
        check_limits(min_odds, most)
        flat = np.where(self.judged, self.scores, np.nan).ravel()
        found = np.flatnonzero(flat >= min_odds)  # NaN is not
        found = found[np.argsort(-flat[found], kind="stable")][:most]
        rows, columns = np.unravel_index(found, self.scores.shape)
        lines = self._lines(rows, columns)
        lines.insert(0, "rank", np.arange(1, len(lines) + 1))
        told = [self._told(int(i), int(j)) for i, j in zip(rows, columns, strict=True)]
        for key in ("views_against", "views_for", "duplicates", "reason"):
            lines[key] = [own[key] for own in told]
        return lines.astype({"observed": np.int64})

    def to_lines(self, min_odds: float = MIN_ODDS, most: int | None = None) -> pd.DataFrame:
        """Return flagged and unobserved entries as one table; `kind` tells them apart."""
        import pandas as pd

        flagged, rest = self.flagged(min_odds, most), self.unobserved
        parts = [flagged.assign(kind="suspicious"), rest.assign(kind="unobserved")]
        parts = [own for own in parts if len(own)] or parts[:1]
        lines = pd.concat(parts, ignore_index=True).reindex(columns=["kind", *flagged.columns])
        texts = ["views_against", "views_for", "duplicates", "reason"]
        return lines.fillna(dict.fromkeys(texts, "")).astype({"rank": "Int64", "observed": "Int64"})

    # ------------------------------------------------------------------ parts of these

    def _matrix(self, values: Floats) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(values, index=self.views.frame_index(), columns=list(self.labels.names))

    @cached_property
    def _expected(self) -> Floats:
        return expected(self.labels.as_float())

    def _lines(self, rows: Any, columns: Any) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(
            {
                "sample": self.views.sample_ids[rows],
                "label": np.array(self.labels.names, dtype=object)[columns],
                "observed": self.labels.as_float()[rows, columns],
                "probability": self.whole[rows, columns],
                "expected": self._expected[columns],
                "odds_against": self.scores[rows, columns],
            }
        )

    def _told(self, row: int, column: int) -> dict[str, str]:
        """What speaks against one observed entry, and for it."""
        positive = bool(self.labels.values[row, column])
        chance = self._expected[column]
        evidence = log_odds(self.alone[row, :, column]) - log_odds(chance)
        evidence = -evidence if positive else evidence  # above 0: against the observed value
        against = self._named_views(row, column, evidence)
        favour = self._named_views(row, column, -evidence)
        others = self._contradicting(row, column, positive)
        value, other = ("positive", "negative") if positive else ("negative", "positive")
        parts = [
            f"observed {value}, but the out-of-fold probability is "
            f"{_shown(self.whole[row, column])} (by chance {_shown(chance)})"
        ]
        parts += [f"against it: {against}"] if against else []
        parts += [f"for it: {favour}"] if favour else []
        if others:
            parts.append(f"the same values with this label {other}: {others}")
        return {
            "views_against": against,
            "views_for": favour,
            "duplicates": others,
            "reason": "; ".join(parts),
        }

    def _named_views(self, row: int, column: int, evidence: Floats) -> str:
        """Views whose answer alone changes the odds enough, the strongest first."""
        strong = [j for j in np.argsort(-evidence, kind="stable") if evidence[j] >= _LOG_FACTOR]
        alone = self.alone[row, :, column]
        return ", ".join(f"{self.views.names[j]} {_shown(alone[j])}" for j in strong)

    def _contradicting(self, row: int, column: int, positive: bool) -> str:
        """Ids of the samples with the same values that were observed with the other value."""
        same = self.duplicate_of == self.duplicate_of[row]
        other = self.labels.values[:, column].astype(np.bool_) != positive
        rows = np.flatnonzero(same & other & self.labels.observed[:, column])
        return first_few(self.views.sample_ids[rows], _MOST_SHOWN) if len(rows) else ""


def _shown(probability: float) -> str:
    """Two decimals, and never 0 or 1."""
    bounded = {"0.00": "below 0.01", "1.00": "above 0.99"}
    text = f"{probability:.2f}"
    return bounded.get(text, text)
