"""localize: where in its picture each phrase is, by a run that was trained on regions."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool

from vse_pipe.artifacts import embeddings, identity, regions
from vse_pipe.artifacts import localisation as artefact
from vse_pipe.artifacts.evaluation import KS
from vse_pipe.artifacts.images import PROPOSAL
from vse_pipe.core import console
from vse_pipe.core.console import document, ruled, say, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.core.files import whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.localize.scenes import BoxScene, BoxSide, Ranks, average_precisions, joined, scenes_of
from vse_pipe.project import paths
from vse_pipe.project.params.schema import LocalizeParams
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.intervals import Figures, FoldDirection, interval, measured
from vse_pipe.ranking.vectors import Vectors

_FROM_PHRASES = ("phrase_id", "caption_id", "image_id", "start", "text", "type", *regions.BOX_COLUMNS)
ALL = "all"
# The key of all mentions beside those of types. No type has it: it separates types.
_ALL_TYPES = "/"
_DIGITS = 6
_COLUMNS = {"r@1": "R@1", "r@5": "R@5", "r@10": "R@10", "bound": "bound", "map": "mAP", "random_r@1": "random R@1"}


def localize(params: Params, run: str, device: str = "auto") -> dict:
    """Write data/localize/<run>/ and return what its metrics.json holds.

    Each mention of a phrase asks for its box among the proposals of its picture, ranked by the
    run's similarity (Wang et al., CVPR 2016, section 3.3). Raises as ``read_inputs``, and
    InputError for scores that are not finite."""
    started = time.monotonic()
    out, options, resolved = paths.localized(run), params.localize, resolve_device(device)
    with claim(out):
        embedded, spoken, proposed = read_inputs(params, run)
        mentions, proposals = spoken.table, proposed.table
        read = _identities(paths.prepared(params.runs[run].dataset), paths.embedded(run), options.split)
        if embedded.peer_sha256:
            warn(f"localize {run}: of the run's two networks the first alone is asked")
        pictures = list(scenes_of(spoken, proposed, embedded.similarity(resolved), resolved))
        if not all(scene.scores.isfinite().all() for scene in pictures):
            raise InputError(f"{paths.embedded(run)}: the model's scores are not finite; train the run again")
        ranks = joined([Ranks.from_scene(scene, options.threshold) for scene in pictures])
        metrics = {
            "run": run,
            "similarity": embedded.compared_by,
            **options.model_dump(),
            "candidates": round(float(ranks.candidates.mean()), 1),
            "proposals": regions.recall(proposals),
            "left_out": embedded.about(options.split).get("left_out", {}).get("captions", 0),
            **localised_figures(pictures, ranks, mentions, options, params.seed),
        }
        with whole_folder(out) as folder:
            table = _table(mentions, proposals, ranks)
            artefact.write(folder, table, metrics, str(regions.source(proposals)))
            identity.write(folder, read, {})
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
        return document(metrics)
    table = ruled()
    table.add_column(f"run {metrics['run']}, IoU >= {metrics['threshold']:g}")
    for title in ("mentions", *_COLUMNS.values()):
        table.add_column(title, justify="right", no_wrap=True)
    for name, figures in [(ALL, metrics[ALL]), *metrics["types"].items()]:
        table.add_row(name, f"{figures['mentions']:,}", *(f"{figures[key]:.1f}" for key in _COLUMNS))
    console.show(table)


def check_localizable(params: Params, run: str) -> None:
    """Raises UsageError for a run on fragments, or trained on a data set without regions."""
    node = params.runs[run]
    similarity, dataset = node.similarity.name, node.dataset
    if SIMILARITIES.traits(similarity).fragments:
        raise UsageError(f"run '{run}' compares fragments of pictures ({similarity}); a box is one vector")
    if params.datasets[dataset].format.name != "regions" and not (paths.prepared(dataset) / regions.NAME).exists():
        raise UsageError(
            f"localize {run}: data set '{dataset}' has no regions; train the run on a data set of `format: regions`"
        )


def read_inputs(params: Params, run: str) -> tuple[Vectors, BoxSide, BoxSide]:
    """The vectors of the run, the mentions, and the proposals of their pictures.

    Raises UsageError as ``check_localizable``, InputError for an empty split, IntegrityError for
    embeddings of other regions or of another model than the present ones."""
    check_localizable(params, run)
    dataset, split = params.runs[run].dataset, params.localize.split
    prepared, folder = paths.prepared(dataset), paths.embedded(run)
    embedded = Vectors.of_run(params, run)
    embedded.require_current((PROPOSAL, split))
    identity.require_current(prepared)
    images, captions = embedded.images, embedded.captions
    assert isinstance(images, embeddings.Side)
    assert isinstance(captions, embeddings.Side)
    proposed, spoken = images.split(PROPOSAL), captions.split(split)
    mentions = _rows(regions.read_phrases(prepared), "phrase_id", spoken.ids, folder)
    candidates = _rows(regions.read(prepared), "image_id", proposed.ids, folder)
    in_split = np.isin(candidates["source_id"].to_numpy(), mentions["image_id"].to_numpy())
    if not in_split.any():
        raise InputError(
            f"{folder}: no picture of split '{split}' has a phrase and a proposal; see the splits that "
            f"data set '{dataset}' proposes boxes for, and embed.splits"
        )
    candidates, vectors = candidates.filter(pa.array(in_split)), proposed.vectors[in_split]
    boxes = BoxSide.from_table(candidates, "source_id", vectors)
    return embedded, BoxSide.from_table(mentions, "image_id", spoken.vectors), boxes


def _identities(prepared: Path, folder: Path, split: str) -> identity.Inputs:
    """Of all that a localisation is made from. folder: of the embeddings."""
    read = identity.inputs_of(folder, (PROPOSAL, split)) | identity.parts_of(folder)
    texts = identity.parts_of(prepared, "phrases", "regions")[str(prepared)]
    read[str(prepared)] = read.get(str(prepared), {}) | texts
    return read | identity.inputs_of(prepared, (split,))


def _rows(table: pa.Table, key: str, ids: np.ndarray, folder: Path) -> pa.Table:
    places = pc.index_in(pa.array(ids), value_set=table[key].combine_chunks())
    if places.null_count:
        raise IntegrityError(f"{folder}: embeds other {key} than the data set; {identity.made_anew(folder)}")
    return table.take(places)


def _table(mentions: pa.Table, proposals: pa.Table, ranks: Ranks) -> pa.Table:
    columns = {name: mentions[name] for name in _FROM_PHRASES}
    absent = ranks.best < 0
    # ``read_inputs`` refuses a split without any proposal, so row 0 exists.
    best = proposals.take(pa.array(np.maximum(ranks.best, 0)))
    boxes = {name: best[column] for name, column in zip(artefact.FOUND, regions.BOX_COLUMNS, strict=True)}
    for name, values in {"region_id": best["image_id"], **boxes}.items():
        columns[name] = pa.array(values.to_numpy(), mask=absent)
    columns |= {name: pa.array(getattr(ranks, name)) for name in ("candidates", "correct", "bound")}
    columns |= {name: pa.array(getattr(ranks, name), mask=absent) for name in ("score", "iou")}
    return pa.table({**columns, "rank": pa.array(ranks.rank, mask=np.isnan(ranks.rank))})


def localised_figures(
    scenes: Sequence[BoxScene], ranks: Ranks, mentions: pa.Table, options: LocalizeParams, seed: int
) -> dict:
    """{"all": figures, "types": {type: figures}}, in percent: recall, floor, bound, mAP.

    A mention counts under each of its types, a unique phrase under each type that one of its
    mentions has. Intervals draw pictures with replacement; mAP has none. A draw without a mention
    of a type is left out for that type; a type that no draw has gets no intervals."""
    columns = (regions.phrase_key(mentions), mentions["type"])
    texts, types = (column.to_numpy(zero_copy_only=False) for column in columns)
    names = np.unique(texts, return_inverse=True)[1]
    masks = {_ALL_TYPES: np.ones(len(types), bool), **_masks(types)}
    places = np.repeat([scene.place for scene in scenes], [len(scene.truth) for scene in scenes])
    images, none = np.arange(len(scenes)), np.zeros(0, np.int64)
    sides = {
        kind: FoldDirection(images, places[mask], means, None, none, none, 0)
        for kind, mask in masks.items()
        for means in [{name: values[mask] for name, values in _means(ranks).items()}]
    }
    precisions = average_precisions(scenes, names, options)
    figures: dict[str, dict] = {}
    for kind, mask in masks.items():
        phrases = np.unique(names[mask])
        figures[kind] = {
            "mentions": int(mask.sum()),
            "phrases": len(phrases),
            "pictures": len(np.unique(places[mask])),
            "map": round(float(precisions[phrases].mean()), _DIGITS),
        }
    localised = Figures({0: sides})
    for (kind, name), value in localised.estimate().items():
        figures[kind][name] = round(value, _DIGITS)
    if options.resamples:
        for (kind, name), draws in measured([localised], options.resamples, seed)[0].items():
            draws = draws[np.isfinite(draws)]
            if len(draws):
                ends = [round(end, _DIGITS) for end in interval(draws)]
                figures[kind].setdefault("intervals", {})[name] = ends
    return {ALL: figures.pop(_ALL_TYPES), "types": figures}


def _masks(types: np.ndarray) -> dict[str, Bool[np.ndarray, " mentions"]]:
    """The mask of the mentions of each type, in order. types: of each mention, joined by /."""
    combinations, places = np.unique(types, return_inverse=True)
    parts = [set(name.split("/")) for name in combinations.tolist()]
    return {name: np.array([name in part for part in parts])[places] for name in sorted(set().union(*parts))}


def _means(ranks: Ranks) -> dict[str, np.ndarray]:
    hits = {f"r@{k}": 100.0 * (ranks.rank <= k) for k in KS}
    return {**hits, "bound": 100.0 * (ranks.correct > 0), **{f"random_r@{k}": 100.0 * ranks.chance(k) for k in KS}}
