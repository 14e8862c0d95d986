"""localize: where in its picture each phrase is, by a run that was trained on regions."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int

from vse_pipe.artifacts import embeddings, joins, regions
from vse_pipe.artifacts import localisation as artefact
from vse_pipe.artifacts.embeddings import Side as Vectors
from vse_pipe.artifacts.evaluation import KS
from vse_pipe.artifacts.images import PROPOSAL
from vse_pipe.core.console import document, ruled, say, stdout, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.core.files import require as existing
from vse_pipe.core.files import whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.localize.ranks import BoxScene, BoxSide, Classes, Ranks, classes, joined, scenes
from vse_pipe.project import paths, repetitions, step
from vse_pipe.project.params.schema import LocalizeParams
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.embedded import Embedded
from vse_pipe.ranking.intervals import Figures, FoldDirection, Sample, interval, measured


def check_localizable(params: Params, run: str) -> None:
    """Raises UsageError for a run that compares fragments, or was trained on pictures that are no regions."""
    node = params.runs[run]
    similarity, dataset = node.similarity.name, node.dataset
    if SIMILARITIES.traits(similarity).fragments:
        raise UsageError(f"run '{run}' compares fragments of pictures ({similarity}); a box is one vector")
    made = params.datasets[dataset].format.name == "regions"
    if not made and not (paths.prepared(dataset) / regions.NAME).exists():
        raise UsageError(
            f"localize {run}: data set '{dataset}' has no regions; train the run on a data set of `format: regions`"
        )


@dataclass(frozen=True)
class LocalizeInputs:
    """source: the folder of the data set that has the whole pictures; recall: of the proposals, as ``regions.recall`` has it;
    source_data: as ``regions.source_data`` has it."""

    embedded: Embedded
    mentions: BoxSide
    proposals: BoxSide
    source: Path
    recall: dict[str, dict]
    source_data: dict[str, str]


def read_inputs(params: Params, run: str) -> LocalizeInputs:
    """Raises UsageError as ``localizable.check``, InputError where the embeddings are of fragments or a split has none,
    IntegrityError where they are of other regions or of another model than there are now."""
    check_localizable(params, run)
    dataset, split = params.runs[run].dataset, params.localize.split
    prepared, folder = paths.prepared(dataset), paths.embedded(run)
    existing(prepared / regions.NAME, f"vse-pipe prepare --dataset {dataset}")  # before vectors that would need it
    embedded = Embedded.of_run(params, run)
    with joins.compared(prepared, embedded.origin(PROPOSAL, split)):
        boxes, spoken = regions.read(prepared), regions.read_phrases(prepared)
    seen, said = embedded.images, embedded.captions
    if not (isinstance(seen, Vectors) and isinstance(said, Vectors)):
        raise InputError(
            f"localize {run}: '{embedded.compared_by}' compares fragments of pictures, a proposal is one vector; use a "
            "run whose similarity is cosine or order"
        )
    proposed, asked = seen.split(PROPOSAL), said.split(split)
    for side, name, file in ((proposed, PROPOSAL, embeddings.IMAGES), (asked, split, embeddings.CAPTIONS)):
        if not len(side.ids):
            raise InputError(
                f"{folder / file}: nothing of split '{name}'; data set '{dataset}' has none there, or embed.splits leaves "
                "it out"
            )
    mentions = _rows(spoken, "phrase_id", asked.ids, run)
    candidates = _rows(boxes, "image_id", proposed.ids, run)
    here = np.isin(candidates["source_id"].to_numpy(), mentions["image_id"].to_numpy())
    if not here.any():
        raise InputError(
            f"{prepared}: no picture of split '{split}' has a proposal; add {split} to the splits that data set '{dataset}' proposes boxes for"
        )
    candidates = candidates.filter(pa.array(here))
    return LocalizeInputs(
        embedded,
        BoxSide.of(mentions, "image_id", regions.boxes(mentions), asked.vectors),
        BoxSide.of(candidates, "source_id", regions.boxes(candidates), proposed.vectors[here]),
        regions.source(boxes),
        regions.recall(boxes),
        regions.source_data(boxes),
    )


def _rows(table: pa.Table, key: str, ids: np.ndarray, run: str) -> pa.Table:
    """The rows of ``table`` with these ids, in their order."""
    places = pc.index_in(pa.array(ids), value_set=table[key].combine_chunks())
    if places.null_count:
        strange = ids[places.is_null().to_numpy(zero_copy_only=False)][0]
        raise IntegrityError(
            f"{paths.embedded(run)}: embeds {key} {strange}, which the data set does not have any more; run "
            f"`vse-pipe embed --run {run}` again"
        )
    return table.take(places)


_FROM_PHRASES = ("phrase_id", "caption_id", "image_id", "start", "text", "type", *regions.BOX_COLUMNS)

FILES = artefact.FILES


def localize(params: Params, run: str, device: str = "auto") -> dict:
    """Write data/localize/<run>/ and return what its metrics.json holds.

    Every mention of a phrase asks for its box among the proposals of its picture, ranked by the run's similarity (Wang
    et al., CVPR 2016, section 3.3). Raises as ``inputs.read``, and InputError for scores that are not finite.
    """
    started = time.monotonic()
    out, chosen, where = paths.localized(run), params.localize, resolve_device(device)
    with claim(out):
        given = read_inputs(params, run)
        about = given.embedded.images.about
        if given.embedded.peer_sha256:
            warn(f"localize {run}: of the run's two networks the first alone is asked")
        found = list(scenes(given.mentions, given.proposals, given.embedded.similarity(where), where))
        if not all(scene.scores.isfinite().all() for scene in found):
            raise InputError(f"{paths.embedded(run)}: the model's scores are not finite; train the run again")
        ranks = joined([Ranks.of(scene, chosen.threshold) for scene in found])
        told = given.mentions.table
        texts, types = (column.to_numpy(zero_copy_only=False) for column in (regions.phrase_key(told), told["type"]))
        metrics = {
            "run": run,
            "model_sha256": about.get("model_sha256"),
            "source_data": given.source_data,
            "data": artefact.data(paths.prepared(params.runs[run].dataset)),
            "similarity": given.embedded.compared_by,
            **chosen.model_dump(),
            "candidates": round(float(ranks.candidates.mean()), 1),
            "proposals": given.recall,
            "left_out": given.embedded.left_out(chosen.split).get("captions", 0),
            **localised_figures(found, ranks, texts, types, chosen, params.seed),
        }
        with whole_folder(out, repetitions.patterns(FILES)) as folder:
            artefact.write(folder, _table(given, ranks), metrics, str(given.source))
    step.record(out, time.monotonic() - started)
    whole = metrics["all"]
    say(
        f"localize {run}: {whole['mentions']} mentions, R@1 {whole['r@1']:.2f} (random {whole['random_r@1']:.2f}, bound "
        f"{whole['bound']:.2f}), mAP {whole['map']:.2f}, {out}"
    )
    return metrics


def _table(given: LocalizeInputs, ranks: Ranks) -> pa.Table:
    columns = {name: given.mentions.table[name] for name in _FROM_PHRASES}
    nowhere = ranks.best < 0
    # Without any proposal nothing comes this far, so that there is a row to take.
    best = given.proposals.table.take(pa.array(np.maximum(ranks.best, 0)))
    found = dict(zip(artefact.FOUND, regions.BOX_COLUMNS, strict=True))
    for name, values in {"region_id": best["image_id"], **{name: best[own] for name, own in found.items()}}.items():
        columns[name] = pa.array(values.to_numpy(), mask=nowhere)
    columns |= {name: pa.array(getattr(ranks, name)) for name in ("candidates", "correct", "bound")}
    columns |= {name: pa.array(getattr(ranks, name), mask=nowhere) for name in ("score", "iou")}
    return pa.table({**columns, "rank": pa.array(ranks.rank, mask=np.isnan(ranks.rank))})


_COLUMNS = {"r@1": "R@1", "r@5": "R@5", "r@10": "R@10", "bound": "bound", "map": "mAP", "random_r@1": "random R@1"}


def show_localisation(metrics: dict, as_json: bool) -> None:
    """A row for all mentions and for each type."""
    if as_json:
        document(metrics)
        return
    table = ruled()
    table.add_column(f"run {metrics['run']}, IoU >= {metrics['threshold']:g}", overflow="fold")
    for title in ("mentions", *_COLUMNS.values()):
        table.add_column(title, justify="right", no_wrap=True)
    for name, figures in [(ALL, metrics[ALL]), *metrics["types"].items()]:
        table.add_row(name, f"{figures['mentions']:,}", *(f"{figures[key]:.1f}" for key in _COLUMNS))
    stdout.print(table)


ALL = "all"
# For all mentions among the types: no type is called so, since this joins them.
_WHOLE = "/"
_NOTHING = np.zeros(0, np.int64)
_DIGITS = 6


@dataclass(frozen=True)
class Localised(Figures):
    """sides: of fold 0, by type and for all: a query a mention. phrases: every unique phrase, of which ``kinds`` says by type
    which belong to it."""

    phrases: Classes
    kinds: dict[str, Bool[np.ndarray, " classes"]]
    eleven: bool

    def measure(self, weights: dict[int, Int[np.ndarray, "draws images"]]) -> Sample:
        found = super().measure(weights)
        precision = self.phrases.measure(weights[0], self.eleven)
        for kind, own in self.kinds.items():
            there = np.isfinite(precision[:, own])
            with np.errstate(invalid="ignore"):
                found[(kind, "map")] = np.where(there, precision[:, own], 0).sum(axis=1) / there.sum(axis=1)
        return found


def localised_figures(
    scenes: Sequence[BoxScene], ranks: Ranks, texts: np.ndarray, types: np.ndarray, chosen: LocalizeParams, seed: int
) -> dict:
    """{"all": figures, "types": {type: figures}}, in percent. texts, types: of each mention.

    A mention counts under each of its types, a unique phrase under each type that a mention of it has. Intervals draw
    pictures with replacement; draws without a mention of a type say nothing of that type, which has
    no intervals where none has one. Of mAP the draws are moved to have their median at the estimate: a draw holds fewer different pictures of a phrase, among which
    it is found more easily.
    """
    unique, names = np.unique(texts, return_inverse=True)
    masks = {_WHOLE: np.ones(len(texts), bool), **_masks(types)}
    places = np.repeat([scene.place for scene in scenes], [len(scene.truth) for scene in scenes])
    images = np.arange(len(scenes))
    sides = {
        kind: FoldDirection(images, places[mask], _means(ranks.take(mask)), None, _NOTHING, _NOTHING, 0)
        for kind, mask in masks.items()
    }
    phrases = classes(scenes, names, len(unique), chosen.threshold, chosen.nms)
    spoken = {kind: np.bincount(names[mask], minlength=len(unique)) > 0 for kind, mask in masks.items()}
    localised = Localised({0: sides}, phrases, spoken, chosen.average_precision == "eleven_point")
    found: dict[str, dict] = {
        kind: {
            "mentions": int(mask.sum()),
            "phrases": int(spoken[kind].sum()),
            "pictures": len(np.unique(places[mask])),
        }
        for kind, mask in masks.items()
    }
    estimate = localised.estimate()
    for (kind, name), value in estimate.items():
        found[kind][name] = round(value, _DIGITS)
    if chosen.resamples:
        for (kind, name), draws in measured([localised], chosen.resamples, seed)[0].items():
            draws = draws[np.isfinite(draws)]
            if not len(draws):
                continue
            if name == "map":
                draws = np.clip(draws - np.median(draws) + estimate[kind, name], 0, 100)
            limits = [round(limit, _DIGITS) for limit in interval(draws)]
            found[kind].setdefault("intervals", {})[name] = limits
    return {ALL: found.pop(_WHOLE), "types": found}


def _masks(types: np.ndarray) -> dict[str, Bool[np.ndarray, " mentions"]]:
    """By type, in order: which mentions are of it. types: of each mention; several are joined by /."""
    joined, which = np.unique(types, return_inverse=True)
    parts = [set(name.split("/")) for name in joined.tolist()]
    return {name: np.array([name in one for one in parts])[which] for name in sorted(set().union(*parts))}


def _means(ranks: Ranks) -> dict[str, np.ndarray]:
    """What each mention adds to a figure, in percent."""
    found = {f"r@{k}": 100.0 * ranks.hits(k) for k in KS}
    return {**found, "bound": 100.0 * (ranks.correct > 0), **{f"random_r@{k}": 100.0 * ranks.chance(k) for k in KS}}
