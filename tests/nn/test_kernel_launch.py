"""Kernels that are compiled ahead: every kind once, by other threads, and nothing is launched."""

import threading
from importlib.util import find_spec
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


class Recorder:
    """What Triton's own function would be asked."""

    def __init__(self) -> None:
        self.launched: list[Any] = []
        self.compiled: list[Any] = []
        self.threads: set[int] = set()

    def __getitem__(self, grid: Any) -> Any:
        return lambda *arguments, **options: self.launched.append((grid, arguments, options))

    def warmup(self, *arguments: Any, grid: Any, **options: Any) -> None:
        self.threads.add(threading.get_ident())
        self.compiled.append((arguments, options))


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Any:
    from viewgap.nn.kernels import launch

    def set_device(index: int) -> None:
        assert isinstance(index, int)  # torch refuses a device without a number

    monkeypatch.setattr(torch.cuda, "set_device", set_device)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    return launch


def test_outside_kernels_are_launched(launch: Any) -> None:
    recorder, x = Recorder(), torch.ones(3)
    launch.Kernel(recorder, [False] * 2)[(7,)](x, 3, WIDTH=4)
    ((grid, arguments, options),) = recorder.launched
    assert grid == (7,)
    assert arguments[0] is x
    assert options == {"WIDTH": 4}
    assert not recorder.compiled


def test_inside_they_are_compiled_once_for_each_kind(launch: Any) -> None:
    recorder = Recorder()
    kernel = launch.Kernel(recorder, [False, False, True])
    with launch.compile_only(torch.device("cuda")):
        for size in (16, 32, 5, 7, 1):  # two multiples of 16, two others, and one
            for anything in (1, 2, 16):
                kernel[(1,)](torch.ones(3), size, anything, WIDTH=4)
        kernel[(1,)](torch.ones(3).double(), 16, 1, WIDTH=4)
        kernel[(1,)](torch.ones(3), 16, 1, WIDTH=8)
    assert not recorder.launched
    assert len(recorder.compiled) == 5
    assert recorder.compiled[0] == ((torch.float32, 16, 1), {"WIDTH": 4})
    assert threading.get_ident() not in recorder.threads


def test_results_that_were_not_computed_are_zero(launch: Any) -> None:
    numbers, wide = torch.full((4,), torch.nan), torch.ones(1, 2).expand(3, 2)
    indices = torch.full((4,), 99)
    with launch.compile_only(torch.device("cuda")):
        launch.Kernel(Recorder(), [False] * 3)[(1,)](numbers, indices, wide)
    assert not numbers.any()
    assert not indices.any()
    assert wide.all()


def test_other_threads_launch_as_ever(launch: Any) -> None:
    recorder = Recorder()
    kernel = launch.Kernel(recorder, [False])
    with launch.compile_only(torch.device("cuda")):
        other = threading.Thread(target=lambda: kernel[(1,)](torch.ones(3)))
        other.start()
        other.join()
    assert len(recorder.launched) == 1
    assert not recorder.compiled


def test_what_cannot_be_compiled_is_left_to_its_launch(launch: Any) -> None:
    class Broken(Recorder):
        def warmup(self, *arguments: Any, grid: Any, **options: Any) -> None:
            raise RuntimeError("no compiler")

    recorder = Broken()
    kernel = launch.Kernel(recorder, [False])
    with launch.compile_only(torch.device("cuda")):
        kernel[(1,)](torch.ones(3))
    kernel[(1,)](torch.ones(3))
    assert len(recorder.launched) == 1
