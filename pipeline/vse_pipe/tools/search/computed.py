"""The correction of a criterion, computed from its bank: what needs torch of ``correction``."""

import time
from datetime import UTC, datetime
from pathlib import Path

from vse_pipe.core.console import say
from vse_pipe.core.errors import InputError
from vse_pipe.core.strict import Strict
from vse_pipe.evaluate.stage import warn_of_residual
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.engine import criteria
from vse_pipe.ranking.engine.bank_source import BankSource
from vse_pipe.ranking.engine.embedded import Embedded
from vse_pipe.ranking.engine.scores import Scores
from vse_pipe.ranking.engine.split import Split
from vse_pipe.tools.search import stored
from vse_pipe.tools.search.gallery import SPLITS
from vse_pipe.tools.search.network import Network
from vse_pipe.tools.search.together import Together


def computed(
    params: Params, name: str, options: Strict, network: Network | Together, direction: str, bank: str
) -> stored.Stored:
    """``bias`` of the items of one direction, and ``about``. name, options: of the criterion. Raises as banks do."""
    criterion = criteria.parse(name, {**params.inference, name: options})
    started = time.monotonic()
    memory, similarity, split = params.evaluate.memory, network.similarity(), split_of(network)
    source = BankSource(bank, _other(network, bank))
    scores = Scores.of(split.images, split.captions, similarity, memory=memory)
    if direction == "text_to_image":
        scores = scores.transposed()
    queries = source.bank(split, scores, direction, similarity, memory)
    rows, columns = queries.queries.shape
    if not rows:
        of = paths.embedded(params.trained(network.galleries[0].run))
        raise InputError(
            f"{criterion.name} corrects by queries, and split '{bank}' has no captions; name a folder of embeddings by the same "
            f"model that has some, such as -S evaluate.bank={of}"
        )
    say(f"{criterion.name}: computing the correction of {columns:,} items by {rows:,} queries of {bank}, once")
    found = criterion.item_bias(queries)
    assert found is not None
    warn_of_residual(criterion, direction, found.notes)
    about = {
        "bank": bank,
        "queries": rows,
        "items": columns,
        "scale": found.scale,
        "computed": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - started, 3),
        "notes": dict(found.notes),
    }
    return stored.Stored({"bias": found.bias.double().cpu().numpy()}, about)


def split_of(network: Network | Together) -> Split:
    """What a network has embedded of its split."""
    ids = network.ids
    return Split(ids.image_ids, ids.caption_ids, ids.caption_images, network.images(), network.captions())


def _other(network: Network | Together, bank: str) -> Split | None:
    """The bank's own images and captions; None where they are those that are searched. Raises InputError for a folder of
    another model's, or beside an ensemble."""
    gallery = network.galleries[0]
    if bank == gallery.split:
        return None
    if bank in SPLITS:
        return split_of(network.of(bank))
    if isinstance(network, Together):
        raise InputError("several networks take their bank from their own runs: evaluate.bank test, train or val")
    other = Embedded.read(Path(bank))
    Embedded.read(gallery.folder, gallery.run).must_match(other)
    return other.whole(network.device)
