"""Digests of what is ranked, and whether the evaluations of a run belong together and to what there is now. Works without torch."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from vse_pipe.artifacts import embeddings, evaluation, fragments, joins
from vse_pipe.core import parquet
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import sha256
from vse_pipe.core.mapped import unchanged_path
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.stages import dvc_stage

# Files of data/embed/<run>/ that scores follow from.
_SCORED = [
    f"{place}{name}"
    for place in ("", f"{embeddings.PEER}/")
    for name in (embeddings.IMAGES, embeddings.CAPTIONS, fragments.WEIGHTS)
]


def made_from(params: Params, name: str, bank: Path | None = None) -> dict[str, object]:
    """``models``, ``vectors`` and ``bank`` of what ``artifacts.evaluation`` has as ``made_from``. bank: its folder, None where it is
    the run's own embeddings."""
    node = params.ensembles.get(name)
    runs = (name,) if node is None else node.members
    told = {} if bank is None else {"bank": _vectors(bank)}
    models = {params.trained(run): _model(paths.embedded(run)) for run in runs}
    digests = [_vectors(paths.embedded(run)) for run in runs]
    vectors = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    return {"models": models, "vectors": vectors, **told}


def _model(folder: Path) -> str:
    with parquet.opened(folder / embeddings.IMAGES) as file:
        return (file.schema.metadata or {}).get(b"model_sha256", b"").decode()


def _vectors(folder: Path) -> str:
    """One digest of the files; an earlier call read the same."""
    there = [name for name in _SCORED if (folder / name).is_file()]
    return hashlib.sha256(
        "".join(f"{name} {sha256(unchanged_path(folder / name))}\n" for name in there).encode()
    ).hexdigest()


def require(params: Params, run: str, inferences: Iterable[str] | None = None) -> None:
    """Raises IntegrityError where criteria of the run were made from different vectors, or from another model than
    data/train/ or other data than data/prepare/ now holds. What is not there, and what an evaluation of an earlier version does not say, is
    not compared.

    run: also an ensemble or a transfer; inferences: those that are read, all that lie there when left out.
    """
    out = paths.evaluations(run)
    names = sorted(path.parent.name for path in out.glob(f"*/{evaluation.METRICS}"))
    mend = joins.mend(dvc_stage(params, "evaluate", run), f"vse-pipe evaluate --run {run}")
    known: dict[str, dict] = {}
    for name in names if inferences is None else [name for name in inferences if name in names]:
        metrics = evaluation.read_metrics(out / name)
        for other, told in known.items():
            if not evaluation.together(told, metrics):
                raise IntegrityError(f"{out}: {other} and {name} were evaluated on different embeddings; {mend}")
        known[name] = metrics
        for trained, digest in metrics.get(evaluation.MADE_FROM, {}).get("models", {}).items():
            joins.require_model(out / name, digest, paths.trained(trained), trained, mend)
        if run in params.evaluated():  # else nobody knows of which data set it is
            joins.require(paths.prepared(params.dataset(run)), evaluation.origin(out / name, metrics, mend))
