"""
A page about a model
====================

How good is a model, for samples with which views, and what is lost if a view disappears? `report`
writes all of it as one HTML file; its figures can be used further.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import viewgap

data = viewgap.load_dataset("multidigits", n_samples=900)
X, Y = viewgap.amputate(data.views, data.labels, view_rate=0.5, label_rate=0.2, seed=0)
train, new = slice(0, 500), slice(500, None)
model = viewgap.LateFusionRidge(random_state=0).fit(X[train], Y[train])

# %%
# The page needs no other file, no network and no script. What to know first stands first.

found = viewgap.report(model, X[new], Y[new], title="Digits")
for finding in found.findings[:4]:
    print("-", finding)
with tempfile.TemporaryDirectory() as folder:
    found.save(Path(folder) / "digits.html")

# %%
# What if a view disappears tomorrow? Each view is hidden in all samples, and the same model answers
# again. The intervals are those of the differences, on the same samples.

hidden = sorted(found.to_dict()["hidden_views"], key=lambda own: own["loss"]["value"])
losses = [own["loss"] for own in hidden]
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for place, loss in enumerate(losses):
    axes.plot([loss["low"], loss["high"]], [place, place], color="#4c78a8")
axes.plot([loss["value"] for loss in losses], range(len(losses)), "o", color="#4c78a8")
axes.set_yticks(range(len(losses)), [f"without {own['view']}" for own in hidden])
axes.axvline(0, color="grey", linewidth=0.8)
axes.set(xlabel="average precision lost (95 % interval)")
plt.show()
