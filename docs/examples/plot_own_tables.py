"""
Which view helps which label?
=============================

Two DataFrames about overlapping groups of patients, labels that were not observed for everybody,
and a model that says how far it trusts each view.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import viewgap

rng = np.random.default_rng(0)
ids = [f"patient{i}" for i in range(300)]
names = ["fever", "rash", "relapse"]
truth = pd.DataFrame(rng.integers(0, 2, (300, 3)), ids, names)

# %%
# Blood values show fever clearly and relapse hardly; the scan shows relapse and rash.

blood = truth @ (np.array([[2.0], [0.4], [0.1]]) * rng.normal(size=(3, 8)))
blood = (blood + rng.normal(size=(300, 8)))[:240]  # the last 60 patients have no blood values
scan = truth @ (np.array([[0.1], [0.8], [1.0]]) * rng.normal(size=(3, 20)))
scan = (scan + rng.normal(size=(300, 20)))[60:]  # the first 60 have no scan
labels = truth.mask(rng.random((300, 3)) < 0.3)

# %%
# A ViewSet aligns both tables by patient. The labels are a DataFrame, too, so that no order is left
# to chance.

X = viewgap.ViewSet({"blood": blood, "scan": scan}, sample_ids=ids)
train, test = slice(0, None, 2), slice(1, None, 2)
model = viewgap.SCSD(random_state=0, max_epochs=30).fit(X[train], labels[train])
print({view: round(weight, 2) for view, weight in model.view_weights_.items()})

# %%
# ``predict_views`` has the answer of every view alone; NaN where a patient lacks the view. Compared
# are the patients who have both.

both = np.array(X[test].observed).all(axis=1)
by_view = {**model.predict_views(X[test]), "both": model.predict_proba(X[test])}
accuracy = pd.DataFrame(
    {view: ((p > 0.5) == (truth[test] == 1))[both].mean() for view, p in by_view.items()}
)
print(accuracy.round(2))

# %%

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
accuracy.plot.bar(ax=axes, rot=0, width=0.75)
axes.set(ylabel="share of correct decisions", ylim=(0, 1))
axes.axhline(0.5, color="grey", linewidth=0.8, linestyle=":")
axes.legend(title="predicted from", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
