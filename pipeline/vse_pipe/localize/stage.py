"""localize: where in its picture each phrase is, by a run that was trained on regions."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor

from vse_pipe.artifacts import embeddings, identity, regions
from vse_pipe.artifacts import localisation as artefact
from vse_pipe.artifacts.evaluation import KS
from vse_pipe.artifacts.images import PROPOSAL
from vse_pipe.core import console
from vse_pipe.core.console import document, ruled, say, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.core.files import require, whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.project import paths
from vse_pipe.project.params.schema import LocalizeParams
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking import boxes
from vse_pipe.ranking.intervals import Figures, FoldDirection, Sample, interval, measured
from vse_pipe.ranking.scores import Similarity
from vse_pipe.ranking.vectors import Vectors

FILES = artefact.FILES
_FROM_PHRASES = ("phrase_id", "caption_id", "image_id", "start", "text", "type", *regions.BOX_COLUMNS)
ALL = "all"
# The key of all mentions beside those of types. No type has this name, because it separates the types of a mention.
_ALL_TYPES = "/"
_EMPTY = np.zeros(0, np.int64)
_DIGITS = 6
_COLUMNS = {"r@1": "R@1", "r@5": "R@5", "r@10": "R@10", "bound": "bound", "map": "mAP", "random_r@1": "random R@1"}


@dataclass(frozen=True)
class BoxSide:
    """Mentions or proposals, grouped by picture. table: one row for each; pictures: int64, ascending; vectors: in the
    run's space."""

    table: pa.Table
    pictures: np.ndarray
    boxes: Float[Tensor, "rows 4"]
    vectors: Float32[np.ndarray, "rows dim"]

    @classmethod
    def from_table(cls, table: pa.Table, key: str, boxes: np.ndarray, vectors: np.ndarray) -> "BoxSide":
        """key: the column of the picture, by which the rows are sorted; boxes, vectors: in the order of ``table``."""
        pictures = table[key].to_numpy()
        order = np.argsort(pictures, kind="stable")
        return cls(table.take(order), pictures[order], torch.from_numpy(boxes[order]), vectors[order])


@dataclass(frozen=True)
class BoxScene:
    """One picture. place: its position among all; mentions, proposals: its rows in the two sides."""

    place: int
    mentions: slice
    proposals: slice
    truth: Float[Tensor, "mentions 4"]
    boxes: Float[Tensor, "proposals 4"]
    scores: Float[Tensor, "mentions proposals"]


def scenes(mentions: BoxSide, proposals: BoxSide, similarity: Similarity, device: torch.device) -> Iterator[BoxScene]:
    """In the order of ``mentions``. A picture may have no proposal."""
    pictures, first = np.unique(mentions.pictures, return_index=True)
    ends = np.append(first[1:], len(mentions.pictures))
    low, high = (np.searchsorted(proposals.pictures, pictures, side) for side in ("left", "right"))
    phrases, regions = (torch.from_numpy(side.vectors).to(device) for side in (mentions, proposals))
    for place in range(len(pictures)):
        rows, candidates = slice(first[place], ends[place]), slice(low[place], high[place])
        scores = similarity(regions[candidates], phrases[rows]).T.cpu()
        yield BoxScene(place, rows, candidates, mentions.boxes[rows], proposals.boxes[candidates], scores)


@dataclass(frozen=True)
class Classes:
    """The ranking of each class, as far as average precision depends on it.

    finds: the pictures of the boxes that find a true box, best first; class c has starts[c] to starts[c + 1].
    before_pictures, before: pictures and their numbers of boxes ranked after find f - 1 and up to find f, from
    before_starts[f] to before_starts[f + 1]. truths: the pictures of the true boxes; class c has truth_starts[c] to
    truth_starts[c + 1]."""

    starts: Int[np.ndarray, " bounds"]
    finds: Int[np.ndarray, " finds"]
    before_starts: Int[np.ndarray, " spans"]
    before_pictures: Int[np.ndarray, " rows"]
    before: Int[np.ndarray, " rows"]
    truth_starts: Int[np.ndarray, " bounds"]
    truths: Int[np.ndarray, " truths"]

    @classmethod
    def from_boxes(cls, ranked: tuple[np.ndarray, ...], truths: tuple[np.ndarray, ...], count: int) -> "Classes":
        """ranked: class, picture, score and correctness of every box; truths: class and picture of every true box;
        count: of classes."""
        owners, pictures, scores, correct = ranked
        order = np.lexsort((correct, -scores, owners))  # among equal scores wrong boxes first
        owners, pictures, correct = owners[order], pictures[order], correct[order]
        starts = _starts(owners[correct], count)
        find = correct.cumsum() - correct
        counts = find < starts[owners + 1]  # boxes after the last find of a class change nothing
        keys = find[counts] * (pictures.max(initial=0) + 1) + pictures[counts]
        _, first, before = np.unique(keys, return_index=True, return_counts=True)
        spans = _starts(find[counts][first], int(starts[-1]))
        true = _starts(truths[0], count), truths[1][np.argsort(truths[0], kind="stable")]
        return cls(starts, pictures[correct], spans, pictures[counts][first], before, *true)

    def measure(self, weights: Int[np.ndarray, "draws pictures"], eleven: bool) -> Float[np.ndarray, "draws classes"]:
        """The average precision of each class in percent, NaN if a draw has no true box of the class. weights: how
        often each picture counts.

        Precision at a recall is the best at that recall or a larger one. The average precision is the area under that
        curve, or with ``eleven`` its mean at the recalls 0, 0.1, ..., 1 (Everingham et al., IJCV 2015, section 3.4.1;
        IJCV 2010, section 4.2)."""
        averages = np.full((len(weights), len(self.starts) - 1), np.nan)
        for number in range(averages.shape[1]):
            hits, answers, positives = self._curve(weights, number)
            precision = hits / np.maximum(answers, 1)
            best = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
            drawn = positives > 0
            if eleven:
                levels = 10 * hits // np.maximum(positives, 1)[:, None]
                area = (best * np.diff(levels, prepend=0, axis=1)).sum(axis=1) + best[:, :1].sum(axis=1)
                averages[drawn, number] = 100.0 * area[drawn] / 11
            else:
                area = (best * np.diff(hits, prepend=0, axis=1)).sum(axis=1)
                averages[drawn, number] = 100.0 * area[drawn] / positives[drawn]
        return averages

    def _curve(self, weights: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For a class under each row of weights: true boxes found and boxes ranked up to each find, (draws, finds), and
        the number of true boxes, (draws,)."""
        finds = slice(self.starts[number], self.starts[number + 1])
        truths = slice(self.truth_starts[number], self.truth_starts[number + 1])
        bounds = self.before_starts[finds.start : finds.stop + 1]
        rows = slice(bounds[0], bounds[-1])
        boxes = weights[:, self.before_pictures[rows]] * self.before[rows]
        ranked = boxes.cumsum(axis=1)[:, bounds[1:] - bounds[0] - 1]
        return weights[:, self.finds[finds]].cumsum(axis=1), ranked, weights[:, self.truths[truths]].sum(axis=1)


def classes(
    scenes: Iterable[BoxScene], names: Int[np.ndarray, " mentions"], count: int, threshold: float, nms: float
) -> Classes:
    """names: the class of each mention, below ``count``.

    In each picture the boxes of a class go through non-maximum suppression. A box is correct if its IoU with the true
    box that it overlaps most is at least ``threshold`` and no better box has found that true box (Pascal VOC;
    Everingham et al., IJCV 2010, section 4.2)."""
    ranked, truths = [], []
    for scene in scenes:
        phrases, first, owners = np.unique(names[scene.mentions], return_index=True, return_inverse=True)
        scores = scene.scores[first]
        distinct = np.unique(np.column_stack([owners, scene.truth.numpy()]), axis=0)
        true, owners = torch.from_numpy(distinct[:, 1:].copy()), distinct[:, 0].astype(np.int64)
        truths.append((phrases[owners], np.full(len(owners), scene.place)))
        if scores.shape[1]:
            survives = boxes.surviving(boxes.iou(scene.boxes, scene.boxes), scores, nms).numpy()
            right = _correct(boxes.iou(true, scene.boxes).numpy(), owners, scores.numpy(), survives, threshold)
            rows, columns = np.nonzero(survives)
            place = np.full(len(rows), scene.place)
            ranked.append((phrases[rows], place, scores.numpy()[rows, columns], right[rows, columns]))
    kinds = (np.int64, np.int64, np.float32, np.bool_)
    return Classes.from_boxes(_joined(ranked, kinds), _joined(truths, kinds[:2]), count)


def _correct(
    overlap: np.ndarray, owners: np.ndarray, scores: np.ndarray, survives: np.ndarray, threshold: float
) -> np.ndarray:
    """bool (classes, proposals). overlap: (truths, proposals); owners: the class of each truth, ascending."""
    slots = np.arange(len(owners)) - np.searchsorted(owners, owners)
    spread = np.full((len(scores), slots.max() + 1, scores.shape[1]), -1.0)
    spread[owners, slots] = overlap
    most = spread.argmax(axis=1)
    fits = survives & (spread.max(axis=1) >= threshold)
    claims = np.where(fits[owners] & (most[owners] == slots[:, None]), scores[owners], -np.inf)
    best = claims.argmax(axis=1)
    hit = np.isfinite(claims[np.arange(len(owners)), best])
    right = np.zeros_like(survives)
    right[owners[hit], best[hit]] = True
    return right


def _joined(parts: list[tuple], kinds: tuple) -> tuple[np.ndarray, ...]:
    columns = zip(*parts, strict=True) if parts else [()] * len(kinds)
    return tuple(np.concatenate([np.zeros(0, kind), *column]) for column, kind in zip(columns, kinds, strict=True))


def _starts(owners: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([[0], np.bincount(owners, minlength=count).cumsum()]).astype(np.int64)


Mentions = Float[np.ndarray, " mentions"]


@dataclass(frozen=True)
class Ranks:
    """Columns with a value for each mention. candidates: number of proposals of its picture; correct: number of those
    that overlap its box by the threshold.

    rank: of the first correct candidate, 1 = best, NaN without one; wrong candidates with the same score rank before
    it. bound: the largest IoU of a candidate. best: row of the best candidate among all proposals, -1 without one;
    score, iou: of that candidate."""

    candidates: Int[np.ndarray, " mentions"]
    correct: Int[np.ndarray, " mentions"]
    rank: Mentions
    bound: Mentions
    best: Int[np.ndarray, " mentions"]
    score: Float32[np.ndarray, " mentions"]
    iou: Mentions

    @classmethod
    def from_scene(cls, scene: BoxScene, threshold: float) -> "Ranks":
        count, proposed = scene.scores.shape
        if not proposed:
            undefined, zeros = np.full(count, np.nan), np.zeros(count, np.int64)
            return cls(zeros, zeros, undefined, np.zeros(count), zeros - 1, undefined.astype(np.float32), undefined)
        overlap = boxes.iou(scene.truth, scene.boxes)
        hit = overlap >= threshold
        first = scene.scores.masked_fill(~hit, -torch.inf).amax(dim=1, keepdim=True)
        rank = 1.0 + ((scene.scores > first) | ((scene.scores == first) & ~hit)).sum(dim=1).double()
        best = scene.scores.argmax(dim=1)
        rows = torch.arange(count)
        columns = (
            hit.sum(dim=1),
            rank.masked_fill(~hit.any(dim=1), torch.nan),
            overlap.amax(dim=1),
            best + scene.proposals.start,
            scene.scores[rows, best],
            overlap[rows, best],
        )
        return cls(np.full(count, proposed), *(column.numpy() for column in columns))

    def hits(self, k: int) -> Mentions:
        """1.0 if a correct candidate is among the best k, else 0.0."""
        return (self.rank <= k).astype(np.float64)

    def chance(self, k: int) -> Mentions:
        """The probability of a correct candidate among k random ones: 1 - C(wrong, k) / C(candidates, k)."""
        missed = np.ones(len(self.rank))
        for drawn in range(k):
            missed *= np.maximum(self.candidates - self.correct - drawn, 0) / np.maximum(self.candidates - drawn, 1)
        return np.where(self.correct > 0, 1.0 - missed, 0.0)

    def take(self, rows: np.ndarray) -> "Ranks":
        """rows: mask or positions of mentions."""
        return Ranks(**{name: values[rows] for name, values in vars(self).items()})


def joined(parts: list[Ranks]) -> Ranks:
    return Ranks(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in Ranks.__annotations__})


def localize(params: Params, run: str, device: str = "auto") -> dict:
    """Write data/localize/<run>/ and return what its metrics.json holds.

    Each mention of a phrase asks for its box among the proposals of its picture, ranked by the run's similarity (Wang
    et al., CVPR 2016, section 3.3). Raises as ``read_inputs``, and InputError for scores that are not finite."""
    started = time.monotonic()
    out, options, resolved = paths.localized(run), params.localize, resolve_device(device, needs_float64=True)
    with claim(out):
        inputs = read_inputs(params, run)
        embedded = inputs.embedded
        if embedded.peer_sha256:
            warn(f"localize {run}: of the run's two networks the first alone is asked")
        pictures = list(scenes(inputs.mentions, inputs.proposals, embedded.similarity(resolved), resolved))
        if not all(scene.scores.isfinite().all() for scene in pictures):
            raise InputError(f"{paths.embedded(run)}: the model's scores are not finite; train the run again")
        ranks = joined([Ranks.from_scene(scene, options.threshold) for scene in pictures])
        mentions = inputs.mentions.table
        columns = regions.phrase_key(mentions), mentions["type"]
        texts, types = (column.to_numpy(zero_copy_only=False) for column in columns)
        metrics = {
            "run": run,
            "similarity": embedded.compared_by,
            **options.model_dump(),
            "candidates": round(float(ranks.candidates.mean()), 1),
            "proposals": inputs.recall,
            "left_out": embedded.left_out(options.split).get("captions", 0),
            **localised_figures(pictures, ranks, texts, types, options, params.seed),
        }
        with whole_folder(out, paths.output_patterns(FILES)) as folder:
            artefact.write(folder, _table(inputs, ranks), metrics, str(inputs.source))
            identity.write(folder, inputs.identities, {})
    paths.record_seconds(out, time.monotonic() - started)
    total = metrics[ALL]
    say(
        f"localize {run}: {total['mentions']} mentions, R@1 {total['r@1']:.2f} (random {total['random_r@1']:.2f}, bound "
        f"{total['bound']:.2f}), mAP {total['map']:.2f}, {out}"
    )
    return metrics


def show_localisation(metrics: dict, as_json: bool) -> None:
    """Print a row for all mentions and for each type."""
    if as_json:
        document(metrics)
        return
    table = ruled()
    table.add_column(f"run {metrics['run']}, IoU >= {metrics['threshold']:g}")
    for title in ("mentions", *_COLUMNS.values()):
        table.add_column(title, justify="right", no_wrap=True)
    for name, figures in [(ALL, metrics[ALL]), *metrics["types"].items()]:
        table.add_row(name, f"{figures['mentions']:,}", *(f"{figures[key]:.1f}" for key in _COLUMNS))
    console.show(table)


def check_localizable(params: Params, run: str) -> None:
    """Raises UsageError for a run that compares fragments, or was trained on a data set without regions."""
    node = params.runs[run]
    similarity, dataset = node.similarity.name, node.dataset
    if SIMILARITIES.traits(similarity).fragments:
        raise UsageError(f"run '{run}' compares fragments of pictures ({similarity}); a box is one vector")
    if params.datasets[dataset].format.name != "regions" and not (paths.prepared(dataset) / regions.NAME).exists():
        raise UsageError(
            f"localize {run}: data set '{dataset}' has no regions; train the run on a data set of `format: regions`"
        )


@dataclass(frozen=True)
class LocalizeInputs:
    """source: folder of the data set with the uncropped pictures; recall: of the proposals, result of
    ``regions.recall``; identities: of what was read."""

    embedded: Vectors
    mentions: BoxSide
    proposals: BoxSide
    source: Path
    recall: dict[str, dict]
    identities: identity.Inputs


def read_inputs(params: Params, run: str) -> LocalizeInputs:
    """Raises UsageError as ``check_localizable``, InputError for embeddings of fragments and for an empty split,
    IntegrityError for embeddings of other regions or of another model than the present ones."""
    check_localizable(params, run)
    dataset, split = params.runs[run].dataset, params.localize.split
    prepared, folder = paths.prepared(dataset), paths.embedded(run)
    require(prepared / regions.NAME)  # before vectors, which take longer
    read = identity.inputs_of(folder, (PROPOSAL, split)) | identity.parts_of(folder)
    read[str(prepared)] = read.get(str(prepared), {}) | identity.parts_of(prepared, "phrases", "regions")[str(prepared)]
    read |= identity.inputs_of(prepared, (split,))
    embedded = Vectors.of_run(params, run)
    embedded.require_current((PROPOSAL, split))
    identity.require_current(prepared)
    boxes, phrases = regions.read(prepared), regions.read_phrases(prepared)
    images, captions = embedded.images, embedded.captions
    if not (isinstance(images, embeddings.Side) and isinstance(captions, embeddings.Side)):
        raise InputError(
            f"localize {run}: '{embedded.compared_by}' compares fragments of pictures, a proposal is one vector; use a run whose similarity is cosine or order"
        )
    proposed, spoken = images.split(PROPOSAL), captions.split(split)
    for side, name, file in ((proposed, PROPOSAL, embeddings.IMAGES), (spoken, split, embeddings.CAPTIONS)):
        if not len(side.ids):
            raise InputError(
                f"{folder / file}: nothing of split '{name}'; data set '{dataset}' has none there, or embed.splits leaves it out"
            )
    mentions = _rows(phrases, "phrase_id", spoken.ids, run)
    candidates = _rows(boxes, "image_id", proposed.ids, run)
    in_split = np.isin(candidates["source_id"].to_numpy(), mentions["image_id"].to_numpy())
    if not in_split.any():
        raise InputError(
            f"{prepared}: no picture of split '{split}' has a proposal; add {split} to the splits that data set '{dataset}' proposes boxes for"
        )
    candidates = candidates.filter(pa.array(in_split))
    return LocalizeInputs(
        embedded,
        BoxSide.from_table(mentions, "image_id", regions.boxes(mentions), spoken.vectors),
        BoxSide.from_table(candidates, "source_id", regions.boxes(candidates), proposed.vectors[in_split]),
        regions.source(boxes),
        regions.recall(boxes),
        read,
    )


def _rows(table: pa.Table, key: str, ids: np.ndarray, run: str) -> pa.Table:
    places = pc.index_in(pa.array(ids), value_set=table[key].combine_chunks())
    if places.null_count:
        missing = ids[places.is_null().to_numpy(zero_copy_only=False)][0]
        raise IntegrityError(
            f"{paths.embedded(run)}: embeds {key} {missing}, which the data set does not have any more; run `vse-pipe embed --run {run}` again"
        )
    return table.take(places)


def _table(inputs: LocalizeInputs, ranks: Ranks) -> pa.Table:
    columns = {name: inputs.mentions.table[name] for name in _FROM_PHRASES}
    absent = ranks.best < 0
    # ``read_inputs`` refuses a split without any proposal, so row 0 exists.
    best = inputs.proposals.table.take(pa.array(np.maximum(ranks.best, 0)))
    boxes = {name: best[column] for name, column in zip(artefact.FOUND, regions.BOX_COLUMNS, strict=True)}
    for name, values in {"region_id": best["image_id"], **boxes}.items():
        columns[name] = pa.array(values.to_numpy(), mask=absent)
    columns |= {name: pa.array(getattr(ranks, name)) for name in ("candidates", "correct", "bound")}
    columns |= {name: pa.array(getattr(ranks, name), mask=absent) for name in ("score", "iou")}
    return pa.table({**columns, "rank": pa.array(ranks.rank, mask=np.isnan(ranks.rank))})


@dataclass(frozen=True)
class Localised(Figures):
    """sides: of fold 0, by type and for all, with one query for each mention. phrases: all unique phrases; kinds: mask
    of them by type."""

    phrases: Classes
    kinds: dict[str, Bool[np.ndarray, " classes"]]
    eleven: bool

    def measure(self, weights: dict[int, Int[np.ndarray, "draws images"]]) -> Sample:
        sample = super().measure(weights)
        precision = self.phrases.measure(weights[0], self.eleven)
        for kind, mask in self.kinds.items():
            defined = np.isfinite(precision[:, mask])
            with np.errstate(invalid="ignore"):
                sample[(kind, "map")] = np.where(defined, precision[:, mask], 0).sum(axis=1) / defined.sum(axis=1)
        return sample


def localised_figures(
    scenes: Sequence[BoxScene], ranks: Ranks, texts: np.ndarray, types: np.ndarray, options: LocalizeParams, seed: int
) -> dict:
    """{"all": figures, "types": {type: figures}}, in percent: recall, its floor, its bound, and mAP. texts, types: of
    each mention.

    A mention counts under each of its types, a unique phrase under each type that one of its mentions has. Intervals
    draw pictures with replacement. A draw without a mention of a type is left out for that type; a type that no draw
    has gets no intervals. The draws of mAP are shifted so that their median is the estimate: a draw has fewer different
    pictures of a phrase, and finding it among them is easier."""
    unique, names = np.unique(texts, return_inverse=True)
    masks = {_ALL_TYPES: np.ones(len(texts), bool), **_masks(types)}
    places = np.repeat([scene.place for scene in scenes], [len(scene.truth) for scene in scenes])
    images = np.arange(len(scenes))
    sides = {
        kind: FoldDirection(images, places[mask], _means(ranks.take(mask)), None, _EMPTY, _EMPTY, 0)
        for kind, mask in masks.items()
    }
    phrases = classes(scenes, names, len(unique), options.threshold, options.nms)
    kinds = {kind: np.bincount(names[mask], minlength=len(unique)) > 0 for kind, mask in masks.items()}
    localised = Localised({0: sides}, phrases, kinds, options.average_precision == "eleven_point")
    figures: dict[str, dict] = {
        kind: {"mentions": int(mask.sum()), "phrases": int(kinds[kind].sum()), "pictures": len(np.unique(places[mask]))}
        for kind, mask in masks.items()
    }
    estimate = localised.estimate()
    for (kind, name), value in estimate.items():
        figures[kind][name] = round(value, _DIGITS)
    if options.resamples:
        for (kind, name), draws in measured([localised], options.resamples, seed)[0].items():
            draws = draws[np.isfinite(draws)]
            if not len(draws):
                continue
            if name == "map":
                draws = np.clip(draws - np.median(draws) + estimate[kind, name], 0, 100)
            figures[kind].setdefault("intervals", {})[name] = [round(end, _DIGITS) for end in interval(draws)]
    return {ALL: figures.pop(_ALL_TYPES), "types": figures}


def _masks(types: np.ndarray) -> dict[str, Bool[np.ndarray, " mentions"]]:
    """The mask of the mentions of each type, in the order of the types. types: of each mention, joined by / if it has
    several."""
    combinations, places = np.unique(types, return_inverse=True)
    parts = [set(name.split("/")) for name in combinations.tolist()]
    return {name: np.array([name in part for part in parts])[places] for name in sorted(set().union(*parts))}


def _means(ranks: Ranks) -> dict[str, np.ndarray]:
    hits = {f"r@{k}": 100.0 * ranks.hits(k) for k in KS}
    return {**hits, "bound": 100.0 * (ranks.correct > 0), **{f"random_r@{k}": 100.0 * ranks.chance(k) for k in KS}}
