"""vse-pipe rank and compose, and options of all commands that take vectors in files."""

from collections.abc import Container, Iterable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from vse_pipe.commands import _help, _project
from vse_pipe.commands._project import AsJson, Device, RankedName
from vse_pipe.core.errors import InputError, UsageError

Images = Annotated[Path | None, Option(help="vectors: .parquet (image_id, embedding) or .npy")]
Captions = Annotated[Path | None, Option(help="vectors: .parquet (caption_id, image_id, embedding), ..")]
ImageIds = Annotated[Path | None, Option(help="ids of images in an array: .npy, or lines (default: 0, 1, ...)")]
CaptionIds = Annotated[Path | None, Option(help="ids of captions in an array, likewise")]
CaptionImages = Annotated[Path | None, Option(help="image_id of each caption in an array")]
BankImages = Annotated[Path | None, Option(help="images that correct hubs, as of training")]
BankCaptions = Annotated[Path | None, Option(help="captions that correct hubs, as of training")]
ValImages = Annotated[Path | None, Option(help="validation images, which choose parameters")]
ValCaptions = Annotated[Path | None, Option(help="validation captions; in an array as many for each image")]
Similarity = Annotated[str, Option(help="cosine (vectors are scaled to length 1) or dot (as they are)")]
Inferences = Annotated[
    list[str] | None,
    Option(
        help="criteria such as csls,is+rgm; repeat the option (default: grid.inferences)",
        autocompletion=_help.inferences,
    ),
]
Qrels = Annotated[str | None, Option(help="correct pairs: a table, TREC qrels, eccv_caption or cxc")]
TrecRun = Annotated[Path | None, Option(help="measure a ranking in TREC form, with --qrels")]
Out = Annotated[Path | None, Option(help="also write metrics and ranks to OUT/<criterion>/")]
Sets = Annotated[
    Path,
    Argument(help="a table of image_0 caption_0 image_1 caption_1, or image_id caption_id negative_id"),
]


def rank(
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
    trec_run: TrecRun = None,
    inference: Inferences = None,
    out: Out = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Rank vectors of any program under inference criteria, and measure recall and hubness."""
    further = image_ids, caption_ids, caption_images, bank_images, bank_captions, val_images, val_captions
    if trec_run is not None:
        return _measure_trec(trec_run, qrels, (images, captions, *further, inference, out), as_json)
    files = from_files(None, images, captions, (*further, qrels))
    if files is None:
        raise UsageError("rank what? give --images and --captions, or --trec-run")
    if (bank_images is None) != (bank_captions is None):
        raise UsageError("--bank-images and --bank-captions go together: each corrects the other side")
    names = criteria_named(inference)
    from vse_pipe.evaluate.rank import DEFAULT_CRITERIA, rank_vectors, read
    from vse_pipe.evaluate.table import show_file_results
    from vse_pipe.project.params.load import load_measuring

    params, options, seed = load_measuring(_project.overrides)
    ids: dict[str, Any] = {"image_ids": image_ids, "caption_ids": caption_ids, "caption_images": caption_images}
    sources = read(params, similarity, *files, (bank_images, bank_captions), (val_images, val_captions), **ids)
    results = rank_vectors(sources, names or DEFAULT_CRITERIA, params, options, device, out, seed, qrels)
    show_file_results(results, as_json)
    return require_all(names, results)


def _measure_trec(run: Path, qrels: str | None, forbidden: Iterable, as_json: bool) -> None:
    if qrels is None or any(value is not None for value in forbidden):
        raise UsageError("--trec-run goes with --qrels FILE and --json, and nothing else")
    from vse_pipe.evaluate import trec
    from vse_pipe.project.params.load import load_measuring

    params, *_ = load_measuring(_project.overrides)
    trec.show(trec.evaluate_trec(run, Path(qrels), params), as_json)


def compose(
    sets: Sets,
    run: RankedName = None,
    device: Device = "auto",
    as_json: AsJson = False,
    images: Images = None,
    captions: Captions = None,
    image_ids: ImageIds = None,
    caption_ids: CaptionIds = None,
    similarity: Similarity = "cosine",
) -> None:
    """Measure how often a model prefers the correct pair to one of the same words or objects.

    Text, image and group score as Winoground has them, accuracy as SugarCrepe has it.
    """
    from vse_pipe.export.compose import show

    files = from_files(run, images, captions, (image_ids, caption_ids))
    if files is not None:
        from vse_pipe.evaluate.rank import read
        from vse_pipe.export.compose import compose_vectors
        from vse_pipe.project.params.load import load_measuring

        params, *_ = load_measuring(_project.overrides)
        sources = read(params, similarity, *files, image_ids=image_ids, caption_ids=caption_ids)
        return show(compose_vectors(sources, params, sets, device), as_json)
    path = sets.resolve()
    params = _project.params()
    chosen = _project.chosen_runs(run, params, ranked=True)
    from vse_pipe.export.compose import compose_run

    return _project.show_each({name: compose_run(params, name, path, device) for name in chosen}, show, as_json)


def criteria_named(options: list[str] | None) -> list[str]:
    """The names in ``--inference A,B --inference C``, each once. Raises UsageError."""
    if not options:
        return []
    from vse_pipe.ranking.criteria import parse

    names = list(dict.fromkeys(name.strip() for text in options for name in text.split(",")))
    for name in names:
        parse(name, {})
    return names


def require_all(names: Iterable[str], measured: Container[str]) -> None:
    """Raises InputError for criteria of the call that were left out with a warning."""
    if absent := [name for name in names if name not in measured]:
        raise InputError(f"{', '.join(absent)}: left out, for the reason above")


def from_files(
    run: str | None, images: Path | None, captions: Path | None, file_options: Iterable
) -> tuple[Path, Path] | None:
    """(images, captions) of a call with files, or None."""
    if images is None and captions is None:
        if any(value is not None for value in file_options):
            raise UsageError("options for vectors of your own need --images and --captions")
        return None
    if run is not None:
        raise UsageError("--run and --images exclude each other: a run has vectors of its own")
    if images is None or captions is None:
        raise UsageError("--images and --captions go together")
    return images, captions
