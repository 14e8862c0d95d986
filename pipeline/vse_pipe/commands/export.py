"""vse-pipe export: hub-corrected vectors for other systems."""

import contextlib
import importlib.util
from pathlib import Path
from typing import Annotated

from typer import Option

from vse_pipe.commands import _help, _project, evaluate
from vse_pipe.commands._project import AsJson, Device, SearchedName
from vse_pipe.core.errors import InputError, MissingResource, UsageError

Inference = Annotated[
    str,
    Option(help="the criterion to rank by: nns, is, csls, nnn, dual_is or sinkhorn", autocompletion=_help.exportable),
]
Target = Annotated[
    str, Option(help="the form: parquet, npy, faiss, trec or clip-retrieval", autocompletion=_help.targets)
]
Out = Annotated[Path, Option(help="the folder to write")]
ExportedRun = Annotated[str | None, _help.option("a name under runs: or transfers: in params.yaml", "runs")]
Direction = Annotated[str, Option(help="text_to_image (captions search images) or image_to_text")]
Depth = Annotated[int, Option(min=1, help="with --to trec: items listed for each query")]


def export(
    inference: Inference,
    to: Target,
    out: Out,
    run: ExportedRun = None,
    direction: Direction = "text_to_image",
    device: Device = "auto",
    as_json: AsJson = False,
    images: evaluate.Images = None,
    captions: evaluate.Captions = None,
    image_ids: evaluate.ImageIds = None,
    caption_ids: evaluate.CaptionIds = None,
    caption_images: evaluate.CaptionImages = None,
    bank_images: evaluate.BankImages = None,
    bank_captions: evaluate.BankCaptions = None,
    val_images: evaluate.ValImages = None,
    val_captions: evaluate.ValCaptions = None,
    similarity: evaluate.Similarity = "cosine",
    depth: Depth = 100,
) -> None:
    """Write vectors for other search systems, whose inner products rank as an inference criterion does."""
    file_options = (image_ids, caption_ids, caption_images, bank_images, bank_captions, val_images, val_captions)
    vectors = evaluate.from_files(run, images, captions, file_options)
    if vectors is not None:
        from vse_pipe.evaluate.files import InputFiles
        from vse_pipe.project.params.load import load_measuring
        from vse_pipe.tools.export import export_files

        measuring, options, *_ = load_measuring(_project.overrides)
        files = InputFiles(*vectors, *file_options, similarity)
        manifest = export_files(files, inference, measuring, options, to, direction, out.resolve(), device, depth)
    else:
        folder = out.resolve()
        if run is None:
            raise UsageError("export what? give --run, or --images and --captions")
        params = _project.params()
        run = _project.one_run(run, params, embedded=True)
        from vse_pipe.tools.export import export_run

        manifest = export_run(params, run, inference, to, direction, folder, device, depth)
    from vse_pipe.core.console import document, say

    say(f"{out}: {manifest['items']} items and {manifest['queries']} queries of {manifest['dimensions']} values")
    return document(manifest) if as_json else None


PackedRun = Annotated[str, _help.option("a name under runs: in params.yaml", "runs")]
Licence = Annotated[
    str | None,
    Option(
        help="licence of the weights, as hubs name it, such as apache-2.0 (default: the card says that it is unknown)"
    ),
]


def pack(run: PackedRun, out: Out, licence: Licence = None, as_json: AsJson = False) -> None:
    """Write a trained run as a folder for a model hub: weights, vocabulary, configuration, and a card with figures."""
    folder = out.resolve()
    params = _project.params()
    name = _project.one_run(run, params)
    from vse_pipe.core.console import document, say
    from vse_pipe.tools.pack import pack as write

    digests = write(params, name, folder, licence)
    say(f"{out}: run {name}, sha256 of config.json {digests['config.json']}")
    return document({"out": str(out), "sha256": digests}) if as_json else None


_PACKAGES = ("starlette", "uvicorn", "python_multipart")


def serve(
    run: SearchedName = None,
    inference: Annotated[
        list[str], Option(help="criteria to choose from on the page; several with commas, or repeat the option")
    ] = ["nns"],  # noqa: B006 (typer does not change it)
    split: Annotated[str, Option(help="the split to search: test, val, train or all")] = "test",
    host: Annotated[
        str, Option(help="the address to listen on; with any but the default other machines can search")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="the port to listen on; 0 takes any free port")] = 8000,
    device: Device = "auto",
) -> None:
    """Serve a local web page that searches by a sentence or a picture, until Ctrl-C."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingResource(
            f"vse-pipe serve needs {', '.join(missing)}, which is not installed: pip install 'vse-pipe[serve]'"
        )
    params = _project.params()
    criteria = evaluate.criteria_named(inference)
    if run is not None:
        _project.one_run(run, params, ranked=True)
    from vse_pipe.core.console import say
    from vse_pipe.tools.serve.server import listen

    with listen(host, port) as listening:
        reason = "as asked"
        if run is None:
            run, reason = _project.default_run(params, criteria[0])
            say(f"run {run}: {reason}")
        from vse_pipe.tools.search.engine import Engine

        first = Engine.open(params, run, criteria[0], split, device)
        engines = {criteria[0]: first, **{name: first.under(name) for name in criteria[1:]}}
        for engine in engines.values():
            _warm(engine)
        _answer(engines, host, listening, reason)


def _warm(engine) -> None:
    """Load model, vectors and correction, so that errors appear now and the first visitor does not wait."""
    from vse_pipe.tools.search.query import TO_IMAGES

    engine.correction(TO_IMAGES)
    # A vocabulary without the word raises an error after the model is loaded.
    with contextlib.suppress(InputError):
        engine.by_text("a", 1)


def _answer(engines: dict, host: str, listening, reason: str) -> None:
    from vse_pipe.core.console import say, warn
    from vse_pipe.report.formatting import plural
    from vse_pipe.tools.serve import server
    from vse_pipe.tools.serve.app import create

    bound = listening.getsockname()[0]
    hosts = server.accepted_hosts(host, bound)
    if not server.is_private(bound):
        warn(
            f"anyone who reaches {bound} port {listening.getsockname()[1]} can search and see the pictures; "
            f"the page answers under the names {', '.join(hosts)}"
        )
    first = next(iter(engines.values()))
    counts = ", ".join(plural(first.counts[kind], kind.removesuffix("s")) for kind in ("images", "captions"))
    say(f"run {first.run} under {', '.join(engines)}, split {first.split}: {counts}")
    say(f"searching at {server.address(listening)} until Ctrl-C")
    server.serve(create(engines, hosts, reason), listening)
