"""
Which view should be measured next?
===================================

A sample has one view so far. Each further one costs something: which is worth it?
"""

import matplotlib.pyplot as plt
import numpy as np

import viewgap

data = viewgap.load_dataset("multidigits", n_samples=1500)
train, reference, new = slice(0, 600), slice(600, 1200), slice(1200, 1500)
model = viewgap.LateFusionRidge(random_state=0).fit(data.views[train], data.labels[train])

# %%
# Labelled reference samples that the model was not fitted on tell what a view is worth: it is
# hidden from them, and shown.

suggester = viewgap.ViewSuggester(model).fit(data.views[reference], data.labels[reference])

# %%
# One new sample, of which only the first view was measured. The last view costs four times as much
# as the others.

only_first = np.arange(data.views.n_views) == 0
sample = data.views[[1200]].with_observed(only_first[None])
suggester.suggest(sample, costs={data.views.names[-1]: 4})

# %%
# Does it help? Two thirds of the views of all new samples are hidden, and one is shown again: a
# random one, the first in the order of the data, or the suggested one.

views = data.views[new]
start, _ = viewgap.amputate(views, data.labels[new], view_rate=0.67, label_rate=0.0, seed=0)
hidden = ~start.observed
found = suggester.suggest(start)
first = found[found["rank"] == 1].set_index("sample")["view"]
suggested = np.array([first[own] for own in views.sample_ids])[:, None] == np.array(views.names)
lots = np.where(hidden, np.random.default_rng(0).random(hidden.shape), -1.0)
every = np.arange(views.n_views)
shown = {
    "no further view": np.zeros_like(hidden),
    "a random view": lots.argmax(axis=1)[:, None] == every,
    "the first one missing": hidden.argmax(axis=1)[:, None] == every,
    "the suggested view": suggested,
    "all views": hidden,
}
scores = {
    name: model.score(views.with_observed(start.observed | more), data.labels[new])
    for name, more in shown.items()
}

figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.barh(list(scores), list(scores.values()))
axes.invert_yaxis()
axes.set(xlabel="AP", xlim=(0.5, None))
plt.show()

# %%
# A view that is the best one for nearly every sample is hard to beat by looking at the sample: the
# page "What to measure next" has a back-test against a fixed order.
