"""vse-pipe choose, compare, claims, audit and localize."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from vse_pipe.commands import _help, _project
from vse_pipe.commands._project import AsJson, Device
from vse_pipe.core.console import document, line, say, stdout, warn
from vse_pipe.core.errors import UsageError
from vse_pipe.project import paths


def choose(
    grid: Annotated[Path, Option(help="a YAML file with the values to try, by run and option")],
    run: Annotated[str | None, _help.option("one run of the grid (default: all)", "runs")] = None,
    seeds: Annotated[int, Option(min=0, help="seeds of the chosen setting; 0 leaves them as they are")] = 5,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train every setting of a grid and write the best of each run, by val, into params.yaml.

    All runs of a grid have the same number of settings. Finished settings stay in data/choose/: a
    killed call goes on where it was, and after the grid has grown only new settings are trained.
    The split test is never read.
    """
    from vse_pipe.papers import overlay
    from vse_pipe.tools import choose

    path, further = grid.resolve(), [overlay.row_problems]
    settings = choose.read(path, _project.params())
    names = _project.chosen(run, settings, "run of the grid")
    choose.check(names, seeds, _project.overrides, further)
    chosen = [setting for name in names for setting in settings[name]]
    params = {setting.out: choose.params_of(setting, _project.overrides, further) for setting in chosen}
    say(f"choose: {len(params)} settings of {len(names)} runs")
    trials = {name: choose.train_all(settings[name], params, device) for name in names}
    best = {name: choose.best(rows) for name, rows in trials.items()}
    choose.write([trial.setting for trial in best.values()], seeds, further)
    for name, trial in best.items():
        if trial.unconverged:
            warn(f"choose: the best setting of {name} has not converged: {trial.unconverged}")
    if as_json:
        tried = {name: [trial.as_json() for trial in rows] for name, rows in trials.items()}
        return document({name: {"tried": rows, "best": best[name].as_json()} for name, rows in tried.items()})
    for name in names:
        for trial in sorted(trials[name], key=lambda trial: -trial.val_rsum):
            line(f"{'*' if trial is best[name] else ' '} {name} {trial.setting}: {trial.figures}")
    say("params.yaml now has the settings marked *; `dvc repro` trains them")
    return None


_RANKED = _help.section("runs", "ensembles")
RunA = Annotated[str, Argument(metavar="RUN_A", help="a run, or a folder of evaluate", autocompletion=_RANKED)]
RunsB = Annotated[
    list[str] | None,
    Argument(metavar="RUN_B", help="the others (with --base: RUN_A)", show_default=False, autocompletion=_RANKED),
]
Inference = Annotated[
    str | None, Option(help="one criterion (default: every one that both have)", autocompletion=_help.inferences)
]
Base = Annotated[str | None, Option(metavar="REV", help="take RUN_A from this git revision, through DVC")]
AsMarkdown = Annotated[bool, Option("--md", help="print Markdown instead of a table")]
MaxDrop = Annotated[float | None, Option(help="exit with status 1 where RUN_B is lower by more points, with p < 0.05")]
Resamples = Annotated[int, Option(min=1, help="number of bootstrap draws")]
Seed = Annotated[int, Option(help="seed of the bootstrap draws")]


def compare(
    run_a: RunA,
    runs_b: RunsB = None,
    inference: Inference = None,
    base: Base = None,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
    max_drop: MaxDrop = None,
    resamples: Resamples = 1000,
    seed: Seed = 1,
) -> None:
    """Compare evaluations query by query: differences with 95% intervals and p-values.

    A run with seeds counts as the mean of its models; its interval includes the chance of training.
    Each RUN_B is compared with RUN_A; p-values are corrected for their number (Holm).
    """
    if as_markdown and as_json:
        raise UsageError("--md and --json exclude each other")
    start = Path.cwd()
    from vse_pipe.tools import compare, revisions

    least = compare.FEWEST_RESAMPLES
    if max_drop is not None and not (0 <= max_drop < float("inf") and resamples >= least):
        raise UsageError(f"--max-drop {max_drop}: expected 0 or more points, and --resamples {least} or more")
    is_outside = base is None and all(map(revisions.is_evaluation, [run_a, *(runs_b or [])]))
    params = None if is_outside or paths.root_around(Path.cwd()) is None else _project.params()
    comparisons = compare.compare(
        run_a, runs_b or [], start, params, inference=inference, base=base, resamples=resamples, seed=seed
    )
    if as_markdown or as_json:
        stdout.file.write((compare.document if as_json else compare.markdown)(comparisons, resamples, seed))
    else:
        compare.terminal(comparisons, resamples, seed)
    if max_drop is not None:
        compare.check(comparisons, max_drop)


def claims(
    file: Annotated[str, Argument(help="a YAML file of claims, or `papers`: the claims of five papers")],
    skip_unknown: Annotated[bool, Option("--skip-unknown", help="no verdict where a run is lacking")] = False,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
    resamples: Resamples = 1000,
    seed: Seed = 1,
) -> None:
    """Judge claims of papers by paired intervals: each holds, does not, or cannot be told.

    The file names for each claim two runs, a figure and a direction. There is no verdict on a run
    that has not converged or that has fewer trainings than the file requires.
    """
    if as_markdown and as_json:
        raise UsageError("--md and --json exclude each other")
    start = Path.cwd()
    params = _project.params()
    from vse_pipe.report import claims

    content = claims.read(file, start)
    verdicts = claims.judged(params, content, resamples, seed, skip_unknown)
    show = claims.as_document if as_json else claims.markdown if as_markdown else claims.terminal
    show(content, verdicts, resamples, seed)


AuditedDataset = Annotated[str | None, _help.option("a data set, audited without a trained run", "datasets")]
SuspectPairs = Annotated[
    int | None, Option(min=0, max=50_000, help="pairs in the gallery (12), or doubtful pairs in findings.csv (100)")
]
AuditedPairs = Annotated[str | None, _help.option("pairs of a noise (default: as prepared)", "noises")]
AuditedFeatures = Annotated[str | None, _help.option("features (default: the first of the data set)", "features")]


def audit(
    run: Annotated[str | None, _help.option("a name under runs: in params.yaml; it must be trained", "runs")] = None,
    dataset: AuditedDataset = None,
    limit: SuspectPairs = None,
    noise: AuditedPairs = None,
    features: AuditedFeatures = None,
    split: Annotated[str, Option(help="train, val or test")] = "train",
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Find pairs whose caption does not fit its picture, by a run or a data set.

    Without a run, defects of pictures and captions, duplicates and leaks between splits are sought
    too, and findings.csv waits for decisions: `vse-pipe review --dataset D`.
    """
    from vse_pipe.audit import data, figures

    if (run is None) == (dataset is None and noise is None):
        raise UsageError("audit what? give --run, or --dataset or --noise")
    params = _project.params()
    if run is None:
        if noise is not None:
            _project.chosen(noise, {**params.noises, **params.teachers}, "noise")
        (name,) = _project.chosen(dataset or params.pairs(noise).dataset, params.datasets, "data set")
        if split not in ("train", "val", "test"):
            raise UsageError(f"--split {split}: expected train, val or test")
        return figures.show(data.audit_data(params, name, noise, features, None, split, limit), as_json)
    names = _project.chosen_runs(run, params)
    from vse_pipe.audit import stage

    gallery = 12 if limit is None else min(limit, 1000)
    results = {name: stage.audit(params, name, gallery, device) for name in names}
    _project.settle(params.groups, names, paths.audited)
    return _project.show_each(results, figures.show, as_json)


def localize(
    run: Annotated[
        str, _help.option("a name under runs: in params.yaml, of a data set of regions; it must be embedded", "runs")
    ],
    image: Annotated[Path | None, Option(help="a photo to find phrases in, instead of the test split")] = None,
    phrase: Annotated[list[str] | None, Option(help="what to find in the photo; repeat for several phrases")] = None,
    out: Annotated[
        Path | None, Option(help="the picture file that shows the photo with its boxes (default: localized.png)")
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Find the boxes of test phrases and measure them, or find phrases in a photo."""
    if (image is None) != (not phrase):
        raise UsageError("give a photo with --image and what to find in it with --phrase, or neither")
    if image is None and out is not None:
        raise UsageError("--out names the drawing of a photo; give one with --image")
    if image is not None:
        drawing = (out or Path("localized.png")).resolve()
        return _in_photo(run, image, tuple(phrase or ()), drawing, device, as_json)
    params = _project.params()
    names = _project.chosen_runs(run, params)
    from vse_pipe.core.devices import resolve_device
    from vse_pipe.localize import stage

    stage.check_localizable(params, names[0])
    resolve_device(device)
    figures = {name: stage.localize(params, name, device) for name in names}
    _project.settle(params.groups, names, paths.localized)
    return _project.show_each(figures, stage.show_localisation, as_json)


def _in_photo(run: str, image: Path, phrases: tuple[str, ...], drawing: Path, device: str, as_json: bool) -> None:
    from vse_pipe.core.devices import resolve_device
    from vse_pipe.pictures import read
    from vse_pipe.tools import localize

    question = localize.Question(image.resolve(), image.name, phrases, drawing)
    question.check()
    params = _project.params()
    _project.one_run(run, params)
    localize.check(params, run)
    resolve_device(device)
    localize.localize(params, run, read.photo(question.photo), question, device, as_json)
