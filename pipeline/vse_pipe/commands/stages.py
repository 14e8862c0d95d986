"""vse-pipe extract."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands import _help, _project
from vse_pipe.commands._project import (
    Address,
    AsJson,
    Device,
    EmbeddedName,
    Engine,
    OnDataset,
    Workers,
    chosen,
    reserved,
    wrote,
)
from vse_pipe.commands._project import params as all_params
from vse_pipe.core.errors import UsageError
from vse_pipe.project import paths

Features = Annotated[
    str | None,
    typer.Option(
        help="a name under features: (default: all features and texts)", autocompletion=_help.section("features")
    ),
]
Texts = Annotated[
    str | None,
    typer.Option(help="a name under texts: (default: all features and texts)", autocompletion=_help.section("texts")),
]
Backbone = Annotated[
    str | None,
    typer.Option(
        help="a backbone that params.yaml need not name: resnet152, vgg19, torchvision:NAME, timm:NAME, ...",
        autocompletion=_help.backbones,
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        help="with --backbone: a name under datasets: (default: the only one)",
        autocompletion=_help.section("datasets"),
    ),
]
Weights = Annotated[str, typer.Option(help="with --backbone: imagenet, random or a .pth/.safetensors file")]
Shard = Annotated[
    str | None, typer.Option(metavar="I/N", help="compute share I of N of the shards and assemble nothing")
]
FindBatchSize = Annotated[
    bool, typer.Option("--find-batch-size", help="measure which batch_size is fastest on this machine; write nothing")
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

    _exclude_each_other(features, texts, backbone, shard)
    params, features = _selected(all_params(), features, backbone, dataset, weights)
    spread = work(shard, params.engine.changed(engine, workers, address))
    named = chosen(features, params.features, "features") if features is not None or texts is None else []
    read = chosen(texts, params.texts, "texts") if texts is not None or features is None else []
    if find_batch_size:
        return _show_batch_sizes(params, named, device, as_json)
    seen = [paths.extracted(params.features[name].dataset, name) for name in named]
    written = [paths.extracted(params.texts[name].dataset, name) for name in read]
    with reserved(seen, spread.lock), reserved(written):
        from vse_pipe.extract import stage

    # Told first of all that is finished: the rest takes long.
    for name in [name for name in named if not stage.finish(params, name, device, spread)]:
        stage.extract(params, name, device, spread)
    if read:
        from vse_pipe.extract import text_stage

        for name in read:
            text_stage.extract_texts(params, name)
    return wrote([*seen, *written], as_json)


def _show_batch_sizes(params, names: list[str], device: str, as_json: bool) -> None:
    from vse_pipe.core.console import say
    from vse_pipe.extract import compute

    if len(names) != 1:
        raise UsageError("--find-batch-size measures one backbone: name it with --features or --backbone")
    found = []
    for one in compute.find(params, names[0], device):
        found.append(one)
        say(f"{one.batch_size:5} images at once  {one.rate:8.1f} images/s")
    best = compute.best(found).batch_size
    if as_json:
        document = {"batch_size": best, "images_per_second": {one.batch_size: one.rate for one in found}}
        typer.echo(json.dumps(document, indent=2))
    else:
        typer.echo(f"features.{names[0]}.batch_size: {best}")


def _exclude_each_other(features, texts, backbone, shard) -> None:
    if backbone is not None and features is not None:
        raise UsageError("--features and --backbone exclude each other: the first names an entry of params.yaml")
    if shard is not None and (texts is not None or (features is None and backbone is None)):
        raise UsageError("--shard divides the images of one feature set: name it with --features or --backbone")


def _selected(params, features: str | None, backbone: str | None, dataset: str | None, weights: str):
    """params, with an entry for --backbone, and the name of the features that were asked for."""
    if backbone is None:
        return params, features
    from vse_pipe.extract import job

    return job.with_backbone(params, backbone, dataset, weights)


Noise = Annotated[
    str | None,
    typer.Option(help="a name under noises: (default: all noises)", autocompletion=_help.section("noises")),
]
TeacherName = Annotated[
    str | None,
    typer.Option(
        "--teacher",
        help="a name under teachers:, instead of --noise",
        autocompletion=_help.section("teachers"),
    ),
]


def inject(noise: Noise = None, teacher: TeacherName = None, as_json: AsJson = False) -> None:
    """Write the pairs to train on: clean, with injected mismatches, or with trained runs as teachers."""
    if noise is not None and teacher is not None:
        raise UsageError("--noise and --teacher name different nodes; give one of them")
    params = all_params()
    nodes = params.noises if teacher is None else params.teachers
    names = chosen(noise or teacher, nodes, "noise" if teacher is None else "teacher")
    with reserved(paths.injected(nodes[name].dataset, name) for name in names):
        write = _stage(teacher is not None)
    return wrote([write(params, name) for name in names], as_json)


def _stage(teaches: bool) -> Callable[..., Path]:
    """Only what the nodes need is imported: a teacher's takes torch."""
    if teaches:
        from vse_pipe.inject.teacher import teach

        return teach
    from vse_pipe.inject.stage import inject as write

    return write


def embed(
    run: EmbeddedName = None,
    dataset: OnDataset = None,
    device: Device = "auto",
    engine: Engine = None,
    workers: Workers = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Write the vectors of images and captions by a trained run, of its data set or of another."""
    params = _project.params()
    asked = params.engine.changed(engine, workers, address)
    named = _project.chosen_runs(run, params, embedded=dataset is None)
    params, names = _project.on_dataset(params, named, dataset)
    with _project.reserved(map(paths.embedded, names)):
        from vse_pipe.embed import stage, transfer

    with _project.spread(asked, device):
        outs = [(transfer if name in params.transfers else stage).embed(params, name, device) for name in names]
    _project.settle(params, names, paths.embedded, stage.FILES)
    return _project.wrote(outs, as_json)
