"""vse-pipe extract, inject, embed and evaluate."""

import json
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from vse_pipe.commands import _help, _project
from vse_pipe.commands._project import Address, AsJson, Device, EmbeddedName, Engine, OnDataset, RankedName, Workers
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.project import paths

Features = Annotated[str | None, _help.option("a name under features: (default: all features and texts)", "features")]
Texts = Annotated[str | None, _help.option("a name under texts: (default: all features and texts)", "texts")]
Backbone = Annotated[
    str | None,
    Option(
        help="a backbone that params.yaml need not name: resnet152, vgg19, torchvision:NAME, timm:NAME, ...",
        autocompletion=_help.backbones,
    ),
]
Dataset = Annotated[
    str | None, _help.option("with --backbone: a name under datasets: (default: the only one)", "datasets")
]
Weights = Annotated[str, Option(help="with --backbone: imagenet, random or a .pth/.safetensors file")]
Shard = Annotated[str | None, Option(metavar="I/N", help="compute share I of N of the shards and assemble nothing")]
FindBatchSize = Annotated[
    bool, Option("--find-batch-size", help="measure which batch_size is fastest on this machine; write nothing")
]


def extract(
    features: Features = None,
    texts: Texts = None,
    backbone: Backbone = None,
    dataset: Dataset = None,
    weights: Weights = "imagenet",
    device: Device = "auto",
    shard: Shard = None,
    engine: Engine = None,
    workers: Workers = None,
    address: Address = None,
    find_batch_size: FindBatchSize = False,
    as_json: AsJson = False,
) -> None:
    """Compute the image features of a data set with a backbone, or what the text encoders read of its captions."""
    from vse_pipe.extract.work import work

    if backbone is not None and features is not None:
        raise UsageError("--features and --backbone exclude each other: the first names an entry of params.yaml")
    if shard is not None and (texts is not None or (features is None and backbone is None)):
        raise UsageError("--shard divides the images of one feature set: name it with --features or --backbone")
    params = _project.params()
    if backbone is not None:
        from vse_pipe.extract import job

        params, features = job.with_backbone(params, backbone, dataset, weights)
    spread = work(shard, params.engine.changed(engine, workers, address))
    feature_names = (
        _project.chosen(features, params.features, "features") if features is not None or texts is None else []
    )
    text_names = _project.chosen(texts, params.texts, "texts") if texts is not None or features is None else []
    if find_batch_size:
        return _show_batch_sizes(params, feature_names, device, as_json)
    feature_folders = [paths.extracted(params.features[name].dataset, name) for name in feature_names]
    text_folders = [paths.extracted(params.texts[name].dataset, name) for name in text_names]
    with _project.reserved(feature_folders, spread.lock), _project.reserved(text_folders):
        from vse_pipe.extract import stage
    # Finished features are reported first, because the others take long.
    for name in [name for name in feature_names if not stage.finish(params, name, device, spread)]:
        stage.extract(params, name, device, spread)
    if text_names:
        from vse_pipe.extract import text_stage

        for name in text_names:
            text_stage.extract_texts(params, name)
    return _project.wrote([*feature_folders, *text_folders], as_json)


def _show_batch_sizes(params, names: list[str], device: str, as_json: bool) -> None:
    from vse_pipe.core.console import say
    from vse_pipe.extract import compute

    if len(names) != 1:
        raise UsageError("--find-batch-size measures one backbone: name it with --features or --backbone")
    speeds = []
    for speed in compute.find(params, names[0], device):
        speeds.append(speed)
        say(f"{speed.batch_size:5} images at once  {speed.rate:8.1f} images/s")
    best = compute.best(speeds).batch_size
    if as_json:
        document = {"batch_size": best, "images_per_second": {speed.batch_size: speed.rate for speed in speeds}}
        typer.echo(json.dumps(document, indent=2))
    else:
        typer.echo(f"features.{names[0]}.batch_size: {best}")


Noise = Annotated[str | None, _help.option("a name under noises: (default: all noises)", "noises")]
TeacherName = Annotated[str | None, _help.option("a name under teachers:, instead of --noise", "teachers")]


def inject(noise: Noise = None, teacher: TeacherName = None, as_json: AsJson = False) -> None:
    """Write the pairs to train on: clean, with injected mismatches, or with trained runs as teachers."""
    if noise is not None and teacher is not None:
        raise UsageError("--noise and --teacher name different nodes; give one of them")
    params = _project.params()
    nodes = params.noises if teacher is None else params.teachers
    name = noise or teacher
    names = list(params.draws.get(name, ())) or _project.chosen(name, nodes, "noise" if teacher is None else "teacher")
    with _project.reserved(paths.injected(nodes[name].dataset, name) for name in names):
        # Only the stage that the nodes need is imported: a teacher imports torch.
        if teacher is None:
            from vse_pipe.inject import stage

            write: Callable[..., Path] = stage.inject
        else:
            from vse_pipe.inject.teacher import teach

            write = teach
    folders = [write(params, name) for name in names]
    if teacher is None:
        datasets = {paths.run_entry(draw): node.dataset for draw, node in params.noises.items()}

        def place(draw: str) -> Path:
            return paths.injected(datasets[paths.run_entry(draw)], draw)

        _project.settle(params.draws, names, place, stage.FILES)
    return _project.wrote(folders, as_json)


Dim = Annotated[int | None, Option(min=1, help="only the first dimensions, scaled to length 1 (default: embed.dim)")]


def embed(
    run: EmbeddedName = None,
    dataset: OnDataset = None,
    dim: Dim = None,
    device: Device = "auto",
    engine: Engine = None,
    workers: Workers = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Write the vectors of images and captions by a trained run, of its data set or of another."""
    params = _project.params()
    if dim is not None:
        params = replace(params, embed=params.embed.model_copy(update={"dim": dim}))
    executor = params.engine.changed(engine, workers, address)
    params, names = _project.on_dataset(params, _project.chosen_runs(run, params, embedded=dataset is None), dataset)
    with _project.reserved(map(paths.embedded, names)):
        from vse_pipe.embed import stage
    with _project.spread(executor, device):
        outs = [stage.embed(params, name, device) for name in names]
    _project.settle(params.groups, names, paths.embedded, stage.FILES)
    return _project.wrote(outs, as_json)


if TYPE_CHECKING:
    from vse_pipe.evaluate.files import InputFiles
    from vse_pipe.project.params.schema import EvaluateParams


def vectors_option(help: str) -> Any:
    return Option(help=help, rich_help_panel="Vectors of your own")


Images = Annotated[
    Path | None, vectors_option("vectors of images: Parquet (image_id, embedding) or .npy; needs no project")
]
Captions = Annotated[
    Path | None, vectors_option("vectors of captions: Parquet (caption_id, image_id, embedding) or .npy")
]
ImageIds = Annotated[
    Path | None, vectors_option("ids of images in an .npy: .npy, or text with an id a line (default: 0, 1, 2, ...)")
]
CaptionIds = Annotated[Path | None, vectors_option("ids of captions in an .npy, likewise")]
CaptionImages = Annotated[Path | None, vectors_option("image_id that each caption in an .npy describes, likewise")]
BankImages = Annotated[
    Path | None, vectors_option("separate image queries that correct hubs, such as training images (default: --images)")
]
BankCaptions = Annotated[
    Path | None,
    vectors_option("separate caption queries that correct hubs, such as training captions (default: --captions)"),
]
ValImages = Annotated[
    Path | None, vectors_option("validation images, on which parameters such as lambda of rgm are chosen")
]
ValCaptions = Annotated[Path | None, vectors_option("validation captions, on which parameters are chosen")]
Similarity = Annotated[str, vectors_option("cosine (each vector is scaled to length 1) or dot (vectors as they are)")]
Inferences = Annotated[
    list[str] | None,
    Option(
        help="a criterion such as csls, or a pair such as is+rgm; several with commas, or repeat the option (default: "
        "grid.inferences in params.yaml; for vectors of your own nns, is and csls)",
        autocompletion=_help.inferences,
    ),
]
Qrels = Annotated[
    str | None,
    vectors_option(
        "correct pairs: a file (text or Parquet with caption_id, image_id and, if graded, relevance; or TREC qrels), or eccv_caption or cxc"
    ),
]
Nan = Annotated[str, vectors_option("rows that hold NaN or infinite values: refuse the file, or drop these rows")]
MoreImages = Annotated[
    list[Path] | None, vectors_option("image vectors of a further model, with the same ids; repeat for each model")
]
MoreCaptions = Annotated[
    list[Path] | None, vectors_option("caption vectors of a further model, with the same ids; repeat for each model")
]
FusionOption = Annotated[
    str | None, vectors_option("how the scores of several models are joined: mean or rrf (default: mean)")
]
EnsembleWeights = Annotated[
    str | None,
    vectors_option("a number for each model, in their order: 2,1 counts the first model twice (default: equal)"),
]
TrecRun = Annotated[
    Path | None,
    vectors_option(
        "measure a ranking in TREC form, lines of `query Q0 item rank score tag`; takes --qrels and no vectors"
    ),
]
Dims = Annotated[str | None, Option(help="a table of vectors cut short to these dimensions, such as 64,128,256")]
Precision = Annotated[str | None, Option(help="a table of items as int8 or binary, or both with a comma")]
Rescore = Annotated[int | None, Option(min=1, help="with --precision: best items that float32 vectors order")]
By = Annotated[str | None, Option(help="also by group: length, a column of captions.parquet, or one of --groups")]
GroupsFile = Annotated[Path | None, Option("--groups", help="a table with caption_id and the column of --by")]
Out = Annotated[Path | None, vectors_option("also write metrics and ranks to OUT/<criterion>/")]


def evaluate(
    run: RankedName = None,
    dataset: OnDataset = None,
    inference: Inferences = None,
    device: Device = "auto",
    engine: Engine = None,
    workers: Workers = None,
    address: Address = None,
    as_json: AsJson = False,
    images: Images = None,
    captions: Captions = None,
    image_ids: ImageIds = None,
    caption_ids: CaptionIds = None,
    caption_images: CaptionImages = None,
    bank_images: BankImages = None,
    bank_captions: BankCaptions = None,
    val_images: ValImages = None,
    val_captions: ValCaptions = None,
    similarity: Similarity = "cosine",
    qrels: Qrels = None,
    nan: Nan = "refuse",
    more_images: MoreImages = None,
    more_captions: MoreCaptions = None,
    fusion: FusionOption = None,
    weights: EnsembleWeights = None,
    trec_run: TrecRun = None,
    out: Out = None,
    dims: Dims = None,
    precision: Precision = None,
    rescore: Rescore = None,
    by: By = None,
    groups: GroupsFile = None,
) -> None:
    """Rank the queries of a run, or vectors in files, under inference criteria, and measure recall and hubness."""
    file_options = (image_ids, caption_ids, caption_images, bank_images, bank_captions, val_images, val_captions)
    several, engines = (more_images, more_captions, fusion, weights), (engine, workers, address)
    target = run if dataset is None else (run or dataset)
    compact, grouped = (dims, precision, rescore), (by, None if groups is None else str(groups.resolve()))
    if trec_run is not None:
        forbidden = (target, inference, images, captions, *file_options, *several, *engines, *compact, by, groups)
        return _evaluate_trec(trec_run, qrels, forbidden, out, as_json)
    vectors = from_files(target, images, captions, (*file_options, qrels, *several, out))
    if vectors is not None:
        if compact != (None, None, None):
            raise UsageError("--dims, --precision and --rescore are of a run; give --run")
        from vse_pipe.evaluate.files import InputFiles, MoreFiles

        more = MoreFiles(more_images or (), more_captions or (), fusion or "mean", _numbers(weights))
        files = InputFiles(*vectors, *file_options, similarity, qrels, nan, more)
        return _evaluate_files(files, inference, device, engines, out, as_json, grouped)
    return _evaluate_runs(run, dataset, inference, device, engines, as_json, compact, grouped)


Compact = tuple[str | None, str | None, int | None]


def _evaluate_runs(run, dataset, inference, device: str, engines, as_json: bool, compact: Compact, grouped) -> None:
    params = _project.params()
    params = replace(params, evaluate=_changed(params.evaluate, grouped))
    executor = params.engine.changed(*engines)
    params, chosen = _project.on_dataset(params, _project.chosen_runs(run, params, ranked=dataset is None), dataset)
    if compact != (None, None, None):
        from vse_pipe.evaluate.compact import Forms, run_figures, show

        forms, names = Forms.parse(*compact), criteria_named(inference) or ["nns"]
        rows = [row for name in chosen for row in run_figures(params, name, names, forms, device)]
        show(rows, as_json)
        return require_all(names, {row["inference"] for row in rows})
    with _project.reserved(map(paths.evaluations, chosen)):
        from vse_pipe.evaluate import stage
        from vse_pipe.project.params.checks import ranked_under

        criteria = criteria_named(inference)
    results: dict[tuple[str, ...], dict] = {}
    with _project.spread(executor, device):
        for name in chosen:
            measured = stage.evaluate(params, name, criteria or ranked_under(params, name), device)
            results |= {(name, criterion): metrics for criterion, metrics in measured.items()}
    _project.settle(params.groups, chosen, paths.evaluations, stage.FILES)
    if results or as_json:
        stage.show_results(results, as_json)
    return stage.require_measured(chosen, criteria)


def _changed(params: "EvaluateParams", grouped: tuple[str | None, str | None]) -> "EvaluateParams":
    values = dict(zip(("by", "groups"), grouped, strict=True))
    return params.model_copy(update={key: value for key, value in values.items() if value is not None})


def _evaluate_trec(run: Path, qrels: str | None, forbidden: Iterable, out: Path | None, as_json: bool) -> None:
    if qrels is None or any(value is not None for value in forbidden):
        raise UsageError("--trec-run goes with --qrels FILE, --out and --json, and nothing else")
    from vse_pipe.evaluate import trec
    from vse_pipe.project.params.load import load_measuring

    params, *_ = load_measuring(_project.overrides)
    trec.show(trec.evaluate_trec(run, Path(qrels), params, out and out.resolve()), as_json)


def _evaluate_files(
    files: "InputFiles",
    inference: list[str] | None,
    device: str,
    engines: tuple[str | None, int | None, str | None],
    out: Path | None,
    as_json: bool,
    grouped: tuple[str | None, str | None],
) -> None:
    from vse_pipe.evaluate import stage
    from vse_pipe.evaluate.files import DEFAULT_CRITERIA, evaluate_files
    from vse_pipe.project.params.load import load_measuring

    names = criteria_named(inference)
    params, options, seed, executor = load_measuring(_project.overrides)
    params = _changed(params, grouped)
    with _project.spread(executor.changed(*engines), device):
        results = evaluate_files(files, names or DEFAULT_CRITERIA, params, options, device, out, seed)
    stage.show_file_results(results, as_json)
    require_all(names, results)


def require_all(names: Iterable[str], measured: Container[str]) -> None:
    """Raises InputError for criteria of the call that were left out with a warning."""
    if absent := [name for name in names if name not in measured]:
        raise InputError(f"{', '.join(absent)}: left out, for the reason above")


def _numbers(text: str | None) -> list[float]:
    try:
        return [float(part) for part in text.split(",")] if text else []
    except ValueError as error:
        raise UsageError(f"--weights {text}: expected numbers with commas between, such as 2,1") from error


def criteria_named(options: list[str] | None) -> list[str]:
    """The names in ``--inference A,B --inference C``, each once. Raises UsageError for an unknown name."""
    if not options:
        return []
    from vse_pipe.ranking.criteria import parse

    names = list(dict.fromkeys(name.strip() for text in options for name in text.split(",")))
    for name in names:
        parse(name, {})
    return names


def from_files(
    run: str | None, images: Path | None, captions: Path | None, file_options: Iterable, option: str = "run"
) -> tuple[Path, Path] | None:
    """(images, captions) of a call with files, or None. Raises UsageError for a run and files, and for one file without
    the other. option: that named ``run``."""
    if images is None and captions is None:
        if any(value is not None for value in file_options):
            raise UsageError("options for vectors of your own need --images and --captions")
        return None
    if run is not None:
        raise UsageError(f"--{option} and --images exclude each other: a {option} has vectors of its own")
    if images is None or captions is None:
        raise UsageError("--images and --captions go together")
    return images, captions
