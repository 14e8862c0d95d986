"""The files outside the project that features and texts are made with: there, and what they should be."""

import os
from pathlib import Path

from vse_pipe.core.errors import IntegrityError, ParamsError, PipelineError
from vse_pipe.project.paths import PARAMS, root_around
from vse_pipe.tools.doctor.checks.disk import weights_folder
from vse_pipe.tools.doctor.line import FAIL, OK, WARN, Line


def look() -> list[Line]:
    project = root_around()
    if project is None:
        return []
    from vse_pipe.papers import rows
    from vse_pipe.project.params.load import load

    try:
        params = load(project / PARAMS, further=[rows.problems])
    except ParamsError as error:
        said = f"does not validate: {error.problems[0]}"
        return [Line(FAIL, "params.yaml", said, "`vse-pipe check` lists every problem")]
    here = Path.cwd()
    os.chdir(project)
    try:
        lines = [line for name, node in params.features.items() for line in _features(name, node.backbone)]
        lines += [line for name, node in params.texts.items() for line in _texts(name, node.method.params)]
    finally:
        os.chdir(here)
    return lines or [Line(OK, "weights", "no features and texts need any file")]


def _features(name: str, member) -> list[Line]:
    what = f"weights of features.{name}"
    try:
        needed = _sources(member)
    except PipelineError as error:
        return [Line(FAIL, what, str(error), "correct params.yaml")]
    if not needed:
        return [Line(OK, what, f"{member.name} needs none")]
    return [_weights(f"{what}, {label}" if label else what, *rest) for label, *rest in needed]


def _sources(member) -> list[tuple]:
    """(label, options, published source) of each weights file; random weights have none."""
    options = member.params
    found = []
    if getattr(options, "weights", "random") != "random":
        found.append(("", options, _published(member.name, options)))
    if getattr(options, "detector_weights", "random") != "random":
        from vse_pipe.extract.engine.params import ImageParams
        from vse_pipe.pictures import detector

        given = ImageParams(weights=options.detector_weights, sha256=options.detector_sha256)
        found.append(("detector", given, detector._source(options.detector, given.weights)))
    return found


def _published(name: str, options):
    """None where params name a file."""
    from vse_pipe.extract.engine.params import ImageParams

    if options.weights.endswith((".pth", ".pt", ".safetensors")):
        return None
    if name == "inception_resnet_v2":
        from vse_pipe.extract.backbones.inception_resnet_v2 import WEIGHTS

        return WEIGHTS
    model = getattr(options, "model", None) or getattr(options, "trunk", None) or name
    given = ImageParams(weights=options.weights, sha256=options.sha256)
    if name == "timm" or getattr(options, "library", "") == "timm":
        from vse_pipe.extract.engine.networks import timm

        return timm.classifier(model, given, {}).source
    from vse_pipe.extract.engine.networks import torchvision

    return torchvision.classifier(model, given, {}).source


def _weights(what: str, options, source) -> Line:
    if source is None:
        return _file(what, Path(options.weights).expanduser(), options.sha256 or "")
    path = weights_folder() / source.file
    if not path.exists():
        remedy = f"the first `vse-pipe extract` downloads {source.url}; without a network put it there"
        return Line(WARN, what, f"not downloaded yet, will lie at {path}", remedy)
    return _file(what, path, options.sha256 or source.digest)


def _file(what: str, path: Path, digest: str) -> Line:
    from vse_pipe.core.weights import check

    if not path.is_file():
        return Line(FAIL, what, f"{path.absolute()} does not exist", "put it there or correct params.yaml")
    try:
        found = check(path, digest)
    except IntegrityError as error:
        said, _, remedy = str(error).rpartition("; ")
        return Line(FAIL, what, said, remedy)
    if not digest:
        return Line(WARN, what, f"{path}, not pinned", f"add to params.yaml: sha256: {found}")
    return Line(OK, what, f"{path}, sha256 {found[:12]}...")


def _texts(name: str, options) -> list[Line]:
    files: dict[Path, str] = getattr(options, "files", dict)()
    return [_file(f"files of texts.{name}", path, digest) for path, digest in files.items()]
