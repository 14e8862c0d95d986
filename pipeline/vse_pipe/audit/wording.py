"""Captions that say nothing, in other letters or of many pictures, and captions that one picture
has twice."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core.text import in_plain_form
from vse_pipe.extract.text_methods import STOP_WORDS

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


def style(doubt: np.ndarray) -> float:
    """1, falling to 0.5 where a fifth of the data set has it: a style. doubt: of all rows."""
    return float(np.interp((doubt >= 0.3).mean() if len(doubt) else 0.0, [0.02, 0.2], [1, 0.5]))


def findings(captions: pa.Table) -> pd.DataFrame:
    """Rows of the kinds ``caption`` and ``duplicate_caption``."""
    texts = captions["text"].combine_chunks()
    table = captions.select(["caption_id", "image_id"]).to_pandas().set_axis(["id", "image"], axis=1)
    table = table.assign(text=in_plain_form(texts).to_pandas())
    pictures = table.groupby("text")["image"].transform("nunique")
    doubts = pd.DataFrame({"in other letters than the rest": _letters(texts)}, table.index)
    for why, pattern, doubt in _PATTERNS:
        doubts[why] = doubt * pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    doubts *= doubts.apply(style)
    doubts[_OF_MANY] = np.interp(np.log(pictures), np.log([2, 3, 10, 50]), [0, 0.2, 0.5, 0.9])
    table["doubt"] = doubts.max(axis=1)
    empty = table[table["doubt"] > 0].assign(kind="caption", proposal="drop")
    why = doubts.loc[empty.index].idxmax(axis=1)
    empty["why"] = why.mask(why == _OF_MANY, pictures.astype(str) + " " + _OF_MANY)
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
    whys = "caption " + first["id"].astype(str) + " of this picture says the same"
    whys += np.where(is_same, "", " in another order")
    rows = table.assign(other=first["id"], doubt=np.where(is_same, 1.0, 0.85), why=whys)
    rows = rows[rows["id"] != rows["other"]].drop(columns="words")
    return rows.assign(kind="duplicate_caption", proposal="merge")
