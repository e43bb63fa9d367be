"""Settings for the whole suite: few threads, no deadlines, markers, and where real data may lie."""

import gc
import json
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

# The same draws on every run: who changes nothing sees no new failure; "thorough" looks for some.
settings.register_profile("default", deadline=None, max_examples=50, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

HERE = Path(__file__).parent
# What can change with the rounding of a processor: `make test-anywhere` runs these.
NUMERIC = ("benchmarks", "contract", "ensemble", "methods", "nn", "oracle", "training")
NUMERIC_FILES = ("test_demo.py", "test_readme.py")
# Of these folders: what is asked there is refused, or answered by the same bits on any processor.
NOT_NUMERIC = (
    "test_checkpoints.py",
    "test_early_stopping.py",
    "test_end_to_end.py",
    "test_estimator.py",
    "test_faults.py",
    "test_frames.py",
    "test_hash_seeds.py",
    "test_input.py",
    "test_missing.py",
    "test_missing_cells.py",
    "test_models.py",
    "test_parameters.py",
    "test_processes.py",  # compares within one run, far from its bar
    "test_profiles.py",
    "test_registry.py",
    "test_run.py",  # but for one test, which says so
    "test_signature.py",
    "test_trees.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("viewgap")
    group.addoption("--seed-shift", type=int, default=0, help="other seeds for the learning tests")
    group.addoption(
        "--every-method",
        action="store_true",
        help="what the base class settles for all methods, too, is asked of each of them",
    )
    group.addoption(
        "--slow-faults", action="store_true", help="the tests of `make faults`, and no others"
    )
    group.addoption("--figures", type=Path, help="append every trained figure to this file")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--slow-faults")
    items[:] = [i for i in items if (i.get_closest_marker("faults_slow") is not None) == wanted]
    for item in items:
        place = item.path.relative_to(HERE) if item.path.is_relative_to(HERE) else item.path
        if place.parts[0] in NUMERIC + NUMERIC_FILES and place.name not in NOT_NUMERIC:
            item.add_marker("numeric")
        if "trained" in getattr(item, "fixturenames", ()):
            item.add_marker("learning")
            item.add_marker("numeric")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Ten thousand tests live to the end: a collection of garbage need not look at them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Nor at what a file has imported: tasks of an experiment begin with `gc.collect`."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


class Trained:
    """Compares figures of trained models with a bar, and keeps them for `benchmarks.anywhere`.

    Such a figure moves with the seed, the processor and the number of threads. The worst one
    stays at least five standard deviations away from its bar: `benchmarks/anywhere.json`.
    """

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._test = request.node.nodeid
        self._file: Path | None = request.config.getoption("--figures")
        self.seed: int = 1000 * request.config.getoption("--seed-shift")

    def above(self, figure: float, bar: float, name: str = "") -> None:
        self._keep(figure, bar, "above", name)
        assert figure > bar, f"{name or 'the figure'} must be above {bar:g}, found {figure:g}"

    def below(self, figure: float, bar: float, name: str = "") -> None:
        self._keep(figure, bar, "below", name)
        assert figure < bar, f"{name or 'the figure'} must be below {bar:g}, found {figure:g}"

    def _keep(self, figure: float, bar: float, side: str, name: str) -> None:
        if self._file is not None:
            entry = {"test": self._test, "name": name, "side": side, "bar": bar}
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry | {"figure": float(figure)}) + "\n")


@pytest.fixture
def trained(request: pytest.FixtureRequest) -> Trained:
    """Bars for figures of trained models; `trained.seed` belongs into every seed of such a test."""
    return Trained(request)


@pytest.fixture(scope="session")
def benchmark_data() -> Path:
    """The folder $VIEWGAP_DATA with the benchmark sets; tests that need it skip without it."""
    folder = os.environ.get("VIEWGAP_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set VIEWGAP_DATA to the folder of the benchmark data to run this test")
    return Path(folder)
