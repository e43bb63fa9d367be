"""
Labels that are certain, possible or ruled out
==============================================

How much can be decided when at most one in ten positive labels may be missed? That depends on the
views that a sample has, and on how sure one wants to be.
"""

import matplotlib.pyplot as plt

import viewgap

data = viewgap.load_dataset("multidigits", n_samples=1800)
X, Y = viewgap.amputate(data.views, data.labels, view_rate=0.2, label_rate=0.1, seed=0)
train, calibration, new = slice(0, 700), slice(700, 1500), slice(1500, None)

# %%
# The model is fitted on some samples; others, that it has not seen, say from which probability on a
# label can be ruled out. Their views and labels have gaps, too.

model = viewgap.LateFusionRidge(random_state=0).fit(X[train], Y[train])
sets = viewgap.LabelSets(model, risk="missed positives", target_level=0.9)
sets.calibrate(X[calibration], Y[calibration])
print(sets.promise)
print(sets.predict(X[new]).iloc[:3, :5])

# %%
# Every pattern of missing views has thresholds of its own: calibration samples that have at least
# these views, with the others hidden. With fewer views, more labels stay possible. The same samples
# are decided each time. Beside the bars: the share of their positives that was ruled out.

complete = data.views[new]
names = list(complete.names)
shares, missed = [], []
counts = (1, 2, 4)
for count in counts:
    observed = complete.observed.copy()
    observed[:, count:] = False
    views = complete.with_observed(observed)
    words = sets.predict(views).to_numpy()
    shares.append((words == "possible").mean())
    missed.append(sets.evaluate(views, data.labels[new])["loss"].iloc[0])

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
places = [
    " + ".join(names[:count]) + f"\n{loss:.1%} of the positives missed"
    for count, loss in zip(counts, missed, strict=True)
]
axes.barh(places, shares, color="#4c78a8")
axes.set(xlabel="share of labels left possible (the others are ruled out)", xlim=(0, 1))
axes.invert_yaxis()
plt.show()

# %%
# The two directions are two promises: how many labels can be ruled out when few positives may be
# missed, and how many can be called certain when few of these may be negative. A higher level
# leaves more possible.

levels = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for risk, word in (("missed positives", "ruled out"), ("false alarms", "certain")):
    parts = []
    for level in levels:
        own = viewgap.LabelSets(model, risk=risk, target_level=level)
        own.calibrate(X[calibration], Y[calibration])
        parts.append((own.predict(complete).to_numpy() == word).mean())
    axes.plot(levels, parts, marker="o", label=f"{word} (bounded: {risk})")
axes.set(xlabel="target level", ylabel="share of label entries", ylim=(0, 1))
axes.grid(alpha=0.3)
axes.legend(frameon=False)
plt.show()
