"""From the files of a command line to what ``measure`` takes."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.core import console, memory
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.evaluate.engine.measure import Inputs
from vse_pipe.evaluate.external import qrels, several, sides
from vse_pipe.evaluate.external.book import Book
from vse_pipe.evaluate.external.several import MoreFiles
from vse_pipe.evaluate.external.vectors import Vectors, must_fit, must_pair, without_dropped
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.ranking import bank
from vse_pipe.ranking.bank import BankSource
from vse_pipe.ranking.metrics.recall import Relevance
from vse_pipe.ranking.split import Split

SIMILARITIES = ("cosine", "dot")
NAN = ("refuse", "drop")
# The captions' image where no file tells.
_UNKNOWN = -1


@dataclass(frozen=True)
class InputFiles:
    """images, captions: Parquet or .npy; the three with ids belong to .npy; bank and val: the same kinds of files;
    similarity: cosine (vectors are brought to length 1) or dot (used as they are); qrels: as in ``qrels.read``; nan: refuse
    rows that hold NaN or infinite values, or drop them with the captions and images that then have no other side; more: the
    files of further models."""

    images: Path
    captions: Path
    image_ids: Path | None = None
    caption_ids: Path | None = None
    caption_images: Path | None = None
    bank_images: Path | None = None
    bank_captions: Path | None = None
    val_images: Path | None = None
    val_captions: Path | None = None
    similarity: str = "cosine"
    qrels: str | None = None
    nan: str = "refuse"
    more: MoreFiles = field(default_factory=MoreFiles)

    def existing(self) -> list[Path]:
        """Every file that is given, qrels included where they are one."""
        named = [value for value in vars(self).values() if isinstance(value, Path)]
        named += [*self.more.images, *self.more.captions]
        return named + ([Path(self.qrels)] if self.qrels and Path(self.qrels).is_file() else [])


def read(files: InputFiles, params: EvaluateParams, device: torch.device, paired: bool = True) -> Inputs:
    """paired: every caption must have its image, or judgements; False where nothing is measured. Raises UsageError for
    options that do not go together, InputError for files that cannot be ranked or hold more than ``evaluate.memory``."""
    _check(files, params)
    # The file's content and the array made of it, then this array and its vectors of length one.
    with memory.limit(params.memory, "evaluate.memory", copies=2):
        return _read(files, params, device, paired)


def _read(files: InputFiles, params: EvaluateParams, device: torch.device, paired: bool) -> Inputs:
    book = Book()
    images, captions = without_dropped(
        sides.images(files.images, files.similarity, files.image_ids, files.nan, book),
        sides.captions(files.captions, files.similarity, files.caption_ids, files.caption_images, files.nan, book),
    )
    must_fit(images, captions)
    relevance = _relevance(files, images, captions) if paired else None
    ranked = _split(images, captions, device, relevance)
    bank = _bank(files, images, device).checked_against(ranked, "--bank-images, --bank-captions", book.names())
    _warn_of_renumbered(bank, ranked)
    tuning = _validation(files, images, device)
    about: dict[str, object] = {
        "images": str(files.images),
        "captions": str(files.captions),
        "similarity": files.similarity,
    }
    about |= {"qrels": files.qrels} if files.qrels else {}
    chosen_by = bank if not bank.own else BankSource("val")
    found = Inputs(ranked, bank, tuning, chosen_by, _inner_product, about, names=book.names())
    if not files.more.images:
        return found
    ids = (files.image_ids, files.caption_ids)
    return several.fused(found, files.more, (images, captions), ids, files.similarity, files.nan)


def _check(files: InputFiles, params: EvaluateParams) -> None:
    if files.similarity not in SIMILARITIES:
        raise UsageError(f"unknown similarity '{files.similarity}'; known: {', '.join(SIMILARITIES)}")
    if files.nan not in NAN:
        raise UsageError(f"--nan {files.nan}: expected {' or '.join(NAN)}")
    files.more.check()
    others = (files.bank_images, files.bank_captions, files.val_images, files.val_captions)
    if files.more.images and any(path is not None for path in others):
        raise UsageError("--more-images take no bank and no validation data: these would be needed of every model")
    if params.bank != bank.OWN or params.split != "test":
        raise UsageError(
            "evaluate.bank and evaluate.split name parts of a run; with --images give --bank-images and --bank-captions"
        )
    if (files.val_images is None) != (files.val_captions is None):
        raise UsageError("--val-images and --val-captions go together")
    if params.protocol != "full" and files.qrels:
        raise UsageError(
            f"evaluate.protocol {params.protocol} cuts captions by their image and --qrels has many to one; use protocol full"
        )


def _relevance(files: InputFiles, images: Vectors, captions: Vectors) -> Relevance | None:
    """None where the captions' images say what is correct."""
    if files.qrels is not None:
        relevance = qrels.read(files.qrels, images.book)
        _say_what_is_missing(relevance, images, captions, files.qrels)
        return relevance
    if captions.image_ids is None:
        raise InputError(
            f"{captions.where}: nothing says which caption belongs to which image; give --caption-images or --qrels"
        )
    must_pair(images, captions)
    return None


def _split(images: Vectors, captions: Vectors, device: torch.device, relevance: Relevance | None = None) -> Split:
    owners = captions.image_ids
    if owners is None:
        owners = np.full(len(captions.ids), _UNKNOWN) if relevance is None else _owners(captions.ids, relevance)
    seen, read = (torch.from_numpy(side.vectors).to(device) for side in (images, captions))
    return Split(images.ids, captions.ids, owners, seen, read, relevance)


def _owners(captions: np.ndarray, relevance: Relevance) -> np.ndarray:
    """For each caption the first image that is correct for it, so that its result is not taken for independent of the
    other captions of that image."""
    judged, images = relevance.pairs["text_to_image"]
    named, first = np.unique(judged, return_index=True)
    place = np.searchsorted(named, captions).clip(max=len(named) - 1)
    return np.where(named[place] == captions, images[first[place]], _UNKNOWN)


def _bank(files: InputFiles, images: Vectors, device: torch.device) -> BankSource:
    given = [path for path in (files.bank_images, files.bank_captions) if path is not None]
    if not given:
        return BankSource(bank.OWN)
    of, nan = files.similarity, files.nan
    # Rows of an .npy bank have no ids, be those of the others text or not.
    books = [
        images.book if path is not None and path.suffix == ".parquet" else None
        for path in (files.bank_images, files.bank_captions)
    ]
    seen = None if files.bank_images is None else sides.images(files.bank_images, of, nan=nan, book=books[0])
    read = None if files.bank_captions is None else sides.captions(files.bank_captions, of, nan=nan, book=books[1])
    for side in (seen, read):
        if side is not None:
            must_fit(images, side)
    missing = Vectors("", "", np.empty(0, np.int64), None, np.empty((0, images.dim), np.float32))
    split = _split(seen or missing, read or missing, device)
    return BankSource(", ".join(map(str, given)), split)


def _warn_of_renumbered(bank: BankSource, ranked: Split) -> None:
    """Single vectors may be in both, captions of the same words for one; most of them are so under other ids only."""
    if bank.split is None:
        return
    for name in ("images", "captions"):
        kept, own = (_rows_as_bytes(getattr(split, name)) for split in (bank.split, ranked))
        shared = int(np.isin(own, kept).sum())
        if shared > len(own) / 2:
            console.warn(
                f"{shared} of the {len(own)} {name} that are ranked are in the bank too, under other ids: "
                "this is no bank of its own"
            )


def _rows_as_bytes(vectors: Float[Tensor, "rows dim"]) -> np.ndarray:
    rows = np.ascontiguousarray(vectors.cpu().numpy())
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()


def _validation(files: InputFiles, images: Vectors, device: torch.device) -> Split | None:
    if files.val_images is None or files.val_captions is None:
        return None
    one, other = without_dropped(
        sides.images(files.val_images, files.similarity, nan=files.nan, book=images.book),
        sides.captions(files.val_captions, files.similarity, nan=files.nan, book=images.book),
    )
    for side in (one, other):
        must_fit(images, side)
    if other.image_ids is None:
        raise InputError(f"{other.where}: validation captions need column image_id; give them as Parquet")
    must_pair(one, other)
    return _split(one, other, device)


def _say_what_is_missing(relevance: Relevance, images: Vectors, captions: Vectors, source: str) -> None:
    """Correct items that are not in the gallery make every figure look better than it is."""
    named = [np.unique(np.concatenate(ids)) for ids in zip(*_by_kind(relevance), strict=True)]
    for side, ids in zip((images, captions), named, strict=True):
        absent = ids[~np.isin(ids, side.ids)]
        if len(absent):
            console.warn(
                f"--qrels {source}: {len(absent)} of the {len(ids)} {side.key}s judged are not in {side.where}, "
                f"the first is {side.book.first(side.key, absent[:1])}; their pairs are left out"
            )


def _by_kind(relevance: Relevance) -> list[tuple[np.ndarray, np.ndarray]]:
    """(image ids, caption ids) of each direction's pairs."""
    return [relevance.pairs["image_to_text"], relevance.pairs["text_to_image"][::-1]]


def _inner_product(
    images: Float[Tensor, "images dim"], captions: Float[Tensor, "captions dim"]
) -> Float[Tensor, "images captions"]:
    return images @ captions.T
