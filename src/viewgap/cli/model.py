"""`viewgap fit` and `evaluate`: a model from data, and how good it is."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viewgap.cli.options import (
    Data,
    LabelFile,
    Missing,
    MissingAsFitted,
    Model,
    NanPolicy,
    Reading,
    reads_data,
)
from viewgap.cli.output import AsJson, print_json, print_rows, say

if TYPE_CHECKING:
    from viewgap.data.labels import Labels
    from viewgap.data.viewset import ViewSet
    from viewgap.methods.base import MultiViewClassifier


class Variant(StrEnum):
    """Which definitions of the metrics to use."""

    CLEAN = "clean"
    FIELD = "field"


@reads_data
def fit(
    context: typer.Context,
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder of the new model.")],
    method: Annotated[str, typer.Option(help="A method (see viewgap methods).")] = "ensemble",
    labels: LabelFile = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of the method, key=value.")
    ] = None,
    profile: Annotated[str, typer.Option(help="Profile of the method.")] = "default",
    time_budget: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long the fit may take (90s, 25m, 2h, or seconds), for the method ensemble.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    device: Annotated[
        str | None, typer.Option(help="Where networks are trained: auto, cpu, cuda or cuda:1.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Train a network on N GPUs of this host.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The same on the CPU, by N processes; 1: alone."),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, metavar="M", help="Hosts, each with that many GPUs or processes."),
    ] = None,
    node_rank: Annotated[
        int | None, typer.Option(min=0, metavar="K", help="Number of this host, from 0 on.")
    ] = None,
    rendezvous: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the hosts meet: at number 0.")
    ] = None,
    missing: Missing = NanPolicy.MEAN,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing model.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder in which the fit is kept while it runs (networks, ensemble)."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from --checkpoint.")] = False,
    per_label: Annotated[
        bool, typer.Option("--per-label", help="Out-of-fold scores of every label, too.")
    ] = False,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Fit a method on DATA and save the model.

    Missing views and missing labels are taken as they come. Without --method, several methods are
    fitted and stacked, and a table shows what each of them brings. At the end, scores of the
    training samples, each by a model that left it out, tell what to expect of new samples.

    Ctrl-C (or SIGTERM) ends training after the running epoch, and the best weights until then are
    saved; a second one ends it at once. With --checkpoint the fit can go on later.

    With --gpus or --processes several processes train one network on parts of its batches, or fit
    members of the ensemble each, to the same model. torchrun and srun can start them, too: then
    without these options.
    """
    import os
    import sys
    from dataclasses import asdict
    from functools import partial

    from viewgap.bench.run.execute import make_method
    from viewgap.cli.inputs import (
        count_samples,
        open_data,
        parse_settings,
        seconds_of,
        training_labels,
        with_device,
        with_time_budget,
    )
    from viewgap.cli.interruptible import Interruptible
    from viewgap.cli.job import joined
    from viewgap.cli.launcher import ProcessOptions, check_method, launch
    from viewgap.cli.output import note_missing_values
    from viewgap.methods.fitting.checkpoint import check_request
    from viewgap.model_file import save_model
    from viewgap.model_folder import check_destination

    automatic = {
        "random_state": seed,
        "nan": str(missing),
        "verbose": True,
    }
    params = with_time_budget(parse_settings(settings or []), seconds_of(time_budget), method)
    options = ProcessOptions(gpus, processes, nodes, node_rank, rendezvous)
    job = options.job(os.environ)
    params = options.with_device(with_device(params, device, method), method)
    model = make_method(method, profile, params, automatic)
    model._check_machine()
    words = context.obj or tuple(sys.argv[1:])
    work = Interruptible(words, out, checkpoint, overwrite)
    if job is not None or options.several:
        check_method(model, method)
    if job is None and options.several:
        raise typer.Exit(launch(options, words, work.command_that_goes_on()))
    with joined(job, str(params.get("device", "auto")), words) as group:
        check_out = partial(check_destination, out, overwrite)  # before the work, not after it
        check_out() if group is None else group.on_main(check_out)
        check_request(model, checkpoint, resume)
        given = open_data(data, labels, model.nan, reading)
        truth = training_labels(given)
        note_missing_values(given.views, model.nan)
        _say_choices(model, method, given.views, truth)
        with work:
            model.fit(given.views, truth, checkpoint_dir=checkpoint, resume=resume)
            if group is None or group.is_main:
                model._resume_words = work.resume_words(overwrite=True)
                save_model(model, out, overwrite=overwrite)
    if group is not None and not group.is_main:
        return
    if model.interrupted_:
        raise typer.Exit(work.saved_early())
    samples = count_samples(given.views, truth)
    summary = {
        "model": str(out),
        "method": method,
        **asdict(samples),
        "views": list(model.view_names_),
        "labels": len(model.label_names_),
    }
    leaderboard, labels_table = (
        _leaderboard(model),
        _per_label(model, given.views, truth) if per_label else [],
    )
    if json:
        more = {"leaderboard": leaderboard, "per_label": labels_table}
        scores = {"out_of_fold": _out_of_fold(model)}
        print_json(summary | scores | {name: lines for name, lines in more.items() if lines})
        return
    for lines in (leaderboard, labels_table):
        print_rows(lines)
    _say_scores(model)
    say(f"{out}: {method} fitted on {samples.text()}")


def _say_choices(model: MultiViewClassifier, method: str, views: ViewSet, labels: Labels) -> None:
    from viewgap.cli.choices import describe_choices
    from viewgap.methods.catalogue import read_metadata

    why = "the default" if method == "ensemble" else "as asked for"
    say(f"method: {method} ({why}): {read_metadata(method).summary}")
    for line in describe_choices(model, views, labels):
        say(line)


def _out_of_fold(model: MultiViewClassifier) -> dict[str, Any] | None:
    from dataclasses import asdict

    training = model.training_summary_
    scores = None if training is None else training.scores
    return None if scores is None else asdict(scores)


def _say_scores(model: MultiViewClassifier) -> None:
    """Say how good the model is, as far as its own fit can tell."""
    from viewgap.cli.prediction import score_text

    scores, history = _out_of_fold(model), getattr(model, "history_", {})
    if scores is not None:
        say(score_text(scores))
    elif history.get("validation_score"):
        best = model.best_epoch_
        score = history["validation_score"][best - 1]
        say(f"validation score {score:.3f} (epoch {best} was chosen by it: too good for new data)")
    else:
        say("no out-of-fold scores: this method has none; viewgap compare cross-validates it")


def _per_label(model: MultiViewClassifier, views: ViewSet, labels: Labels) -> list[dict[str, Any]]:
    """Out-of-fold scores of every label; none for methods without such answers."""
    from viewgap.metrics import per_label_report
    from viewgap.strict_json import plain

    probabilities = getattr(model, "out_of_fold_proba_", None)
    if probabilities is None:
        return []
    truth = labels[views.has_view].as_float()  # the others were not learned from
    lines = per_label_report(truth, probabilities, labels.names, model.thresholds_)
    return [plain(line) for line in lines]


def _leaderboard(model: MultiViewClassifier) -> list[dict[str, Any]]:
    """The lines of an ensemble's leaderboard; none for other methods."""
    from viewgap.strict_json import plain

    frame = getattr(model, "leaderboard_", None)
    if frame is None:
        return []
    return [plain(line) for line in frame.astype(object).to_dict("records")]


@reads_data
def evaluate(
    model: Model,
    data: Data,
    labels: LabelFile = None,
    variant: Annotated[
        Variant,
        typer.Option(
            help="clean leaves samples without a positive label out of the ranking metrics; field "
            "is the definition of the published tables, in which they count as failures."
        ),
    ] = Variant.CLEAN,
    missing: MissingAsFitted = None,
    *,
    reading: Reading,
    json: AsJson = False,
) -> None:
    """Measure a model on labelled DATA.

    Prints the six metrics of the field and how many samples have no positive label; labels that
    are not observed in DATA are left out.
    """
    from viewgap.cli.inputs import evaluated, load_fitted, open_data
    from viewgap.strict_json import plain

    fitted = load_fitted(model, missing, on_empty="prior")
    given = open_data(data, labels, fitted.nan, reading)
    result = evaluated(fitted, given, str(variant))
    if json:
        names = {"model": str(model), "data": data, "variant": result.variant}
        counts = {
            "samples": result.n_samples,
            "without_positives": result.n_without_positives,
            "without_labels": result.n_without_labels,
        }
        print_json({**names, **counts, "metrics": plain(dict(result))})
    else:
        print_rows([result])
        print(
            f"{result.variant} metrics of {result.n_samples:,} samples; without a positive label: "
            f"{result.n_without_positives:,}, without an observed label: "
            f"{result.n_without_labels:,}"
        )
