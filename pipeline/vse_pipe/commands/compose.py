"""vse-pipe compose: pictures and captions that differ in how the same words are put together."""

from pathlib import Path
from typing import Annotated

import typer

from vse_pipe.commands import _project
from vse_pipe.commands._project import AsJson, Device, RankedName
from vse_pipe.commands.evaluate import CaptionIds, Captions, ImageIds, Images, Similarity, from_files


def compose(
    sets: Annotated[
        Path,
        typer.Argument(
            help="a table (Parquet, .csv or text with a header) with the columns image_0 caption_0 image_1 caption_1, or image_id "
            "caption_id negative_id, and, if there are any, category"
        ),
    ],
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
    from vse_pipe.tools.compose import show

    given = from_files(run, images, captions, (image_ids, caption_ids))
    if given is not None:
        from vse_pipe.evaluate.external.inputs import InputFiles
        from vse_pipe.project.params.load import load_measuring
        from vse_pipe.tools.compose import compose_files

        params, *_ = load_measuring(_project.overrides)
        return show(
            compose_files(InputFiles(*given, image_ids, caption_ids, similarity=similarity), params, sets, device),
            as_json,
        )
    whole = sets.resolve()
    params = _project.params()
    chosen = _project.chosen_runs(run, params, ranked=True)
    from vse_pipe.tools.compose import compose_run

    return _project.show_each({name: compose_run(params, name, whole, device) for name in chosen}, show, as_json)
