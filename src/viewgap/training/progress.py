"""What a person sees while a model trains: a bar and the last epoch's numbers, or nothing."""

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
        # In the first `min_epochs` no score counts, and there is no best one yet.
        best = f"best {state.best_score:.4f}, epoch {state.best_epoch}"
        parts.insert(0, f"validation {score:.4f} ({best if state.best_epoch else 'best –'})")
    return " · ".join(parts)


@contextmanager
def progress(title: str, max_epochs: int, show: bool) -> Iterator[Callable[[FitState], None]]:
    """Yield a function to call after every epoch; with `show` it moves a progress bar."""
    if not show:
        yield lambda state: None
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    # The numbers get a line of their own: beside the bar, a narrow terminal would cut them off.
    bars = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("epochs"),
        TimeElapsedColumn(),
    )
    task = bars.add_task(title, total=max_epochs)
    numbers = Text("starting", style="dim")

    def after_epoch(state: FitState) -> None:
        bars.update(task, completed=state.epoch)
        numbers.plain = _line(state)

    with Live(Group(bars, numbers), console=Console(stderr=True), refresh_per_second=8):
        yield after_epoch
