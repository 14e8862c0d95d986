"""A table ``image,caption[,split]``, optionally with ``image_id`` and ``caption_id``; UTF-8, comma, semicolon, tab or
bar between cells."""

from dataclasses import dataclass
from pathlib import Path

from vse_pipe.core.errors import InputError
from vse_pipe.core.text import shown_id
from vse_pipe.prepare import source as sources
from vse_pipe.prepare import tables
from vse_pipe.prepare.assembly import Assembly
from vse_pipe.prepare.captions import CaptionCells
from vse_pipe.prepare.formats.options import CsvOptions as Params
from vse_pipe.prepare.tables import TableRow


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the table. Rows of an image need not be adjacent; images keep the order of their first rows.

    image_id and caption_id are the columns of these names, numbers or text, else running numbers. Cells stay unchanged,
    so ``NA`` and ``null`` are captions. Without a split column the split of an image is a hash of the seed and its
    name, so it does not change when images are added. Raises InputError with the row, counted as in a spreadsheet (the
    header is row 1), for a malformed cell, an unknown split, an image in two splits or with two ids, a repeated id."""
    text = sources.read_text(sources.existing(source))
    rows, unread = tables.read(source, text, params.delimiter, params.columns)
    tables.tell_unread(source, unread)
    assembly, cells = Assembly(source.parent / params.images, out), CaptionCells(params.separator)
    images: dict[str, _Image] = {}
    for row in rows:
        name, where = sources.file_name(row.cells["image"]), f"{source} row {row.number}"
        if not name.strip():
            assembly.left_out.append(f"{where}: names no picture")
            continue
        split = sources.split_of(row.cells["split"], where) if "split" in row.cells else None
        if name not in images:
            # Drawn by the name as written, so that the split of existing data sets stays when names are normalised.
            chosen = split or sources.drawn_split(row.cells["image"], params.val, params.test, seed)
            number = assembly.image(name, chosen, f"{source.name} row {row.number}", row.cells.get("image_id"))
            images[name] = _Image(number, chosen, row)
        image = images[name]
        image.require_same(name, split, row, where)
        captions = cells.captions(row.captions if len(row.captions) > 1 else row.captions[0], where)
        caption_id = row.cells.get("caption_id")
        if len(captions) > 1 and caption_id is not None:
            raise InputError(f"{where}: a caption_id for {len(captions)} captions; leave the column out")
        for text in captions:
            assembly.caption(image.number, text, image.split, "" if caption_id is None else where, caption_id)
    cells.tell(source)
    return assembly.source()


@dataclass(frozen=True, slots=True)
class _Image:
    number: int
    split: str
    first: TableRow

    def require_same(self, name: str, split: str | None, row: TableRow, where: str) -> None:
        """Raise InputError where a row gives the image another split or id than its first row."""
        ids = self.first.cells.get("image_id"), row.cells.get("image_id")
        for key, before, now in (("split", self.split, split or self.split), ("image_id", *ids)):
            if before != now:
                raise InputError(
                    f"{where}: image '{name}' has {key} {shown_id(str(now))} here, but {shown_id(str(before))} "
                    f"in row {self.first.number}"
                )
