"""
What does each method bring?
============================

The ensemble fits several methods and stacks them. Its leaderboard shows how each of them does on
samples that it was not fitted on, and how much it counts.
"""

import matplotlib.pyplot as plt

import viewgap

data = viewgap.load_dataset("multidigits", n_samples=400)
X, Y = viewgap.amputate(data.views, data.labels, view_rate=0.5, label_rate=0.5)

# %%
# Small members, so that this page is made in seconds; ``viewgap.Ensemble()`` has full ones and a
# network besides.

members = {
    "extra_trees": {"n_estimators": 30},
    "late_fusion_ridge": {"features": "auto"},
    "gradient_boosting": {"n_estimators": 10},
}
model = viewgap.Ensemble(methods=members, random_state=0).fit(X[:300], Y[:300])
print(model.leaderboard_.round(3).to_string(index=False))

# %%
# The lines are standard deviations over five groups of the samples: a difference that is smaller
# says little. Test samples agree with the order.

board = model.leaderboard_
figure, axis = plt.subplots(figsize=(6, 2.5), layout="constrained")
axis.barh(board["method"], board["score"], xerr=board["spread"], color="tab:blue", height=0.6)
axis.set_xlim(board["score"].min() - 0.1, None)
axis.set_xlabel("average precision, out of fold")
axis.invert_yaxis()
print(round(model.score(X[300:], data.labels[300:]), 3))
