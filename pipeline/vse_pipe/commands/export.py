"""vse-pipe export: hub-corrected vectors for other systems."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vse_pipe.commands import _completion, _project
from vse_pipe.commands._project import AsJson, Device
from vse_pipe.commands.evaluate import (
    BankCaptions,
    BankImages,
    CaptionIds,
    CaptionImages,
    Captions,
    ImageIds,
    Images,
    Similarity,
    ValCaptions,
    ValImages,
    from_files,
)
from vse_pipe.core.errors import UsageError

if TYPE_CHECKING:
    from vse_pipe.project.params.typed import Params

Inference = Annotated[
    str,
    typer.Option(
        help="the criterion to rank by: nns, is, csls, nnn, dual_is or sinkhorn", autocompletion=_completion.exportable
    ),
]
Target = Annotated[
    str,
    typer.Option(
        help="the form: parquet, npy, faiss, trec or clip-retrieval",
        autocompletion=_completion.targets,
    ),
]
Out = Annotated[Path, typer.Option(help="the folder to write")]
Run = Annotated[
    str | None,
    typer.Option(help="a name under runs: or transfers: in params.yaml", autocompletion=_completion.section("runs")),
]
Direction = Annotated[str, typer.Option(help="text_to_image (captions search images) or image_to_text")]

Depth = Annotated[int, typer.Option(min=1, help="with --to trec: items listed for each query")]


def export(
    inference: Inference,
    to: Target,
    out: Out,
    run: Run = None,
    direction: Direction = "text_to_image",
    device: Device = "auto",
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
    depth: Depth = 100,
) -> None:
    """Write vectors for other search systems, whose inner products rank as an inference criterion does."""
    beside = (image_ids, caption_ids, caption_images, bank_images, bank_captions, val_images, val_captions)
    given = from_files(run, images, captions, beside)
    if given is not None:
        from vse_pipe.evaluate.external.inputs import InputFiles
        from vse_pipe.project.params.load import load_measuring
        from vse_pipe.tools.export.stage import export_files

        measuring, options, *_ = load_measuring(_project.overrides)
        files = InputFiles(*given, *beside, similarity)
        manifest = export_files(files, inference, measuring, options, to, direction, out.resolve(), device, depth)
    else:
        whole = out.resolve()
        run, params = _of_project(run)
        from vse_pipe.tools.export.stage import export_run

        manifest = export_run(params, run, inference, to, direction, whole, device, depth)
    from vse_pipe.core.console import document, say

    say(f"{out}: {manifest['items']} items and {manifest['queries']} queries of {manifest['dimensions']} values")
    if "recall@10" in manifest:
        say(
            f"{out}: the index finds {manifest['recall@10']:.2%} of the best 10 of {manifest['recall_queries']} queries"
        )
    return document(manifest) if as_json else None


def _of_project(run: str | None) -> "tuple[str, Params]":
    if run is None:
        raise UsageError("export what? give --run, or --images and --captions")
    params = _project.params()
    return _project.one_run(run, params, embedded=True), params
