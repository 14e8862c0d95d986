"""pack: a run's model as a folder that a model hub takes, and that other projects can use."""

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
    """Write ``out`` from data/train/<run>/ and what its features and texts were made with. Returns digests by file.

    licence: of the weights, as hubs name it; None where nobody says. Raises InputError where the run is not trained,
    UsageError where params.yaml says another model than it is, IntegrityError where it was trained on other features, texts or
    pairs than there are; PipelineError where ``out`` holds what nobody here wrote.
    """
    node, trained = params.runs[run], paths.trained(run)
    models = restore.load_all(trained)
    if SCHEMES.traits(node.scheme.name).trains:  # else it is as wide as its features
        restore.require_same_members(trained, models[0][1].config, node, run)
    figures = card.figures(params, run)
    _require_in_order(params, run, ("train", "embed", "evaluate") if figures else ("train",))
    if not figures:
        warn(f"pack {run}: the run has not been evaluated; its card has no figures")
    sides = {TEXTS: (node.texts, OF_TEXTS), FEATURES: (node.features, OF_FEATURES)}
    with locks.claim(out), whole_folder(out, PATTERNS) as folder:
        beside = ["", model_files.PEER] if len(models) > 1 else [""]
        for place in beside:
            _copy(trained / place, folder / place, model_files.FILES)
        _copy(trained, folder, (model_files.HISTORY,))
        for name, (source, files) in sides.items():
            _copy(paths.extracted(node.dataset, source), folder / name, files)
        places = _copy_weights(run, folder, not models[0][0].tests_on_pixels)
        digests = {
            path.relative_to(folder).as_posix(): sha256(path) for path in sorted(folder.rglob("*")) if path.is_file()
        }
        parameters = sum(weight.numel() for weight in models[0][0].parameters())
        seen = read_json(paths.extracted(node.dataset, node.features) / features.META)
        about = card.About(params, run, licence, digests, models[0][1].config, seen, parameters, figures, places)
        write_text(folder / CARD, card.text(about))
    return digests


def _require_in_order(params: Params, run: str, groups: tuple[str, ...]) -> None:
    """Raises IntegrityError for what `vse-pipe check` would say of these outputs of the run, such as figures of another model."""
    problems = [problem for group in groups for problem in declarations()[group].node(params, run).problems(params)]
    if wrong := [problem.line for problem in problems if problem.status]:
        raise IntegrityError("\n".join(wrong))


def _copy_weights(run: str, folder: Path, of_features: bool) -> dict[str, str]:
    """The weights files of the user's own into the pack, and their places there into its meta.json, in which they are found again. of_features: does
    the model need the network that made its features? One that reads pixels holds it. Returns the places by the paths."""
    places: dict[str, str] = {}
    for name, meta, key in ((FEATURES, features.META, "params"), (TEXTS, texts.META, "options")):
        about = read_json(folder / name / meta)
        for value in weights_in(about.get(key, {})):
            source = Path(value).expanduser()
            named = not value.endswith(WEIGHT_FILES)  # of published weights
            if named or value in places or (name == FEATURES and not of_features):
                continue
            if not source.is_file():
                warn(f"pack {run}: {source} is not there; without it the pack encodes no new {_ENCODES[name]}")
                continue
            found = sha256(source)
            known = _digests_of_files(about)
            if source.name in known and found != known[source.name]:
                raise IntegrityError(
                    f"{source}: other weights than {name} were made with (sha256 {found[:12]}, not {known[source.name][:12]}); put "
                    "the right file there, or extract and train again"
                )
            places[value] = f"{WEIGHTS}/{found[:8]}-{source.name}"
            (folder / WEIGHTS).mkdir(exist_ok=True)
            shutil.copyfile(source, folder / places[value])
        if places:
            write_json(folder / name / meta, {**about, key: with_weights(about.get(key, {}), places)})
    return places


def _digests_of_files(about: dict) -> dict[str, str]:
    """sha256 by file name of the weights that a meta.json tells of."""
    nested = [value for value in about.values() if isinstance(value, dict)]
    return {one["file"]: one["sha256"] for one in nested if one.get("origin") == "file"}


def _copy(source: Path, folder: Path, files: tuple[str, ...]) -> None:
    """Those of ``files`` that are there: text features of kind tokens have learnt nothing but their vocabulary."""
    folder.mkdir(exist_ok=True)
    for name in files:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
