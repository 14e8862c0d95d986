"""A folder of pictures and its subfolders, without captions: for embedding and search."""

from pathlib import Path

from vse_pipe.core.errors import InputError
from vse_pipe.prepare.assembly import Assembly
from vse_pipe.prepare.formats.options import ENDINGS
from vse_pipe.prepare.formats.options import FolderOptions as Params
from vse_pipe.prepare.scan import walked
from vse_pipe.prepare.source import Source, existing

# The split that is searched by default.
_SPLIT = "test"


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the folder. ``file`` is the path of a picture below it and its id as text. All are of
    split test, in the order of their paths.

    Pictures are files with one of ``ENDINGS``. Hidden files and folders are skipped; links to
    nothing and names that cannot be ids are left out and reported. Raises InputError for a source
    that is no folder or has no picture."""
    if not existing(source).is_dir():
        raise InputError(f"source {source} is no folder; format folder reads a folder of pictures")
    files, left_out = walked(source)
    if not files:
        more = f"; left out: {left_out[0]}" if left_out else ""
        endings = ", ".join(ENDINGS)
        raise InputError(f"{source}: no picture in it or in its folders, which end in {endings}{more}")
    assembly = Assembly(source)
    assembly.left_out += left_out
    for file in files:
        assembly.image(file, _SPLIT, str(source), file)
    return assembly.source()
