"""pack: a run's model as a folder that a model hub takes, and that other projects can use."""

import shutil
from pathlib import Path

from pipeline.artifacts import features, history, model_files
from pipeline.core import locks
from pipeline.core.console import warn
from pipeline.core.errors import IntegrityError
from pipeline.core.files import read_json, sha256, write_text
from pipeline.core.whole import whole_folder
from pipeline.project import paths
from pipeline.project.nodes import Node, declarations
from pipeline.project.params.typed import Params
from pipeline.tools.hub import card
from pipeline.tools.hub.files import CARD, FEATURES, OF_FEATURES, OF_TEXTS, PATTERNS, TEXTS
from pipeline.train.engine import restore


def pack(params: Params, run: str, out: Path, licence: str | None) -> dict:
    """Write ``out`` from data/train/<run>/ and what its features and texts were made with. Returns digests by file.

    licence: of the weights, as hubs name it; None where nobody says. Raises InputError where the run is not trained,
    IntegrityError where it is not what params.yaml says or was trained on other features, texts or pairs than there are;
    PipelineError where ``out`` holds what nobody here wrote.
    """
    node, trained = params.runs[run], paths.trained(run)
    models = restore.load_all(trained)
    figures = card.figures(params, run)
    _require_in_order(params, run, ("train", "embed", "evaluate") if figures else ("train",))
    if not figures:
        warn(f"pack {run}: the run has not been evaluated; its card has no figures")
    sides = {TEXTS: (node.texts, OF_TEXTS), FEATURES: (node.features, OF_FEATURES)}
    with locks.claim(out), whole_folder(out, PATTERNS) as folder:
        beside = ["", model_files.PEER] if len(models) > 1 else [""]
        for place in beside:
            _copy(trained / place, folder / place, model_files.FILES)
        _copy(trained, folder, (history.NAME,))
        for name, (source, files) in sides.items():
            _copy(paths.extracted(node.dataset, source), folder / name, files)
        digests = {
            path.relative_to(folder).as_posix(): sha256(path) for path in sorted(folder.rglob("*")) if path.is_file()
        }
        parameters = sum(weight.numel() for weight in models[0][0].parameters())
        seen = read_json(paths.extracted(node.dataset, node.features) / features.META)
        about = card.About(params, run, licence, digests, models[0][1].config, seen, parameters, figures)
        write_text(folder / CARD, card.text(about))
    return digests


def _require_in_order(params: Params, run: str, groups: tuple[str, ...]) -> None:
    """Raises IntegrityError for what `vse-pipe check` would say of these outputs of the run, such as figures of another model."""
    declared = [declarations()[group] for group in groups]
    nodes = [Node(one, run, one.out(params, run)) for one in declared]
    found = [
        problem for node in nodes for problem in node.declaration.beside(node.declaration.check).problems(params, node)
    ]
    if wrong := [problem.line for problem in found if problem.status]:
        raise IntegrityError("\n".join(wrong))


def _copy(source: Path, folder: Path, files: tuple[str, ...]) -> None:
    """Those of ``files`` that are there: text features of kind tokens have learnt nothing but their vocabulary."""
    folder.mkdir(exist_ok=True)
    for name in files:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
