"""What a person sees while a model trains: one line that moves, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from viewgap.training.fit_state import FitState


def _line(state: FitState) -> str:
    """Loss terms, validation score and further facts of the last epoch."""
    last = {name: values[-1] for name, values in state.history.items()}
    score = last.pop("validation_score", None)
    parts = [f"{name.replace('_', ' ')} {value:.3f}" for name, value in last.items()]
    if score is not None:
        parts.insert(
            0, f"validation {score:.4f} (best {state.best_score:.4f}, epoch {state.best_epoch})"
        )
    return " · ".join(parts)


@contextmanager
def progress(title: str, max_epochs: int, show: bool) -> Iterator[Callable[[FitState], None]]:
    """Yield a function to call after every epoch; with `show` it moves a progress bar."""
    if not show:
        yield lambda state: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[line]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(title, total=max_epochs, line="starting")
        yield lambda state: bars.update(task, completed=state.epoch, line=_line(state))
