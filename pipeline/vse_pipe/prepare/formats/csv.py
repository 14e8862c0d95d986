"""A table ``image,caption[,split]``, optionally with ``image_id`` and ``caption_id``; UTF-8, comma,
semicolon, tab or bar between cells."""

from pathlib import Path

from vse_pipe.core.errors import InputError
from vse_pipe.core.text import shown_id
from vse_pipe.prepare import source as sources
from vse_pipe.prepare import tables
from vse_pipe.prepare.assembly import Assembly
from vse_pipe.prepare.captions import cell_captions
from vse_pipe.prepare.formats.options import CsvOptions as Params


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the table. Rows of an image need not be adjacent; images keep the order of their
    first rows.

    image_id and caption_id are the columns of these names, numbers or text, else running numbers.
    Cells stay unchanged, so ``NA`` and ``null`` are captions. Without a split column the split of
    an image is a hash of the seed and its name, so it does not change when images are added. Raises
    InputError with the row, counted as in a spreadsheet (the header is row 1), for a malformed
    cell, an unknown split, an image in two splits or with two ids, a repeated id."""
    rows = tables.read(source, sources.read_text(sources.existing(source)), params.columns)
    assembly = Assembly(source.parent / params.images)
    # Number, row, and split and id of the first row of each image.
    images: dict[str, tuple[int, int, dict[str, str | None]]] = {}
    for row in rows:
        name, where = sources.file_name(row.cells["image"]), f"{source} row {row.number}"
        if not name.strip():
            assembly.left_out.append(f"{where}: names no picture")
            continue
        split = sources.split_of(row.cells["split"], where) if "split" in row.cells else None
        about = {"split": split, "image_id": row.cells.get("image_id")}
        if name not in images:
            # Drawn by the name as written, so that the split of existing data sets stays when names
            # are normalised.
            chosen = split or params.drawn(row.cells["image"], seed)
            number = assembly.image(name, chosen, f"{source.name} row {row.number}", about["image_id"])
            images[name] = number, row.number, about
        number, first, before = images[name]
        for key, value in about.items():
            if value != before[key]:
                values = f"{shown_id(str(value))} here, but {shown_id(str(before[key]))} in row {first}"
                raise InputError(f"{where}: image '{name}' has {key} {values}")
        captions, caption_id = cell_captions(row.captions, where, params.separator), row.cells.get("caption_id")
        if len(captions) > 1 and caption_id is not None:
            raise InputError(f"{where}: a caption_id for {len(captions)} captions; leave the column out")
        for text in captions:
            assembly.caption(number, text, "" if caption_id is None else where, caption_id)
    return assembly.source()
