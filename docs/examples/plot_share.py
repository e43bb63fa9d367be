"""
What travels when a model is shared
===================================

`push_to_hub` sends the files of a model folder and a card. None of them can run, and a copy that
was damaged on its way is refused.
"""

import shutil
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import viewgap
from viewgap.hub import model_card

data = viewgap.load_dataset("synthetic", n_samples=300, seed=0)
models = {
    "late-fusion ridge": viewgap.LateFusionRidge(random_state=0),
    "extra trees": viewgap.ExtraTrees(n_estimators=20, random_state=0),
    "SCSD": viewgap.SCSD(max_epochs=2, n_networks=1, device="cpu", random_state=0),
}
folder = Path(tempfile.mkdtemp())
sizes = {}
for name, model in models.items():
    viewgap.save_model(model.fit(data.views, data.labels), folder / name)
    sizes[name] = {path.name: path.stat().st_size for path in sorted((folder / name).iterdir())}

# %%
# Three files: settings and names as JSON, arrays as safetensors, checksums of both.

figure, axes = plt.subplots(figsize=(6, 2.5), layout="constrained")
left = [0.0] * len(sizes)
for file in next(iter(sizes.values())):
    parts = [own[file] / 1024 for own in sizes.values()]
    axes.barh(list(sizes), parts, left=left, label=file)
    left = [start + part for start, part in zip(left, parts, strict=True)]
axes.set(xlabel="KiB")
axes.invert_yaxis()
axes.legend(frameon=False, fontsize="small")
plt.show()

# %%
# The card is written from what the model knows of itself.
# `viewgap.push_to_hub(model, "owner/name")` sends it with the files;
# `viewgap.load_model("hf://owner/name")` reads them again.

card = model_card(viewgap.info(folder / "extra trees"), "owner/name")
print("\n".join(card.splitlines()[6:24]))

# %%
# One changed byte among the weights:

weights = folder / "extra trees" / "weights.safetensors"
content = bytearray(weights.read_bytes())
content[-1] ^= 1
weights.write_bytes(content)
try:
    viewgap.load_model(folder / "extra trees")
except viewgap.errors.ModelFileError as error:
    print(str(error).replace(str(folder), "…"))
shutil.rmtree(folder)
