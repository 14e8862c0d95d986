"""Where each word of a caption matched in a picture, for models that compare regions with words."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vse_pipe.artifacts import embeddings, features, texts
from vse_pipe.artifacts.embeddings import FragmentSide
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.vectors import Vectors
from vse_pipe.report.results import TrainedRun

# Words that are drawn before one is chosen, and colours of words (--box-1 to --box-6 in words.css).
_STRONGEST, _COLOURS = 3, 6


def best_regions(
    words: list[str], weights: Float[Tensor, "words regions"], boxes: Float[np.ndarray, "regions 4"] | None
) -> list[dict]:
    """The best region of each word: ``word``, ``region`` (its number), ``weight`` and ``box`` (x1,
    y1, x2, y2 in pixels of the upright image, None without boxes). boxes: NaN for an image without
    them."""
    shares, places = (side.tolist() for side in weights.max(dim=1))
    corners = [None] * weights.shape[1] if boxes is None or np.isnan(boxes).any() else boxes.tolist()
    return [
        {"word": word, "region": place, "weight": round(share, 6), "box": corners[place]}
        for word, place, share in zip(words, places, shares, strict=True)
    ]


def drawing(matches: list[dict], width: int, height: int) -> dict | None:
    """What words.html draws over a picture of ``width`` x ``height`` pixels; None without boxes or
    without a picture. matches: of ``best_regions``. Punctuation and marks, such as ``<start>`` and
    ``<unk>``, are not drawn."""
    matches = [match for match in matches if match["box"] is not None and _is_word(match["word"])]
    if not (matches and width and height):
        return None
    order = sorted(range(len(matches)), key=lambda place: -matches[place]["weight"])
    strongest: dict[int, int] = {}  # by region: words at one box would cover each other
    for place in order:
        strongest.setdefault(matches[place]["region"], place)
    first = list(strongest.values())[:_STRONGEST]
    colours = {place: number for number, place in enumerate(dict.fromkeys([*first, *order]))}
    words = []
    for place, match in enumerate(matches):
        x1, y1, x2, y2 = (round(value, 2) for value in match["box"])
        is_right = x1 + x2 > width
        words.append(
            {
                "word": match["word"],
                "region": match["region"],
                "weight": match["weight"],
                "colour": colours[place] % _COLOURS + 1,
                "strong": place in first,
                "x": x1, "y": y1, "width": round(x2 - x1, 2), "height": round(y2 - y1, 2),
                "text": {"x": x2 if is_right else x1, "anchor": "end" if is_right else "start"},
            }
        )  # fmt: skip
    return {"width": width, "height": height, "letter": round(max(width, height) / 16, 2), "words": words}


def _is_word(word: str) -> bool:
    return not word.startswith("<") and any(character.isalnum() for character in word)


@dataclass(frozen=True)
class WordRegions:
    """A run's embeddings on regions, the boxes of its features, the words of its captions."""

    embedded: Vectors
    source: features.Features
    captions: texts.Texts

    @classmethod
    def open(cls, params: Params, run: TrainedRun) -> "WordRegions | str":
        """The run's matches, or why nothing can be drawn. Raises as ``Vectors.of_run``."""
        dataset, names = run.params.dataset, (run.params.features, run.params.texts)
        folders = [paths.embedded(run.name), *(paths.extracted(dataset, name) for name in names)]
        for folder, file in zip(folders, (embeddings.IMAGES, features.META, texts.META), strict=True):
            if not (folder / file).is_file():
                return f"{folder} is not here"
        embedded = Vectors.of_run(params, run.name)
        if not isinstance(embedded.images, FragmentSide):
            return f"{folders[0]} holds no regions"
        if embedded.peer_sha256 is not None:
            return "each of its two networks has attention of its own"
        source = features.read(folders[1], verify=False)
        if source.boxes is None:
            return f"features.{names[0]} have no boxes"
        return cls(embedded, source, texts.read(folders[2], verify=False))

    def of_pairs(self, caption_ids: list[int], image_ids: list[int]) -> list[list[dict]]:
        """``best_regions`` of each caption in the image beside it. Raises InputError for ids
        without fragments, boxes or text features."""
        images, captions, member = self.embedded.images, self.embedded.captions, self.embedded.member()
        assert isinstance(images, FragmentSide)
        assert isinstance(captions, FragmentSide)
        assert self.source.boxes is not None
        boxes = self.source.boxes[self.source.rows_of(np.array(image_ids))]
        names = self._words(np.array(caption_ids))
        matches = []
        for place, (regions, words) in enumerate(zip(images.take(image_ids), captions.take(caption_ids), strict=True)):
            pair = torch.from_numpy(regions)[None], torch.from_numpy(words)
            weights = SIMILARITIES.load(member.name).regions(*pair, member.params)[0]
            numbered = [str(number) for number in range(len(words))]
            matches.append(best_regions(names[place] if names else numbered, weights, boxes[place]))
        return matches

    def _words(self, caption_ids: np.ndarray) -> list[list[str]]:
        """The words of each caption; empty for text features that name none."""
        tokens, words = self.captions.tokens, self.captions.words
        if tokens is None or tokens.tokens.ndim > 1:
            return []
        ids, lengths = tokens.padded(self.captions.places_of(caption_ids))
        return [[words[number] for number in row[:length]] for row, length in zip(ids.tolist(), lengths, strict=True)]
