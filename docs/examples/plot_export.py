"""
One ONNX file for all patterns of missing views
===============================================

An exported model predicts with numpy and ONNX Runtime alone. Is it the same model?
"""

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime

import viewgap

data = viewgap.load_dataset("multidigits", n_samples=700)
X, Y = viewgap.amputate(data.views, data.labels, view_rate=0.3, label_rate=0.2, seed=0)
model = viewgap.LateFusionRidge(random_state=0).fit(X[:500], Y[:500])

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "digits.onnx"
    viewgap.export_onnx(model, path)
    session = onnxruntime.InferenceSession(path.read_bytes())

# %%
# From here on nothing of viewgap is needed: names of inputs and labels stand in the file. Of every
# view there are its values and whether a sample has it.

written = session.get_modelmeta().custom_metadata_map
inputs, names = json.loads(written["viewgap.views"]), json.loads(written["viewgap.labels"])
values = {name: data.views.rows(name)[500:].astype(np.float32) for name in inputs}


def answer(observed):
    """Probabilities of the samples, of which only some views are shown."""
    feed = {}
    for number, (name, own) in enumerate(inputs.items()):
        feed[own["values"]], feed[own["observed"]] = values[name], observed[:, number]
    return session.run(["probabilities"], feed)[0]


every = np.ones((200, len(inputs)), dtype=bool)
print({name: f"{value:.2f}" for name, value in zip(names, answer(every)[0], strict=True)})

# %%
# The largest difference from the library in each of the patterns of missing views: rounding in
# single precision.

patterns = [[bool(number >> bit & 1) for bit in range(len(inputs))] for number in range(1, 64)]
differences = []
for pattern in patterns:
    observed = np.tile(pattern, (200, 1))
    expected = model.predict_proba(data.views[500:700].with_observed(observed))
    differences.append(np.abs(answer(observed) - expected).max())

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.scatter([sum(pattern) for pattern in patterns], differences, color="#4c78a8", alpha=0.6)
axes.axhline(1e-5, color="grey", linestyle="--", linewidth=0.8)
axes.text(1, 1.2e-5, "what tests allow", color="grey")
axes.set(
    xlabel="number of views shown", ylabel="largest difference", yscale="log", ylim=(5e-9, 4e-5)
)
plt.show()
