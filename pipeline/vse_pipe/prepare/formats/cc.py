"""CC152K's layout: ``<split>_caps.tsv`` with ``<image id><tab><caption>`` lines, and ``<split>_ims.npy``.

Conceptual Captions as NCR (NeurIPS 2021) cut and published it, and BiCro, DECL, RCL and L2RM use it: 150,000 / 1,000 /
1,000 pairs from the web, one caption an image, some of which describe their image badly or not at all. Nobody has
marked which, so its pairs are read with the noise protocol ``as_is``.
"""

from pathlib import Path

import numpy as np

from vse_pipe.core.errors import InputError
from vse_pipe.prepare.formats.options import ORDER
from vse_pipe.prepare.formats.options import CcOptions as Params
from vse_pipe.prepare.source import (
    Source,
    Splits,
    caption_text,
    existing,
    open_array,
    read_lines,
    row_digests,
    split_of,
    texts,
)


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """source: the folder. ``file`` is ``<split>_ims.npy#<row>`` and sha256 that of the row's bytes as stored.

    Line k of a split goes with row k; image_id and caption_id are running numbers over the splits in the order
    train, dev, test. The ids in the file are not kept: they are names of web pages' pictures, not numbers. Raises
    InputError: a missing, truncated or pickled file, not as many lines as rows, a line that is not two fields, an
    empty caption or one that is not UTF-8.
    """
    existing(source)
    splits, count = Splits(out), 0
    for prefix in (name for name in ORDER if name in params.splits):
        captions, (digests, broken) = _read_split(source, prefix, out)
        ids = np.arange(count, count + len(captions))
        splits.add(prefix, split_of(prefix, prefix), ids, digests, captions, list(broken.values()))
        count += len(captions)
    return splits.source(source)


def _read_split(source: Path, prefix: str, out: Path):
    """Captions, and the digests of their images' rows as ``row_digests`` gives them."""
    listed, features = source / f"{prefix}_caps.tsv", source / f"{prefix}_ims.npy"
    lines = (_caption(line, f"{listed} line {number}") for number, line in enumerate(read_lines(listed), 1))
    captions = texts(out, lines)
    array = open_array(features)
    if len(captions) != len(array):
        raise InputError(
            f"{listed}: {len(captions)} lines, but {features.name} has {len(array)} rows; there must be one line per image"
        )
    return captions, row_digests(array, features)


def _caption(line: str, where: str) -> str:
    # Not read as CSV: a caption that begins with a quotation mark would swallow the lines below it.
    fields = line.split("\t")
    if len(fields) != 2:
        raise InputError(f"{where}: expected <image id><tab><caption>, found {len(fields)} fields")
    return caption_text(fields[1], where)
