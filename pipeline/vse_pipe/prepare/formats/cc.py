"""CC152K's layout: ``<split>_caps.tsv`` with ``<image id><tab><caption>`` lines, and
``<split>_ims.npy``.

The part of Conceptual Captions that NCR (NeurIPS 2021) published and BiCro, DECL, RCL and L2RM use:
150,000 / 1,000 / 1,000 pairs from the web, with a caption for each image. Some captions describe
their image badly or not at all, and these are not marked, so the pairs are read with the noise
protocol ``as_is``."""

from collections.abc import Iterator
from pathlib import Path

from vse_pipe.core.errors import InputError
from vse_pipe.prepare import arrays
from vse_pipe.prepare import source as sources
from vse_pipe.prepare.captions import caption
from vse_pipe.prepare.formats.options import CcOptions as Params


def read(source: Path, out: Path, params: Params, seed: int) -> sources.Source:
    """source: the folder. ``file`` is ``<split>_ims.npy#<row>`` and sha256 that of the stored bytes
    of the row.

    Line k of a split belongs to row k. image_id and caption_id are running numbers over train, dev
    and test; the ids in the file are names of web pictures and are dropped. Raises InputError for a
    missing, truncated or pickled file, another number of lines than rows, a line without two
    fields, a caption that is not UTF-8."""
    sources.existing(source)
    splits = arrays.Splits()
    for prefix in params.prefixes:
        listed, features = source / f"{prefix}_caps.tsv", source / f"{prefix}_ims.npy"
        captions = list(_captions(listed))
        digests, broken = arrays.row_digests(features)
        if len(captions) != len(digests):
            raise InputError(f"{listed}: {len(captions)} lines, but {features.name} has {len(digests)} rows")
        splits.add(prefix, digests, captions, broken, 1)
    return splits.source(source)


def _captions(listed: Path) -> Iterator[str]:
    """Not read as CSV: a caption may begin with a quotation mark."""
    for number, line in enumerate(sources.read_lines(listed), start=1):
        where, fields = f"{listed} line {number}", line.split("\t")
        if len(fields) != 2:
            raise InputError(f"{where}: expected <image id><tab><caption>, found {len(fields)} fields")
        yield caption(fields[1], where)
