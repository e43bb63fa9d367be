"""
How much does a missing view cost?
==================================

A model is trained once with half of the views missing. Then it is used with more and more of them
missing.
"""

import matplotlib.pyplot as plt

import viewgap

data = viewgap.load_dataset("multidigits", n_samples=1200)
X, Y = viewgap.amputate(data.views, data.labels, view_rate=0.5, label_rate=0.5, seed=0)
train, test = slice(0, 900), slice(900, None)

# %%
# Models that train in a second each. All take the views as they are: ridge regression makes one
# model per view and averages the predictions of the views that a sample has; logistic regression
# puts all views side by side and fills the missing ones with means.

models = {
    "late-fusion ridge": viewgap.LateFusionRidge(),
    "imputed logistic regression": viewgap.ImputedLogistic(),
    "label frequencies": viewgap.LabelFrequency(),
}
for model in models.values():
    model.fit(X[train], Y[train])

# %%
# The test samples are complete. Views are taken away from them at growing rates, and the same
# labels are predicted every time.

rates = [0.0, 0.2, 0.4, 0.6, 0.8]
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for name, model in models.items():
    scores = []
    for rate in rates:
        views, _ = viewgap.amputate(data.views[test], data.labels[test], rate, 0.0, seed=1)
        scores.append(viewgap.evaluate(data.labels[test], model.predict_proba(views))["AP"])
    axes.plot(rates, scores, marker="o", label=name)
axes.set(xlabel="share of the views that are missing in use", ylabel="AP", ylim=(0, 1))
axes.grid(alpha=0.3)
axes.legend(frameon=False)
plt.show()
