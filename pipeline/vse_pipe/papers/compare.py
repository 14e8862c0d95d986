"""Figures and settings of a run beside those of the row that it repeats."""

from collections.abc import Mapping

from vse_pipe.papers import catalogue
from vse_pipe.papers.catalogue import MEMBERS, Entry
from vse_pipe.project.params.schema import TrainParams
from vse_pipe.project.params.typed import Run
from vse_pipe.project.registry import RUN_FAMILIES

# Options that change the computation of a step and not its result; every run may choose them.
COMPUTING = ("precision", "chunk", "processes")


def setting_differences(entry: Entry, run: Run) -> list[str]:
    """A phrase for each difference in data set, members, their options and training values; defaults count as values.

    Nodes are compared by the data set's name alone: features, texts and noise may be called anything.
    """
    chosen = entry.settings
    if chosen is None:
        return []
    differences = [_phrase("dataset", run.dataset, chosen.dataset)] if run.dataset != chosen.dataset else []
    for key in MEMBERS:
        member, name = getattr(run, key), getattr(chosen, key)
        if member.name != name:
            differences.append(_phrase(key, member.name, name))
            continue
        params = RUN_FAMILIES[key].options(name)(**chosen.options.get(key, {}))
        differences += _values(f"{key}.", member.params.model_dump(), params.model_dump())
    # A row may have values of a later version; only known ones are compared.
    train = {name: value for name, value in chosen.train.items() if name in TrainParams.model_fields}
    expected = TrainParams(**train).model_dump(exclude=set(COMPUTING))
    return [*differences, *_values("train.", run.train.model_dump(exclude=set(COMPUTING)), expected)]


def _values(prefix: str, ours: dict, theirs: dict) -> list[str]:
    return [_phrase(prefix + key, ours.get(key), value) for key, value in theirs.items() if ours.get(key) != value]


def _phrase(address: str, ours: object, theirs: object) -> str:
    return f"{address} {ours} here, {theirs} in the row"


# A paper's direction, and the part of metrics.json, of an evaluation or a localisation.
_WAYS = {"i2t": "image_to_text", "t2i": "text_to_image", "phrase": "all"}
# The paper's word, and the key in metrics.json.
_NAMES = {
    "r1": ("R@1", "r@1"),
    "r5": ("R@5", "r@5"),
    "r10": ("R@10", "r@10"),
    "medr": ("Med r", "med_r"),
    "meanr": ("Mean r", "mean_r"),
    "map": ("mAP", "map"),
}
_PROTOCOLS = {"1k": "full", "5k": "full", "c1": "first", "c2": "folds", "phrases": "full"}
# Table 3 of two-branch networks: the overlap of a correct box, and the split.
_LOCALISED = {"threshold": 0.5, "split": "test"}


def compared_figures(marker: str, metrics: Mapping, inference: str = "nns") -> list[tuple[str, float, float, float]]:
    """(figure, published, ours, ours - published) for every printed figure in ``metrics``.

    marker: ``runs.<name>.row``, such as ``hal-aaai2020 2.12``; metrics: of an evaluation, as in metrics.json, or of a
    localisation, with the mean average precision of ``localize.average_precision``. inference: the criterion of
    ``metrics``; the paper may rank the model under it in another row. Empty if it does not. Raises UsageError for an
    unknown row.
    """
    entry = rows_of_model(marker).get(inference)
    if entry is None:
        return []
    figures = [(name, value, measured(metrics, name)) for name, value in entry.published.items()]
    return [(label(name), value, ours, round(ours - value, 4)) for name, value, ours in figures if ours is not None]


def rows_of_model(marker: str) -> dict[str, Entry]:
    """The rows that rank the model of row ``marker``, by criterion. Raises UsageError."""
    named = catalogue.located(marker)
    model = named.row.trains or named.row.id
    rows: dict[str, Entry] = {}
    for entry in catalogue.entries(named.paper):
        if model in (entry.row.id, entry.row.trains):
            rows.setdefault(entry.row.inference, entry)
    return rows


def cautions(marker: str, metrics: Mapping, run: Run | None = None) -> list[str]:
    """Sentences on differences between our figures and the row's: another protocol, assumptions, and settings of
    ``run``."""
    entry = catalogue.located(marker)
    remarks = catalogue.load(entry.paper).remarks
    sentences = [text for text in (remarks.get(entry.row.assumed, ""), entry.row.note) if text]
    protocol = _PROTOCOLS.get(entry.block.protocol)
    if "protocol" in metrics and metrics["protocol"] != protocol:
        sentences.append(
            f"measured under protocol {metrics['protocol']}, the row under {protocol} ({entry.block.protocol})"
        )
    if entry.block.protocol == "phrases" and "threshold" in metrics:
        sentences += [
            f"measured with {key} {metrics[key]}, the row with {value}"
            for key, value in _LOCALISED.items()
            if metrics[key] != value
        ]
    differences = setting_differences(entry, run) if run else []
    if differences:
        sentences.append(f"the run is not the row: {'; '.join(differences)}")
    return sentences


def measured(metrics: Mapping, name: str) -> float | None:
    """The figure ``name`` of a paper's file, such as ``i2t.medr``, in a document of metrics, or None."""
    way, _, figure = name.rpartition(".")
    if not way:
        return metrics.get(name)
    return metrics.get(_WAYS.get(way), {}).get(_NAMES[figure][1]) if figure in _NAMES else None


def label(name: str) -> str:
    """``i2t R@1`` for ``i2t.r1``."""
    way, _, figure = name.rpartition(".")
    return f"{way} {_NAMES.get(figure, (figure,))[0]}" if way else name.replace("_", "-")
