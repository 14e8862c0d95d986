"""What differs between a run and the settings of the row it repeats."""

from vse_pipe.papers.catalogue import Entry
from vse_pipe.papers.schema import MEMBERS
from vse_pipe.project.params.training import TrainParams
from vse_pipe.project.params.typed import Run
from vse_pipe.project.registry import RUN_FAMILIES

# How a step is computed, not what: every run may have its own.
COMPUTING = ("precision", "chunk", "processes")


def differences(entry: Entry, run: Run) -> list[str]:
    """A phrase for each difference in data set, members, their options and training values; defaults count as values.

    Nodes are compared by the data set's name alone: features, texts and noise may be called anything.
    """
    chosen = entry.settings
    if chosen is None:
        return []
    found = [_phrase("dataset", run.dataset, chosen.dataset)] if run.dataset != chosen.dataset else []
    for key in MEMBERS:
        member, wanted = getattr(run, key), getattr(chosen, key)
        if member.name != wanted:
            found.append(_phrase(key, member.name, wanted))
            continue
        params = RUN_FAMILIES[key].options(wanted)(**chosen.options.get(key, {}))
        found += _values(f"{key}.", member.params.model_dump(), params.model_dump())
    # A row may name values that a later version has; those that this one has are compared.
    train = {name: value for name, value in chosen.train.items() if name in TrainParams.model_fields}
    expected = TrainParams(**train).model_dump(exclude=set(COMPUTING))
    return [*found, *_values("train.", run.train.model_dump(exclude=set(COMPUTING)), expected)]


def _values(prefix: str, ours: dict, theirs: dict) -> list[str]:
    return [_phrase(prefix + key, ours.get(key), value) for key, value in theirs.items() if ours.get(key) != value]


def _phrase(address: str, ours: object, theirs: object) -> str:
    return f"{address} {ours} here, {theirs} in the row"
