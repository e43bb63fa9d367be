"""
Why this answer?
================

What each view contributes to an answer, and which columns of a view the model depends on.
"""

import matplotlib.pyplot as plt

import viewgap

data = viewgap.load_dataset("multidigits", n_samples=900)
X, Y = viewgap.amputate(data.views, data.labels, view_rate=0.3, label_rate=0.0, seed=0)
train, test = slice(0, 600), slice(600, None)
model = viewgap.LateFusionRidge(random_state=0).fit(X[train], Y[train])

# %%
# Contributions are Shapley values over the views that a sample has. They lead from the answer
# without any view, the frequency of the label in training, to the answer for the sample. In a
# notebook, the table draws itself.

table = viewgap.explain(model, X[[600]])
table

# %%
# Their sum is the difference of the two answers, for every label.

by_label = table.groupby("label", sort=False)
change = by_label["probability"].first() - by_label["base"].first()
print((by_label["contribution"].sum() - change).abs().max())

# %%
# Which columns does the score depend on? Columns of a view are shuffled among the samples that
# have it. Neighbouring ones say nearly the same and would stand in for each other: they are
# shuffled together, in blocks.

width = dict(zip(data.views.names, data.views.dims, strict=True))["fourier"]
blocks = {
    f"{start} to {start + 19}": range(start, min(start + 20, width))
    for start in range(0, width, 20)
}
found = viewgap.column_importance(model, X[test], Y[test], view="fourier", groups=blocks)

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.barh(found["group"], found["importance"], xerr=found["standard_error"])
axes.invert_yaxis()
axes.set(xlabel="AP lost by shuffling", ylabel="columns of the view fourier")
plt.show()
