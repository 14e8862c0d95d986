"""inject --teacher: the pairs of another node, and the models whose similarities teach a run."""

import hashlib
import json
import shutil
import time
from pathlib import Path

from vse_pipe.artifacts import embeddings, identity, pairs
from vse_pipe.core.console import say
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import read_json, sha256, whole_folder, write_json
from vse_pipe.core.locks import claim
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking.vectors import Vectors


def teach(params: Params, name: str) -> Path:
    """Write data/inject/<dataset>/<name>/: the pairs.parquet of the node that ``noise`` names, and
    teachers.json. Raises InputError for a run that is not embedded, or not with its training split,
    IntegrityError for pairs or vectors of other images or captions than are prepared now."""
    started = time.monotonic()
    node = params.teachers[name]
    out, base = paths.injected(node.dataset, name), paths.injected(node.dataset, node.noise)
    models = params.models(node.run)
    with claim(out):
        identity.require_current(base)
        read = identity.parts_of(base)
        for run in models:
            read |= identity.parts_of(paths.embedded(run), "vectors")
        entries = read_json(base / pairs.TEACHER, list) if node.noise in params.teachers else []
        entries += [entry for run in models for entry in _entries(params, run, node.weight / len(models))]
        with whole_folder(out) as folder:
            shutil.copyfile(base / pairs.NAME, folder / pairs.NAME)
            write_json(folder / pairs.TEACHER, entries)
            inherited = identity.inputs_of(base)
            taught = hashlib.sha256(json.dumps([entries, read], sort_keys=True).encode()).hexdigest()
            identity.write(folder, inherited | read, {"pairs": sha256(folder / pairs.NAME), "teachers": taught})
    paths.record_seconds(out, time.monotonic() - started)
    say(f"inject {name}: the pairs of {node.noise}, taught by {', '.join(entry['folder'] for entry in entries)}")
    return out


def _entries(params: Params, run: str, weight: float) -> list[dict]:
    """An entry for each network of the run, which has one or two."""
    folder = paths.embedded(run)
    vectors = Vectors.of_run(params, run)
    if not vectors.has("train"):
        raise InputError(
            f"{folder}: holds no training images, whose similarities a teacher gives; name train in embed.splits and run `dvc repro embed@{run}`"
        )
    folders = [folder] if vectors.peer_sha256 is None else [folder, folder / embeddings.PEER]
    return [{"run": run, "folder": str(path), "weight": weight / len(folders)} for path in folders]
