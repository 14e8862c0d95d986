"""vse-pipe extract, inject, embed and evaluate."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import Option

from vse_pipe.commands import _help, _project
from vse_pipe.commands._project import AsJson, Device, EmbeddedName, RankedName
from vse_pipe.commands.vectors import Inferences, criteria_named
from vse_pipe.core.errors import PipelineError, UsageError
from vse_pipe.project import paths
from vse_pipe.project.registry import BACKBONES

Features = Annotated[str | None, _help.option("a name under features: (default: all)", "features")]
Texts = Annotated[str | None, _help.option("a name under texts: (default: all)", "texts")]
Backbone = Annotated[
    str | None, Option(help="resnet152, torchvision:NAME, timm:NAME, ...", autocompletion=_help.members(BACKBONES))
]
Dataset = Annotated[str | None, _help.option("with --backbone: a data set (default: the only one)", "datasets")]
Weights = Annotated[str, Option(help="with --backbone: imagenet, random or a .pth/.safetensors file")]
Shard = Annotated[str | None, Option(metavar="I/N", help="compute share I of N of the shards and assemble nothing")]


def extract(
    features: Features = None,
    texts: Texts = None,
    backbone: Backbone = None,
    dataset: Dataset = None,
    weights: Weights = "imagenet",
    device: Device = "auto",
    shard: Shard = None,
    as_json: AsJson = False,
) -> None:
    """Compute the image features of a data set, or what text encoders read of its captions."""
    if backbone is not None and features is not None:
        raise UsageError("--features and --backbone exclude each other: the first names an entry of params.yaml")
    if backbone is None and (dataset is not None or weights != "imagenet"):
        raise UsageError("--dataset and --weights go with --backbone; params.yaml says them of --features")
    if shard is not None and (texts is not None or (features is None and backbone is None)):
        raise UsageError("--shard divides the images of one feature set: name it with --features or --backbone")
    params = _project.params()
    if backbone is not None:
        from vse_pipe.project.params import typed

        params, features = typed.with_backbone(params, backbone, dataset, weights)
    names, text_names = [], []
    if features is not None or texts is None:
        names = _project.chosen(features, params.features, "features")
    if texts is not None or features is None:
        text_names = _project.chosen(texts, params.texts, "texts")
    if texts is not None and device != "auto" and hasattr(params.texts[texts].method.params, "device") and not names:
        raise UsageError(f"--device is of pictures; set texts.{texts}.device for its encoder")
    from vse_pipe.extract import stage

    for name in names:
        stage.extract(params, name, device, shard)
    if text_names:
        from vse_pipe.extract import text_stage

        for name in text_names:
            text_stage.extract_texts(params, name)
    folders = [paths.extracted(params.features[name].dataset, name) for name in names]
    folders += [paths.extracted(params.texts[name].dataset, name) for name in text_names]
    return _project.wrote(folders, as_json)


Noise = Annotated[str | None, _help.option("a name under noises: (default: all noises)", "noises")]
TeacherName = Annotated[str | None, _help.option("a name under teachers:, instead of --noise", "teachers")]


def inject(noise: Noise = None, teacher: TeacherName = None, as_json: AsJson = False) -> None:
    """Write the pairs to train on: clean, with mismatches, or with runs as teachers."""
    if noise is not None and teacher is not None:
        raise UsageError("--noise and --teacher name different nodes; give one of them")
    params = _project.params()
    from vse_pipe.inject import stage

    if teacher is not None:
        names = _project.chosen(teacher, params.teachers, "teacher")
        return _project.wrote([stage.teach(params, name) for name in names], as_json)
    names = list(params.draws.get(noise, ())) or _project.chosen(noise, params.noises, "noise")
    folders = [stage.inject(params, name) for name in names]
    datasets = {paths.run_entry(draw): node.dataset for draw, node in params.noises.items()}

    def place(draw: str) -> Path:
        return paths.injected(datasets[paths.run_entry(draw)], draw)

    _project.settle(params.draws, names, place)
    return _project.wrote(folders, as_json)


Dim = Annotated[int | None, Option(min=1, help="only the first dimensions, scaled to length 1 (default: embed.dim)")]


def embed(
    run: EmbeddedName = None,
    dim: Dim = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Write the vectors of images and captions by a trained run or a transfer."""
    params = _project.params()
    if dim is not None:
        params = replace(params, embed=params.embed.model_copy(update={"dim": dim}))
    names = _project.chosen_runs(run, params, embedded=True)
    from vse_pipe.embed import stage

    outs = [stage.embed(params, name, device) for name in names]
    _project.settle(params.groups, names, paths.embedded)
    return _project.wrote(outs, as_json)


Dims = Annotated[str | None, Option(help="a table of vectors cut short to these dimensions, such as 64,128,256")]
Precision = Annotated[str | None, Option(help="a table of items as int8 or binary, or both with a comma")]
Rescore = Annotated[int | None, Option(min=1, help="with --precision: best items that float32 vectors order")]


def evaluate(
    run: RankedName = None,
    inference: Inferences = None,
    dims: Dims = None,
    precision: Precision = None,
    rescore: Rescore = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Rank the queries of a run under inference criteria, and measure recall and hubness."""
    params = _project.params()
    chosen = _project.chosen_runs(run, params, ranked=True)
    if (dims, precision, rescore) != (None, None, None):
        from vse_pipe.evaluate.compact import Forms, run_figures, show

        forms, names = Forms.parse(dims, precision, rescore), criteria_named(inference) or ["nns"]
        rows = [row for name in chosen for row in run_figures(params, name, names, forms, device)]
        return show(rows, as_json)
    from vse_pipe.evaluate import stage, table

    criteria = criteria_named(inference)
    results: dict[tuple[str, ...], dict] = {}
    try:
        for name in chosen:
            measured = stage.evaluate(params, name, criteria or params.ranked_under(name), device)
            results |= {(name, criterion): metrics for criterion, metrics in measured.items()}
    except PipelineError:
        if results:
            table.show_results(results, as_json)
        raise
    _project.settle(params.groups, chosen, paths.evaluations)
    if results or as_json:
        table.show_results(results, as_json)
    return stage.require_measured(chosen, criteria)
