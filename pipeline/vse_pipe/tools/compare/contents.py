"""Evaluations of the same pictures and captions under other ids, as when training pairs were taken out of the table in between."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import captions, images, joins
from vse_pipe.core.console import say
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.comparison import Compared, Method
from vse_pipe.tools.compare.places import Place


@dataclass(frozen=True)
class Contents:
    """What the ids of a split stand for. images, captions: ids by content; the index has the digest of an image, its box and
    its captions, or that of the image and the text, and a running number among those that are alike."""

    images: pd.Series
    captions: pd.Series


def aligned(a: Place, b: Place, sides: tuple[Method, Method], params: Params | None) -> Method:
    """B with the ids that A has for the same pictures and captions; B as it is where both ranked the same ids already.

    Raises InputError where the pictures or captions differ, IntegrityError where data/prepare no longer holds what was ranked. Folders of an
    evaluation are left as they are: which data set they belong to is not known.
    """
    of_a, of_b = sides
    data = [side.metrics.get("data") for side in sides]
    if params is None or a.single or b.single or None in data or data[0] == data[1]:
        return of_b
    if of_a.metrics.get("split") != of_b.metrics.get("split"):
        return of_b
    first, second = (_contents(place, side, params) for place, side in zip((a, b), sides, strict=True))
    if first is None or second is None:
        return of_b
    of_images = _ids(first.images, second.images, a.name, b.name, "images with their captions")
    of_captions = _ids(first.captions, second.captions, a.name, b.name, "captions")
    say(f"compare: {a.name} and {b.name} ranked the same pictures and captions under other ids")
    models = {seed: _renamed(model, of_images, of_captions, str(data[0])) for seed, model in of_b.models.items()}
    return Method(of_b.name, models)


def _contents(place: Place, side: Method, params: Params) -> Contents | None:
    """None where the data set is not known, or not there."""
    run = place.name.rpartition(":")[2]
    models = params.models(run)
    if models[0] not in params.evaluated():
        return None
    folder, split = paths.prepared(params.dataset(models[0])), side.metrics["split"]
    try:
        with place.files.local(folder, (images.NAME, captions.NAME)) as local:
            pictures, texts = images.read(local), captions.read(local)
    except (InputError, MissingResource):
        return None
    if joins.by_split(pictures, texts).get(split) != side.metrics["data"]:
        raise IntegrityError(
            f"{place.name} was measured on other data than {place.files.shown(folder)} holds now; run `dvc repro`, or "
            f"`vse-pipe embed --run {run}` and `vse-pipe evaluate --run {run}` again"
        )
    return _by_content(*(table.filter(pc.equal(table["split"], split)) for table in (pictures, texts)))


def _by_content(pictures: pa.Table, texts: pa.Table) -> Contents:
    boxes = pc.struct_field(pc.extract_regex(pictures["file"], joins.BOX), "box").to_pandas().fillna("")
    ids = pictures["image_id"].to_numpy()
    described = (
        texts.select(["image_id", "text"]).to_pandas().sort_values("text").groupby("image_id")["text"].agg(tuple)
    )
    said = described.reindex(ids).reset_index(drop=True).astype(str)
    known = _numbered([pictures["sha256"].to_pandas(), boxes, said], ids)
    owners = pd.Series(known.index.to_flat_index(), index=known.to_numpy())
    of_captions = owners.reindex(texts["image_id"].to_numpy()).reset_index(drop=True)
    return Contents(known, _numbered([of_captions, texts["text"].to_pandas()], texts["caption_id"].to_numpy()))


def _numbered(parts: list[pd.Series], ids: np.ndarray) -> pd.Series:
    """Ids by these parts and a running number among the rows whose parts are alike."""
    frame = pd.DataFrame(dict(enumerate(parts)))
    number = frame.groupby(list(frame.columns), sort=False).cumcount()
    return pd.Series(ids, index=pd.MultiIndex.from_arrays([*(frame[name] for name in frame), number]))


def _ids(a: pd.Series, b: pd.Series, name_a: str, name_b: str, what: str) -> pd.Series:
    """The ids of A by those of B. Raises InputError where one has contents that the other lacks."""
    apart = len(a.index.symmetric_difference(b.index, sort=False))
    if apart:
        raise InputError(
            f"{name_a} and {name_b} cannot be compared: measured on other data, {len(a)} and {len(b)} {what}, of which "
            f"{apart} are on one side only"
        )
    return pd.Series(a.reindex(b.index).to_numpy(), index=b.to_numpy())


def _renamed(model: Compared, of_images: pd.Series, of_captions: pd.Series, data: str) -> Compared:
    def ids(held: np.ndarray, is_image: np.ndarray) -> pa.Array:
        made = np.empty(len(held), np.int64)
        for rows, known in ((is_image, of_images), (~is_image, of_captions)):
            renamed = known.reindex(held[rows])
            if renamed.isna().any():
                raise InputError(
                    f"{model.name}: the evaluation names ids that its data set does not have; evaluate again"
                )
            made[rows] = renamed.to_numpy()
        return pa.array(made)

    ranks, occurrence = model.ranks, model.occurrence
    from_images = pc.equal(ranks["direction"], "image_to_text").to_numpy()
    lists = ranks["top"].combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    flat, rows = (part.to_numpy() for part in (pc.list_flatten(lists), pc.list_parent_indices(lists)))
    ends = np.cumsum([0, *pc.list_value_length(lists).to_numpy()]).astype(np.int32)
    renamed = {
        "query_id": ids(ranks["query_id"].to_numpy(), from_images),
        "image_id": ids(ranks["image_id"].to_numpy(), np.full(len(ranks), True)),
        "top": pa.ListArray.from_arrays(pa.array(ends), ids(flat, ~from_images[rows]), type=lists.type),
    }
    for name, column in renamed.items():
        ranks = ranks.set_column(ranks.schema.get_field_index(name), name, column)
    items = ids(occurrence["item_id"].to_numpy(), pc.equal(occurrence["direction"], "text_to_image").to_numpy())
    occurrence = occurrence.set_column(occurrence.schema.get_field_index("item_id"), "item_id", items)
    return replace(model, metrics={**model.metrics, "data": data}, ranks=ranks, occurrence=occurrence)
