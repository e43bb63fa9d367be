"""
A model as a service
====================

One row, asked again with fewer views. The service runs in another process, as it would for a
program in any language; it has a page for people, too.
"""

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import matplotlib.pyplot as plt

import viewgap

data = viewgap.load_dataset("synthetic", n_samples=400, seed=0)
model = viewgap.LateFusionRidge(random_state=0).fit(data.views[:300], data.labels[:300])

folder = tempfile.TemporaryDirectory()
saved = Path(folder.name) / "model"
viewgap.save_model(model, saved)
command = [sys.executable, "-m", "viewgap", "serve", str(saved), "--port", "0"]
service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
address = re.search(r"http://\S+", service.stderr.readline())[0]

# %%
# A client needs nothing but JSON. A view that is null was not measured.


def ask(path, body):
    content = json.dumps(body).encode()
    request = urllib.request.Request(address + path, content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["rows"]


names = list(data.views.names)
whole = {name: data.views.rows(name)[350].tolist() for name in names}
rows = [{"id": "all views", "views": whole}]
rows += [{"id": f"without {name}", "views": whole | {name: None}} for name in names]
answers = ask("/predict", {"rows": rows})
for line in answers[:2]:
    print(line["id"], {name: round(p, 2) for name, p in line["probabilities"].items()})

# %%
# `/explain` says what each view contributes; contributions add up to the probability.

label = max(answers[0]["probabilities"], key=answers[0]["probabilities"].get)
explained = ask("/explain", {"rows": rows, "labels": [label]})

figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
for number, name in enumerate(names):
    parts = [line["labels"][label]["contributions"][name] or 0.0 for line in explained]
    axes.bar([place + 0.25 * (number - 1) for place in range(len(rows))], parts, 0.22, label=name)
axes.axhline(0, color="black", linewidth=0.8)
ticks = [f"{line['id']}\n{line['labels'][label]['probability']:.2f}" for line in explained]
axes.set_xticks(range(len(rows)), ticks)
base = explained[0]["labels"][label]["base"]
axes.set(ylabel="contribution", title=f"probability of {label}; without any view {base:.2f}")
axes.legend(frameon=False, fontsize="small")
plt.show()

# %%
# SIGTERM ends it, after what is running was answered.

service.terminate()
print("ended with", service.wait(timeout=60))
folder.cleanup()
