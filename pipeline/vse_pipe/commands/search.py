"""vse-pipe search."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vse_pipe.commands import _help, _project
from vse_pipe.commands._project import AsJson, Device, SearchedName, SearchedSplit
from vse_pipe.core.console import say
from vse_pipe.core.errors import MissingResource, UsageError
from vse_pipe.project import paths
from vse_pipe.project.paths import run_entry

if TYPE_CHECKING:
    from vse_pipe.search.query import Limits, Term


# What stands before the id of a picture of the data set.
_IMAGE = "image:"


Query = Annotated[
    str, Argument(help="a sentence, a picture's file, image:ID of the data set, or several: 'dog:2 + pool.jpg - fruit'")
]


def search(
    text: Query,
    run: SearchedName = None,
    inference: Annotated[str, Option(help="nns, or against hubs is, csls, nnn, dual_is or sinkhorn")] = "nns",
    k: Annotated[int, Option("--k", min=1, max=10_000, help="number of results")] = 10,
    split: SearchedSplit = "test",
    to: Annotated[str | None, Option(help="images or captions (default: captions for a picture, else images)")] = None,
    where: Annotated[list[str], Option(help="only images with this in images.parquet, split=test; repeat it")] = [],  # noqa: B006 (typer does not change it)
    html: Annotated[Path | None, Option(help="also write the results as a web page to this file")] = None,
    as_json: AsJson = False,
    device: Device = "auto",
) -> None:
    """Find images that fit a sentence, or captions that fit an image."""
    parts = _parts(text)
    out = html and html.resolve()
    if out is not None:
        from vse_pipe.search.show import check_free

        check_free(out)
    params = _project.params()
    from vse_pipe.search.engine import Engine
    from vse_pipe.search.query import Limits

    limits = Limits(k, to, tuple(where))
    run, reason = (run, "as asked") if run else _project.default_run(params, inference)
    _answer(Engine.open(params, run, inference, split, device), parts, limits, reason, as_json, out)


def _answer(engine, parts: "tuple[Term, ...]", limits: "Limits", reason: str, as_json: bool, out: Path | None) -> None:
    from vse_pipe.search import query, show

    answer = engine.ask(parts, limits)
    pictures = [part.value for part in parts if part.kind == query.IMAGE]
    engine.require_pictures([*pictures, *(hit.image_id for hit in answer.hits)])
    content = show.answer_document(engine, answer, query.direction(parts, limits.to, engine.counts["captions"]), reason)
    show.show(content, as_json)
    if out is not None:
        photo = engine.content(pictures[0]) if pictures else parts[0].content
        show.write_page(out, content, engine.content, photo if len(parts) == 1 else None)
        say(f"{out} shows it")


def _parts(text: str) -> "tuple[Term, ...]":
    """Parts of the query with the content of their files, relative to the working directory."""
    from vse_pipe.search.query import IMAGE, PHOTO, Term, parse, picture_name

    if text.startswith(_IMAGE) and len(parse(text)) == 1:
        return (Term(IMAGE, text.removeprefix(_IMAGE)),)
    if (name := picture_name(text)) is not None:
        quoted = f"""vse-pipe search '"{name}"'"""
        if not Path(name).is_file():
            raise MissingResource(f"{name}: no such file; to search for these words, write {quoted}")
        say(f"{name}: searched with the picture in this file; to search for these words, write {quoted}")
        return (Term(PHOTO, Path(name).name, content=_content(Path(name))),)
    return tuple(
        replace(part, content=_content(Path(part.value))) if part.kind == PHOTO else part for part in parse(text)
    )


def _content(image: Path) -> bytes:
    from vse_pipe.pictures import read

    return read.photo(image)


Model = Annotated[str | None, Option(help="pretrained pair in place of a run: an architecture of open_clip, or a file")]
Weights = Annotated[str | None, Option(help="weights of --model: a file, or the name of published weights")]
Sha256 = Annotated[str | None, Option(help="sha256 that the weights must have")]
IndexedFolder = Annotated[
    Path | None, Argument(help="the folder of pictures (default: all indexed folders)", show_default=False)
]
IndexRun = Annotated[str | None, _help.option("run whose model to use (default: the last one, or the best)", "runs")]
Collection = Annotated[str | None, Option(help="name of the collection in params.yaml (default: the folder's)")]
IndexTarget = Annotated[str | None, _help.choice("also write an index", "faiss", "npy", "parquet")]
IndexOut = Annotated[Path | None, Option(help="with --to: the folder of that index")]


def index(
    folder: IndexedFolder = None,
    run: IndexRun = None,
    model: Model = None,
    weights: Weights = None,
    sha256: Sha256 = None,
    name: Collection = None,
    to: IndexTarget = None,
    out: IndexOut = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make a folder of pictures searchable, or bring it up to date.

    The pictures need no captions. params.yaml gets a data set, its features and a transfer of the
    run, or a run of the pretrained pair. Later calls process new or changed pictures only.
    """
    if (to is None) != (out is None):
        raise UsageError("--to and --out go together")
    pair = _pair(folder, run, model, weights, sha256)
    folder, out = folder and folder.absolute(), out and out.absolute()
    params = _project.params()
    if folder is None:
        names = _indexed(params)
    else:
        params, names = _entered(params, folder, run, pair, name, device)
    if to is not None and len(names) > 1:
        raise UsageError(f"--to: which one? give --run: {', '.join(names)}")

    from vse_pipe.search import index

    outs = index.index(params, names, device)
    if to is not None and out is not None:
        from vse_pipe.export.export import export_run

        export_run(params, names[0], "nns", to, "text_to_image", out, device)
        outs.append(out)
    _project.wrote(outs, as_json)


def _entered(params, folder: Path, run: str | None, pair: dict[str, str], name: str | None, device: str):
    """Params with the entries of this folder, now in params.yaml, and its collections."""
    from vse_pipe.papers import overlay
    from vse_pipe.project.params import overlay as params_overlay
    from vse_pipe.search import index

    source = index.source_of(folder)
    dataset = index.dataset_of(params, source, name)
    names = index.collections(params, dataset)
    if pair:
        names = [key for key in names if index.is_pair(params, key, pair)]
    if run is not None:  # the run of the collection's pair, or its transfer by name
        names = [key for key in names if run in (key, run_entry(key))]
    if names:
        return params, names
    chosen = dataset if pair else _run(params, run)
    if pair and dataset in params.datasets:
        raise UsageError(f"index: '{dataset}' is of another model already; give --name for one more")
    if pair:
        entries = index.pair_entries(source, dataset, pair, device)
    else:
        entries = index.missing_entries(params, source, dataset, chosen)
    if entries:
        params_overlay.add(paths.PARAMS, entries, [overlay.row_problems])
        addresses = ", ".join(f"{section}.{key}" for section, nodes in entries.items() for key in nodes)
        say(f"index: params.yaml has {addresses} now")
        params = _project.params()
    models = params.models(chosen)
    return params, [key for key in index.collections(params, dataset) if params.trained(key) in models]


def _pair(
    folder: Path | None, run: str | None, model: str | None, weights: str | None, sha256: str | None
) -> dict[str, str]:
    """Options of a pretrained pair with absolute paths of its files; empty without any."""
    if model is None and weights is None and sha256 is None:
        return {}
    if model is None or weights is None or run is not None or folder is None:
        raise UsageError("--model and --weights go together, with a folder and without --run")
    options = {"model": model, "weights": weights}
    files = {key: path.resolve() for key, value in options.items() if (path := Path(value).expanduser()).is_file()}
    if sha256 is None and "weights" in files:
        from vse_pipe.core import files as hashing

        sha256 = hashing.sha256(files["weights"])
    options |= {key: str(path) for key, path in files.items()}
    return options if sha256 is None else {**options, "sha256": sha256}


def _indexed(params) -> list[str]:
    from vse_pipe.search import index

    folders = [key for key, dataset in params.datasets.items() if dataset.format.name == index.FORMAT]
    names = [name for key in folders for name in index.collections(params, key)]
    if not names:
        raise UsageError("index what? params.yaml has no folder of pictures yet; name one: vse-pipe index FOLDER")
    return names


def _run(params, run: str | None) -> str:
    """The run to index with, as params.yaml names it: ``run``, or the best run in the report."""
    if run is not None:
        return _project.chosen(run, params.named(params.runs), "run")[0]
    if not params.runs:
        raise UsageError("index by which model? params.yaml has no run; name --model and --weights of a pair")
    model, reason = _project.best_run(params, "nns", list(params.runs))
    say(f"index: run {run_entry(model)}, {reason}")
    return run_entry(model)
