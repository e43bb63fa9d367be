"""Does it help on MultiDigits that training and test canvases share source digits?

Trains on canvases of 70 % of the source digits and compares new canvases of these sources with
canvases of the other sources. Takes about two minutes on one core.
"""

import warnings

import numpy as np

import viewgap
from viewgap.data.viewset import ViewSet
from viewgap.datasets import multidigits
from viewgap.errors import ViewgapWarning
from viewgap.metrics.evaluation import field_metrics

IMAGES, DIGITS = multidigits._source_digits()


def make(sources: np.ndarray, n_samples: int, seed: int) -> tuple[ViewSet, np.ndarray]:
    rng = np.random.default_rng(seed)
    placed = multidigits._draw_placements(n_samples, DIGITS[sources], rng)
    canvas = multidigits._draw_canvases(n_samples, IMAGES[sources], placed, rng)
    labels = np.zeros((n_samples, 10))
    labels[placed.sample, DIGITS[sources][placed.source]] = 1
    views = {name: f(canvas).astype(np.float32) for name, f in multidigits.VIEWS.items()}
    return ViewSet(views), labels


def main() -> None:
    warnings.simplefilter("ignore", ViewgapWarning)
    order = np.random.default_rng(0).permutation(len(DIGITS))
    seen, unseen = order[:1258], order[1258:]
    train = viewgap.amputate(*make(seen, 3500, 1), seed=1)
    validation = viewgap.amputate(*make(seen, 750, 2), label_rate=0, seed=2)
    tests = {
        "seen sources": viewgap.amputate(*make(seen, 1500, 3), label_rate=0, seed=3),
        "unseen sources": viewgap.amputate(*make(unseen, 1500, 4), label_rate=0, seed=4),
    }
    for model in (
        viewgap.LateFusionRidge(),
        viewgap.ImputedLogistic(),
        viewgap.SCSD(random_state=1, max_epochs=45),
    ):
        model.fit(*train, validation=validation)
        found = {
            name: field_metrics(Y, model.predict_proba(X))["AP"] for name, (X, Y) in tests.items()
        }
        print(type(model).__name__, {name: round(ap, 3) for name, ap in found.items()})


if __name__ == "__main__":
    main()
