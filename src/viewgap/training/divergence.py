"""Training that left the range of floating point: which loss, in which epoch, batch and samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from viewgap.errors import RunError, parameter

# What torch's cross-entropy says to a NaN; a sigmoid gives nothing else that it could refuse.
REFUSED_BY_TORCH = "should be between 0 and 1"
# Ids of a batch that a message lists.
_NAMED = 5


def divergence(epoch: int, what: str) -> RunError:
    """The error of a fit whose numbers have left the range of floating point."""
    return RunError(
        f"training diverged in epoch {epoch}: {what}; lower {parameter('learning_rate')}, set "
        f"{parameter('max_grad_norm')}, or check the scale of the views"
    )


def broken_term(terms: Mapping[str, float]) -> str | None:
    """What is said of the first loss that is NaN or infinite, if there is one."""
    for name, value in terms.items():
        if not math.isfinite(value):
            return f"the {name} loss is {value}"
    return None


def in_batch(number: int, n_batches: int, sample_ids: Sequence[NDArray[Any]]) -> str:
    """Which batch of an epoch, counted from 1, and which samples; one list of ids per network."""
    ids = list(dict.fromkeys(str(name) for own in sample_ids for name in own))
    named = ", ".join(ids[:_NAMED]) + (f", ... ({len(ids)} in all)" if len(ids) > _NAMED else "")
    return f"in batch {number} of {n_batches} (samples {named})"
