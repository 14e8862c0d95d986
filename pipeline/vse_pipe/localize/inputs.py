"""Which runs can be asked where a phrase is, told by params.yaml before anything slow is imported."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import embeddings, joins, regions
from vse_pipe.artifacts.embeddings import Side as Vectors
from vse_pipe.artifacts.images import PROPOSAL
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.core.files import require as existing
from vse_pipe.localize.ranks import BoxSide
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.ranking.embedded import Embedded


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


def read(params: Params, run: str) -> LocalizeInputs:
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
