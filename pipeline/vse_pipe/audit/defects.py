"""What is wrong with the pictures and captions of a prepared data set, beside pairs that do not
fit: a table of findings.

A row has the columns that vse_pipe.artifacts.decisions describes. ``doubt`` is how sure the defect
is; the scales were set by eye on photographs (Flickr8k) and are rough: from 0.9 on nearly all rows
are right, around 0.5 about half, below 0.3 few. What a fifth of the data set has is its style, not
a defect, and has half the doubt.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, UInt8
from PIL import Image

from vse_pipe.artifacts import decisions, digests
from vse_pipe.artifacts.images import DESCRIBED, UNREAD
from vse_pipe.audit import duplicates
from vse_pipe.core import console
from vse_pipe.extract.compute import batches
from vse_pipe.extract.text_methods import STOP_WORDS
from vse_pipe.pictures import images as pictures
from vse_pipe.pictures.images import Item, Transform

# Findings below this doubt are left out.
LEAST = 0.1
# Pictures are judged at this size, about that of a network's input; a blur that it does not see
# does no harm.
SIDE = 224
_SCALED = Transform(SIDE, SIDE, "exact", "bilinear", "center", (0.0,) * 3, (1.0,) * 3, draft=True)
_BLOCK = 256
_PRECOMPUTED = r"\.npy#\d+$"
# For each figure of a picture its values of doubt 0 and 1, and the phrase for the reader.
_FIGURES = {
    "contrast": ((0.05, 0.01), "blank: contrast {:.3f}"),
    "brightness": ((0.32, 0.04), "dark: brightness {:.2f}"),
    "darkness": ((0.12, 0.02), "over-bright: darkness {:.2f}"),
    "sharpness": ((0.06, 0.015), "blurred: sharpness {:.3f}"),
    "side": ((64.0, 16.0), "tiny: {:.0f} pixels"),
    "ratio": ((3.0, 7.0), "odd shape: one side is {:.1f} times the other"),
}


def findings(images: pa.Table, captions: pa.Table, root: Path) -> pd.DataFrame:
    """All findings but ``pair``, sorted by kind and falling doubt; each (kind, id) once.

    images, captions: as ``prepare`` wrote them; root: folder of the pictures, which are read once, in
    threads; boxes that ``format: regions`` proposes are left out. Raises IntegrityError for a
    picture that changed since ``prepare``."""
    images = images.filter(pc.is_in(images["split"], pa.array(DESCRIBED)))
    ids, splits = images["image_id"].to_numpy(), images["split"].to_numpy(zero_copy_only=False)
    same = duplicates.equal_contents(digests.picture_contents(images))
    figures, places, hashes, colours = _looked_at(images, root)
    # Pictures of one colour all look the same.
    compared = figures["contrast"].to_numpy()[places] >= _FIGURES["contrast"][0][0]
    pairs = duplicates.near_hashes(hashes[compared], colours[compared], places[compared])
    # Boxes in one picture overlap as they like.
    files = pc.replace_substring_regex(images["file"], digests.BOX, "").to_numpy(zero_copy_only=False)
    pairs = pairs[files[pairs["left"]] != files[pairs["right"]]]
    groups = duplicates.grouped(pd.concat([same, pairs]), ids, splits)
    rows = [groups, _picture_rows(figures, ids), caption_findings(captions)]
    return _described(pd.concat(rows), images, captions)


def _looked_at(images: pa.Table, root: Path) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """The figures of all pictures, NaN where there are none, with the column ``broken``; the places
    of those that can be read, with their hashes and their colours, as of
    ``duplicates.near_hashes``."""
    is_picture = pc.invert(pc.match_substring_regex(images["file"], _PRECOMPUTED)).to_numpy(zero_copy_only=False)
    sides = images.select(["width", "height"]).to_pandas().astype(float)
    table = pd.DataFrame({"side": sides.min(axis=1).mask(sides.min(axis=1) <= 0), "broken": is_picture})
    table["ratio"] = sides.max(axis=1) / table["side"]
    table[list(_MEASURED)] = np.nan
    is_there = images["sha256"].to_numpy(zero_copy_only=False) != UNREAD
    places = np.flatnonzero(is_picture & is_there & (table["side"] > 0))
    rows = images.select(["image_id", "file", "sha256"]).take(pa.array(places)).to_pandas()
    # ``where`` of an item is its place in the table.
    items = [*map(Item, rows["image_id"], rows["file"], rows["sha256"], map(str, places))]
    work = [items[start : start + _BLOCK] for start in range(0, len(items), _BLOCK)]
    blocks = batches(work, lambda item: _measured(root, item), 0)
    parts = [(np.zeros(0, np.int64), np.zeros((0, 256), np.float32), np.zeros((0, 64, 3), np.uint8))]
    for batch in console.track(blocks, len(work), "blocks of pictures"):
        if batch.arrays is not None:
            readable = np.array([int(item.where) for item in batch.items], np.int64)
            figures, grey, colours = batch.arrays
            table.loc[readable, list(_MEASURED)] = figures
            table.loc[readable, "broken"] = False
            parts.append((readable, duplicates.perceptual_hashes(grey), colours))
    table.loc[table["side"] < SIDE / 2, "sharpness"] = np.nan  # enlarged pictures are never sharp
    return table, *map(np.concatenate, zip(*parts, strict=True))


_MEASURED = ("brightness", "darkness", "contrast", "sharpness")


def _measured(root: Path, item: Item) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``_MEASURED``, 64 x 64 grey values and means of cells. Raises as ``pictures.load``."""
    pixels = pictures.pixels(root, item, _SCALED)[0]
    image = Image.fromarray(pixels)
    grey = image.convert("L")
    cells = np.asarray(image.resize((8, 8), Image.Resampling.BOX)).reshape(64, 3)
    small = np.asarray(grey.resize((64, 64), Image.Resampling.BOX), np.float32)
    return _figures(np.asarray(grey)), small, cells


def _figures(grey: UInt8[np.ndarray, "side side"]) -> Float[np.ndarray, " figures"]:
    """Four figures of a picture, all 0 to 1.

    brightness: the value that 99 % of the pixels stay below (as CleanVision); darkness: 1 - the
    value that 5 % stay below, or the contrast if that is more, because a drawing on white is no
    over-exposed photograph; contrast: standard deviation; sharpness: largest standard deviation of
    the Laplacian among 4 x 4 tiles, because a sharp subject before a blurred background is no
    blurred picture."""
    counts = np.bincount(grey.ravel(), minlength=256)
    share, levels = counts.cumsum() / grey.size, np.arange(256) / 255
    contrast = float(np.sqrt((counts * (levels - (counts * levels).sum() / grey.size) ** 2).sum() / grey.size))
    low, high = (float(levels[np.searchsorted(share, part)]) for part in (0.05, 0.99))
    values = grey.astype(np.float32) / 255
    laplacian = 4 * values[1:-1, 1:-1] - values[:-2, 1:-1] - values[2:, 1:-1] - values[1:-1, :-2] - values[1:-1, 2:]
    side = len(laplacian) // 4
    tiles = laplacian[: 4 * side, : 4 * side].reshape(4, side, 4, side)
    # A Laplacian has the mean 0; numpy's own standard deviation takes four times as long.
    sharpness = float(np.sqrt(np.einsum("aibj,aibj->ab", tiles, tiles).max() / side**2))
    return np.array([high, max(1 - low, 2 * contrast), contrast, sharpness])


def _picture_rows(figures: pd.DataFrame, ids: np.ndarray) -> pd.DataFrame:
    """A row for each picture with a defect, by its surest one."""
    doubts = figures[["broken"]].astype(float)
    for name, ((none, sure), _) in _FIGURES.items():
        doubt = ((figures[name] - none) / (sure - none)).clip(0, 1).fillna(0)
        doubts[name] = doubt * _style(doubt)
    table = pd.DataFrame({"kind": "picture", "id": ids, "doubt": doubts.max(axis=1), "proposal": "drop"})
    table = table.assign(name=doubts.idxmax(axis=1))[table["doubt"] >= LEAST]
    reasons = {place: _reason(name, figures.at[place, name]) for place, name in table["name"].items()}
    return table.assign(why=pd.Series(reasons, dtype=object))


def _reason(name: str, figure: float) -> str:
    return _FIGURES[name][1].format(figure) if name in _FIGURES else "cannot be read"


def _style(doubt: np.ndarray) -> float:
    """1, falling to 0.5 where a fifth of the data set has it: a style. doubt: of all rows."""
    return float(np.interp((doubt >= 0.3).mean() if len(doubt) else 0.0, [0.02, 0.2], [1, 0.5]))


_PICTURE = "image images photo photos photograph picture pictures pic pics img foto bild thumbnail caption description"
_GENERIC = STOP_WORDS.union(_PICTURE.split(" "), ["untitled", "unknown", "none", "null", "nan", "na", "placeholder"])
_WORD = f"({'|'.join(sorted(_GENERIC))})"
_FILE = (
    r"(?i)^\s*(\S+\.(jpe?g|png|gif|webp|bmp|tiff?|heic|avif|svg)"
    r"|(img|dsc|dscn|dscf|pict|pxl|image|photo|screenshot)[_ -]?\d[\d_ -]*)\s*$"
)
# Reason, pattern and doubt of captions without content.
_PATTERNS = (
    ("no words", r"^[^\p{L}\p{N}]*$", 1.0),
    ("an address and no words", r"(?i)^\s*(https?://|www\.)\S+\s*$", 0.95),
    ("a file name", _FILE, 0.95),
    ("only digits", r"^[^\p{L}]*\p{N}[^\p{L}]*$", 0.95),
    ("says nothing of the picture", rf"(?i)^\W*{_WORD}(\W+{_WORD})*\W*$", 0.95),
)
_OF_MANY = "pictures have this caption"


def caption_findings(captions: pa.Table) -> pd.DataFrame:
    """Rows of the kinds ``caption`` and ``duplicate_caption``."""
    texts = captions["text"].combine_chunks()
    table = captions.select(["caption_id", "image_id"]).to_pandas().set_axis(["id", "image"], axis=1)
    table = table.assign(text=decisions.in_plain_form(texts).to_pandas())
    pictures = table.groupby("text")["image"].transform("nunique")
    doubts = pd.DataFrame({"in other letters than the rest": _letters(texts)}, table.index)
    for reason, pattern, doubt in _PATTERNS:
        doubts[reason] = doubt * pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    doubts *= doubts.apply(_style)
    doubts[_OF_MANY] = np.interp(np.log(pictures), np.log([2, 3, 10, 50]), [0, 0.2, 0.5, 0.9])
    table["doubt"] = doubts.max(axis=1)
    empty = table[table["doubt"] > 0].assign(kind="caption", proposal="drop")
    reasons = doubts.loc[empty.index].idxmax(axis=1)
    empty["why"] = reasons.mask(reasons == _OF_MANY, pictures.astype(str) + " " + _OF_MANY)
    return pd.concat([empty, _repeated(table)]).drop(columns=["image", "text"])


def _letters(texts: pa.Array) -> np.ndarray:
    """Doubt of captions in Latin letters among others, and in other letters among Latin ones: up to
    0.95, by their share of letters."""
    counts = [pc.count_substring_regex(texts, pattern).to_numpy() for pattern in (r"\p{Latin}", r"\p{L}")]
    latin, letters = counts
    share = latin / letters.clip(1)
    share = 1 - share if 2 * latin.sum() > letters.sum() else share
    return 0.95 * np.clip((share - 0.3) / 0.4, 0, 1) * (letters > 0)


def _repeated(table: pd.DataFrame) -> pd.DataFrame:
    """``duplicate_caption``: doubt 1 for the words of another caption of the image, 0.85 in
    another order. table: id, image and text of the captions."""
    table = table.sort_values("id")
    table["words"] = [" ".join(sorted(text.split(" "))) for text in table["text"]]
    first = table.groupby(["image", "words"]).transform("first")
    is_same = first["text"] == table["text"]
    reasons = "caption " + first["id"].astype(str) + " of this picture says the same"
    reasons += np.where(is_same, "", " in another order")
    rows = table.assign(other=first["id"], doubt=np.where(is_same, 1.0, 0.85), why=reasons)
    rows = rows[rows["id"] != rows["other"]].drop(columns="words")
    return rows.assign(kind="duplicate_caption", proposal="merge")


def _described(rows: pd.DataFrame, images: pa.Table, captions: pa.Table) -> pd.DataFrame:
    """The rows of ``LEAST`` doubt with all columns of findings, sorted."""
    rows = rows[rows["doubt"] >= LEAST].sort_values(["kind", "doubt"], ascending=[True, False], kind="stable")
    rows = rows.reindex(columns=["kind", "id", "doubt", "why", "proposal", "other"]).reset_index(drop=True)
    rows = rows.astype({"id": np.int64, "other": "Int64"}).round({"doubt": 4})
    return decisions.described(rows, images, captions)
