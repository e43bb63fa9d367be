"""How long a fit takes, before it begins."""

from __future__ import annotations

from abc import ABC, abstractmethod

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet


class EstimatedFit(ABC):
    """Mixin of the methods whose fits can be foreseen: none of them stops early."""

    def estimated_seconds(self, views: ViewSet, labels: Labels) -> float:
        """Return about how long a fit takes on one processor; an estimate from the sizes alone.

        Views of mostly zeros, such as term counts, may take a fraction of it.
        """
        return float(self._seconds(views, labels))

    @abstractmethod
    def _seconds(self, views: ViewSet, labels: Labels) -> float:
        """What `estimated_seconds` returns."""
