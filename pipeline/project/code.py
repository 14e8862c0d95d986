"""Which code each stage runs: what dvc.yaml must list as its dependencies."""

from pathlib import Path

from pipeline.project.registry import (
    BACKBONES,
    ENGINES,
    FORMATS,
    IMAGE_ENCODERS,
    INFERENCES,
    PROTOCOLS,
    RUN_FAMILIES,
    SIMILARITIES,
    TEXT_ENCODERS,
    TEXT_FEATURES,
    Family,
)
from pipeline.project.sources import ROOT, closure

# These decide messages, where files lie, how options are checked or on which device work runs, never what an artefact
# holds; an edit there must not retrain every model. Values of parameters are tracked by `params:`.
_WITHOUT_EFFECT = ("errors", "console", "registry", "paths", "locks", "timing", "device")

# The page finds its sections by name, as a family's members are found.
SECTIONS = Family("section", "pipeline.report.sections")

# The families whose members a stage finds by name, with the dependency in dvc.yaml that names the member's own module.
FAMILIES = {
    "prepare": [FORMATS],
    "extract": [BACKBONES, ENGINES],
    "extract_texts": [TEXT_FEATURES],
    "inject": [PROTOCOLS],
    "train": list(RUN_FAMILIES.values()),
    "embed": [SIMILARITIES, TEXT_ENCODERS, IMAGE_ENCODERS],
    "evaluate": [INFERENCES, SIMILARITIES],
    "evaluate_ensembles": [INFERENCES, SIMILARITIES],
    "report": [SECTIONS],
    "audit": [SIMILARITIES, TEXT_ENCODERS, IMAGE_ENCODERS],
}
_APART = {"extract_texts": "extract/text_stage.py", "evaluate_ensembles": "evaluate/stage.py"}
_ALL = {family.package: family for group in FAMILIES.values() for family in group}.values()


def without_effect(root: Path = ROOT) -> set[Path]:
    package = root / "pipeline"
    return {package / f"{name}.py" for name in _WITHOUT_EFFECT} | set((package / "params").glob("*.py"))


def folder(family: Family, root: Path = ROOT) -> Path:
    """The family's folder in the source tree below ``root``."""
    return root.joinpath(*family.package.split("."))


def member_files(group: str, root: Path = ROOT) -> list[Path]:
    """The modules of every member that a stage may find by name."""
    return [path for family in FAMILIES[group] for path in _members(family, root)]


def _members(family: Family, root: Path) -> list[Path]:
    """Of the tree below ``root``, which need not be the one that runs."""
    return sorted(path for path in folder(family, root).glob("*.py") if not path.name.startswith("_"))


def entry(group: str, root: Path = ROOT) -> Path:
    """The module a stage starts in."""
    return root / "pipeline" / _APART.get(group, f"{group}/stage.py")


def covered(file: Path, deps: list[Path]) -> bool:
    return any(file == dep or dep in file.parents for dep in deps)


def chosen_by_name(file: Path, root: Path = ROOT) -> bool:
    """A member's own module: the entry of a run depends on those that the run names."""
    return any(file in _members(family, root) for family in _ALL)


def needed(group: str, root: Path = ROOT) -> set[Path]:
    """Every file that decides what the stage writes, whichever members params.yaml names."""
    start = [entry(group, root), *member_files(group, root)]
    return closure((path for path in start if path.is_file()), without_effect(root), root)


def gaps(group: str, deps: list[Path], root: Path = ROOT) -> list[Path]:
    """Files that the stage runs and no dependency covers; the entries of one stage share their list, so members that are
    named by the entry are left to the entry. deps: absolute."""
    found = needed(group, root)
    return sorted(file for file in found if not chosen_by_name(file, root) and not covered(file, deps))
