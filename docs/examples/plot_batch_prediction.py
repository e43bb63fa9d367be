"""
Answers where the data are: Dask and Spark
==========================================

A table in several files is answered by the processes that read them. Only counts come back here.
"""

import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

import dask.dataframe as dd
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import viewgap

rng = np.random.default_rng(0)
n = 2000
ill = rng.random(n) < 0.4
views = {
    "blood": 0.6 * ill[:, None] + rng.normal(size=(n, 4)),
    "scan": 1.2 * ill[:, None] + rng.normal(size=(n, 3)),
}
views["scan"][rng.random(n) < 0.4] = np.nan  # no scan
folder = Path(tempfile.mkdtemp())
labels = pd.DataFrame({"ill": ill[:500].astype(float)})
model = viewgap.LateFusionRidge().fit({name: X[:500] for name, X in views.items()}, labels)
viewgap.save_model(model, folder / "model")

# %%
# The table has a column ``view:column`` for every number. It lies in four files.

columns = {f"{name}:{k}": X[500:, k] for name, X in views.items() for k in range(X.shape[1])}
table = pd.DataFrame({"patient": np.arange(500, n), **columns})
(folder / "table").mkdir()
for number, part in enumerate(np.array_split(np.arange(len(table)), 4)):
    table.iloc[part].to_parquet(folder / "table" / f"part{number}.parquet", index=False)

predictor = viewgap.BatchPredictor(folder / "model", id_column="patient")
expected = predictor(table)

# %%
# With Dask every partition is a DataFrame, and so is its answer.

parts = dd.read_parquet(folder / "table")
on_dask = parts.map_partitions(predictor, meta=predictor.meta(parts)).compute()
print("Dask:", np.array_equal(on_dask.sort_values("patient")["ill"], expected["ill"]))

# %%
# With Spark a partition is an iterator of batches. This part is left out where there is no PySpark
# or no Java.

if importlib.util.find_spec("pyspark") and shutil.which("java"):
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers need viewgap, too
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for option in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(option, "127.0.0.1")
    spark = builder.getOrCreate()
    frame = spark.read.parquet(str(folder / "table"))
    schema = predictor.output_schema(dict(frame.dtypes)["patient"])
    rows = frame.mapInArrow(predictor, schema).select("patient", "ill").collect()
    spark.stop()
    print("Spark:", [row.ill for row in sorted(rows)] == expected["ill"].tolist())
else:
    print("Spark: not here")

# %%
# What is wanted is often small: here counts, which every partition makes by itself.

bins = np.linspace(0, 1, 26)


def count(part):
    with_scan = part["scan:0"].notna().to_numpy()
    answers = predictor(part)["ill"].to_numpy()
    counts = [np.histogram(answers[kept], bins)[0] for kept in (with_scan, ~with_scan)]
    return pd.DataFrame({"with": counts[0], "without": counts[1]})


empty = pd.DataFrame({"with": pd.Series(dtype=int), "without": pd.Series(dtype=int)})
counted = parts.map_partitions(count, meta=empty).compute().groupby(level=0).sum()

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.stairs(counted["with"], bins, label="with a scan", linewidth=1.5)
axes.stairs(counted["without"], bins, label="without", linewidth=1.5, linestyle="--")
axes.set(xlabel="probability of ill", ylabel="patients")
axes.legend(frameon=False)
shutil.rmtree(folder)
plt.show()
