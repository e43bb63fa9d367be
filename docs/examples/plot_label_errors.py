"""
Labels that look wrong
======================

Five percent of the labels are flipped. ``complete_labels`` answers every sample by a model that was
fitted without it, and ranks the observed labels that the answers contradict.
"""

import matplotlib.pyplot as plt
import numpy as np

import viewgap

data = viewgap.load_dataset("multidigits", n_samples=600)
truth = np.asarray(data.labels, dtype=float)
flipped = np.random.default_rng(0).random(truth.shape) < 0.05
Y = np.where(flipped, 1 - truth, truth)
found = viewgap.complete_labels(data.views, Y, method="late_fusion_ridge")

# %%
# Every flagged entry has its reason.

for reason in found.suspicious["reason"].head(3):
    print(reason)

# %%
# Going down the ranking: how many of the flipped labels have been seen by then?

order = np.argsort(-np.nan_to_num(found.scores.ravel()), kind="stable")
seen = np.cumsum(flipped.ravel()[order]) / flipped.sum()
share = np.arange(1, len(seen) + 1) / len(seen)
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(100 * share, 100 * seen, label="ranked by odds against")
axes.plot([0, 100], [0, 100], color="grey", linestyle=":", label="in any order")
axes.axvline(100 * flipped.mean(), color="grey", linewidth=0.8)
axes.set(xlabel="label entries looked at (%)", ylabel="flipped ones among them (%)")
axes.legend()
axes.grid(alpha=0.3)
plt.show()
