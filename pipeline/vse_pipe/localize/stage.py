"""localize: where in its picture each phrase is, by a run that was trained on regions."""

import time

import numpy as np
import pyarrow as pa

from vse_pipe.artifacts import localisation as artefact
from vse_pipe.artifacts import regions
from vse_pipe.core.console import document, ruled, say, stdout, warn
from vse_pipe.core.devices import resolve_device
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import whole_folder
from vse_pipe.core.locks import claim
from vse_pipe.localize import figures as localize_figures
from vse_pipe.localize import inputs
from vse_pipe.localize.figures import ALL
from vse_pipe.localize.inputs import LocalizeInputs
from vse_pipe.localize.ranks import Ranks, joined, scenes
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params

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
        given = inputs.read(params, run)
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
            **localize_figures.metrics(found, ranks, texts, types, chosen, params.seed),
        }
        with whole_folder(out, paths.output_patterns(FILES)) as folder:
            artefact.write(folder, _table(given, ranks), metrics, str(given.source))
    paths.record_seconds(out, time.monotonic() - started)
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
