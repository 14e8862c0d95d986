"""vse-pipe encode, export, pairs and pack."""

from pathlib import Path
from typing import Annotated

from typer import Option

from vse_pipe.commands import _help, _project, vectors
from vse_pipe.commands._project import AsJson, Device
from vse_pipe.core.console import document, say
from vse_pipe.core.errors import UsageError

Run = Annotated[str, _help.option("a name under runs: in params.yaml", "runs")]
EncodedCaptions = Annotated[Path | None, Option(help="a caption a line, or a .csv or .tsv with a header")]
EncodedImages = Annotated[Path | None, Option(help="a folder of pictures; folders in it count too")]
File = Annotated[Path, Option(help="the .parquet file to write")]


def encode(
    run: Run,
    out: File,
    captions: EncodedCaptions = None,
    images: EncodedImages = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Write the vectors of your own captions or photographs by a trained run, to one file."""
    if (captions is None) == (images is None):
        raise UsageError("encode what? give --captions FILE or --images FOLDER, one of them")
    source, out = (captions or images).resolve(), out.resolve()  # type: ignore[union-attr]
    params = _project.params()
    name = _project.one_run(run, params)
    from vse_pipe.export import encode

    if captions is not None:
        counts = encode.encode_captions(params, name, source, out, device)
    else:
        counts = encode.encode_images(params, name, source, out, device)
    if as_json:
        document(counts)


_FOLDABLE = "nns", "is", "csls", "nnn", "dual_is", "sinkhorn"
ExportInference = Annotated[str, _help.choice("the criterion to rank by", *_FOLDABLE)]
Target = Annotated[str, _help.choice("the form", *_help.TARGETS)]
Out = Annotated[Path, Option(help="the folder to write")]
ExportedRun = Annotated[str | None, _help.option("a name under runs: or transfers: in params.yaml", "runs")]
Direction = Annotated[str, Option(help="text_to_image (captions search images) or image_to_text")]


def export(
    inference: ExportInference,
    to: Target,
    out: Out,
    run: ExportedRun = None,
    direction: Direction = "text_to_image",
    as_json: AsJson = False,
    images: vectors.Images = None,
    captions: vectors.Captions = None,
    bank_images: vectors.BankImages = None,
    bank_captions: vectors.BankCaptions = None,
    similarity: vectors.Similarity = "cosine",
) -> None:
    """Write vectors for other search systems, whose inner products rank as a criterion does."""
    files = vectors.from_files(run, images, captions, (bank_images, bank_captions))
    if files is not None:
        from vse_pipe.evaluate.rank import read
        from vse_pipe.export.export import export_vectors
        from vse_pipe.project.params.load import load_measuring

        measuring, options, _ = load_measuring(_project.overrides)
        sources = read(measuring, similarity, *files, (bank_images, bank_captions))
        manifest = export_vectors(sources, inference, measuring, options, to, direction, out.resolve())
    else:
        folder = out.resolve()
        if run is None:
            raise UsageError("export what? give --run, or --images and --captions")
        params = _project.params()
        run = _project.one_run(run, params, embedded=True)
        from vse_pipe.export.export import export_run

        manifest = export_run(params, run, inference, to, direction, folder)
    say(f"{out}: {manifest['items']} items and {manifest['queries']} queries of {manifest['dimensions']} values")
    return document(manifest) if as_json else None


def pairs(
    dataset: Annotated[str, _help.option("a name under datasets:; it must be prepared", "datasets")],
    to: Annotated[str, _help.choice("the form", "csv", "karpathy")],
    out: Annotated[Path, Option(help="the file to write")],
    noise: Annotated[str | None, _help.option("whose pairs to write (default: as prepared)", "noises")] = None,
    split: Annotated[str | None, Option(help="train, val or test (default: all)")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the pairs of a data set, with all decisions applied, for other programs."""
    file = out.resolve()
    params = _project.params()
    (name,) = _project.chosen(dataset, params.datasets, "data set")
    from vse_pipe.export.pairs import export

    count = export(params, name, noise, to, file, split)
    return document({"out": str(out), "entries": count}) if as_json else None


Licence = Annotated[str | None, Option(help="licence of the weights, as hubs name it, such as apache-2.0")]
AsCheckpoint = Annotated[bool, Option("--open-clip", help="also write open_clip/, a checkpoint of open_clip")]


def pack(run: Run, out: Out, licence: Licence = None, open_clip: AsCheckpoint = False, as_json: AsJson = False) -> None:
    """Write a trained run as a folder for a model hub, with a card of its figures."""
    folder = out.resolve()
    params = _project.params()
    name = _project.one_run(run, params)
    from vse_pipe.export.pack import pack as write

    digests = write(params, name, folder, licence, open_clip)
    say(f"{out}: run {name}, sha256 of config.json {digests['config.json']}")
    return document({"out": str(out), "sha256": digests}) if as_json else None
