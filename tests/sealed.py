"""The identity of a prepared data set that a test wrote by itself, as ``prepare`` writes it."""

from pathlib import Path

from vse_pipe.artifacts import captions, digests, identity, images


def sealed(folder: Path) -> Path:
    """``folder``, with made_from.json for the images and captions in it."""
    has_captions = (folder / captions.NAME).is_file()
    caption_rows = captions.read(folder) if has_captions else captions.SCHEMA.empty_table()
    identity.write(folder, {}, digests.prepared_parts(folder, images.read(folder), caption_rows))
    return folder


def made_anew(folder: Path, **parts: str) -> None:
    """As when the output is made anew with other digests of these parts."""
    identity.write(folder, identity.inputs_of(folder), identity.parts_of(folder)[str(folder)] | parts)
