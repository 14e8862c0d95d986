"""pack: write a run's model as a folder for a model hub and for other projects."""

import shutil
from pathlib import Path

from vse_pipe.artifacts import features, model_files, texts
from vse_pipe.core import locks
from vse_pipe.core.console import warn
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import read_json, sha256, whole_folder, write_json, write_text
from vse_pipe.core.strict import WEIGHT_FILES
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SCHEMES
from vse_pipe.project.stages import declarations
from vse_pipe.tools.hub import card
from vse_pipe.tools.hub.card import (
    CARD,
    FEATURES,
    OF_FEATURES,
    OF_TEXTS,
    PATTERNS,
    TEXTS,
    WEIGHTS,
    weights_in,
    with_weights,
)
from vse_pipe.train import restore

_ENCODES = {FEATURES: "photos", TEXTS: "captions"}


def pack(params: Params, run: str, out: Path, licence: str | None) -> dict:
    """Write ``out`` from data/train/<run>/ and from the networks of its features and texts. Returns digests by file.

    licence: of the weights, as hubs name it; None if unknown. Raises InputError if the run is not trained, UsageError if params.yaml
    describes another model, IntegrityError if the model was trained on other features, texts or pairs than the present ones;
    PipelineError if ``out`` holds foreign files.
    """
    node, trained = params.runs[run], paths.trained(run)
    models = restore.load_all(trained)
    if SCHEMES.traits(node.scheme.name).trains:  # otherwise its width is that of its features
        restore.require_same_members(trained, models[0][1].config, node, run)
    figures = card.figures(params, run)
    # Problems that `vse-pipe check` reports, such as figures of another model.
    nodes = [declarations()[group].node(params, run) for group in ("train", "embed", "evaluate")[: 3 if figures else 1]]
    if wrong := [problem.line for stage in nodes for problem in stage.problems(params) if problem.status]:
        raise IntegrityError("\n".join(wrong))
    if not figures:
        warn(f"pack {run}: the run has not been evaluated; its card has no figures")
    sides = {TEXTS: (node.texts, OF_TEXTS), FEATURES: (node.features, OF_FEATURES)}
    with locks.claim(out), whole_folder(out, PATTERNS) as folder:
        for place in ["", model_files.PEER][: len(models)]:
            _copy(trained / place, folder / place, model_files.FILES)
        _copy(trained, folder, (model_files.HISTORY,))
        for name, (source, files) in sides.items():
            _copy(paths.extracted(node.dataset, source), folder / name, files)
        places = _copy_weights(run, folder, not models[0][0].tests_on_pixels)
        digests = {
            path.relative_to(folder).as_posix(): sha256(path) for path in sorted(folder.rglob("*")) if path.is_file()
        }
        parameters = sum(weight.numel() for weight in models[0][0].parameters())
        meta = read_json(paths.extracted(node.dataset, node.features) / features.META)
        about = card.About(params, run, licence, digests, models[0][1].config, meta, parameters, figures, places)
        write_text(folder / CARD, card.text(about))
    return digests


def _copy_weights(run: str, folder: Path, of_features: bool) -> dict[str, str]:
    """Copy the user's weights files into the pack and write their places into its meta.json. Returns places by path.

    of_features: does the model need the network of its features? A model that reads pixels contains it.
    """
    places: dict[str, str] = {}
    for name, meta, key in ((FEATURES, features.META, "params"), (TEXTS, texts.META, "options")):
        about = read_json(folder / name / meta)
        for value in weights_in(about.get(key, {})):
            source = Path(value).expanduser()
            is_published = not value.endswith(WEIGHT_FILES)
            if is_published or value in places or (name == FEATURES and not of_features):
                continue
            if not source.is_file():
                warn(f"pack {run}: {source} is not there; without it the pack encodes no new {_ENCODES[name]}")
                continue
            digest = sha256(source)
            nested = [entry for entry in about.values() if isinstance(entry, dict)]
            recorded = {entry["file"]: entry["sha256"] for entry in nested if entry.get("origin") == "file"}
            if source.name in recorded and digest != recorded[source.name]:
                raise IntegrityError(
                    f"{source}: other weights than {name} were made with (sha256 {digest[:12]}, not "
                    f"{recorded[source.name][:12]}); put the right file there, or extract and train again"
                )
            places[value] = f"{WEIGHTS}/{digest[:8]}-{source.name}"
            (folder / WEIGHTS).mkdir(exist_ok=True)
            shutil.copyfile(source, folder / places[value])
        if places:
            write_json(folder / name / meta, {**about, key: with_weights(about.get(key, {}), places)})
    return places


def _copy(source: Path, folder: Path, files: tuple[str, ...]) -> None:
    """Copy those of ``files`` that exist: text features of kind tokens have only a vocabulary."""
    folder.mkdir(exist_ok=True)
    for name in files:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
