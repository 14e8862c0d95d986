"""After a comment in a member's file DVC calls every stage stale that the member decides, and only its runs train anew.

The project has an entry for every member of every family, and DVC holds all of its stages to be finished.
"""

import shutil
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from functools import cache
from pathlib import Path

import pytest
from dvc.repo import Repo
from dvc.stage import serialize
from ruamel.yaml import YAML

from tests.rules.sources import ROOT
from vse_pipe.project import code, registry
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import FORMATS, LOSSES, RUN_FAMILIES, Family
from vse_pipe.project.stages import declarations, nodes
from vse_pipe.train.checkpoint import code_of

pytestmark = pytest.mark.acceptance

FAMILIES = [family for family in vars(registry).values() if isinstance(family, Family)]
MEMBERS = [(family, name) for family in FAMILIES for name in family.names()]
_SECTIONS = {
    "datasets": (FORMATS, "format"),
    "features": (registry.BACKBONES, "backbone"),
    "texts": (registry.TEXT_FEATURES, "method"),
    "noises": (registry.PROTOCOLS, "protocol"),
}
# What an entry says besides the name of its member, where the member needs it.
_BESIDES = {
    "bottom_up": {"tsv": ["raw/regions"]},
    "grid": {"model": "resnet18"},
    "open_clip": {"model": "ViT-B-32", "weights": "random"},
    "open_clip_tokens": {"model": "ViT-B-32"},
    "timm": {"model": "vit_tiny_patch16_224"},
    "torchvision": {"model": "resnet18"},
    "hglmm": {"vectors": "raw/vectors.txt"},
    "mean_vectors": {"vectors": "raw/vectors.txt"},
    "sentences": {"model": "raw/sentences"},
    "sentence_tokens": {"model": "raw/sentences"},
    "mixed": {"parts": [{"method": "tfidf"}, {"method": "mean_vectors", "vectors": "raw/vectors.txt"}]},
    "file": {"path": "raw/index.npy", "sha256": "0" * 64},
    "decisions": {"file": "raw/decisions.csv"},
}
_RUN = {
    **{"dataset": "shapes", "features": "random_filters", "texts": "words", "noise": "image"},
    **{"scheme": "plain", "similarity": "cosine", "text": "gru", "image": "linear"},
}
_BRANCHES = {"texts": "mean_vectors", "text": "two_branch", "image": "two_branch"}
_PAIR = {
    **{"features": "open_clip", "texts": "captions", "image": "identity", "text": "identity"},
    **{"scheme": "zero_shot", "loss": "sum"},
}
_REGIONS = {"features": "bottom_up", "image": "regions"}
# There is a run for each loss, named after it; the other families' members are spread over these.
_OF_RUNS = {
    "sum": {"scheme": "l2rm", "similarity": "order"},
    "max": {"scheme": "ncr", "similarity": "saf", **_REGIONS},
    "hal": {"scheme": "memory_bank", "texts": "mixed", "text": "residual", "image": "residual"},
    "hal_emnlp": {"similarity": "scan_i2t", **_REGIONS},
    "structure": {"scheme": "hard_negatives", **_BRANCHES},
    "infonce": {"similarity": "scan_t2i", **_REGIONS},
    "infonce_rce": {"similarity": "sgr", "scheme": "distil", "noise": "taught", **_REGIONS},
    "rcl": {"features": "torchvision", "image": "finetune"},
    "crcl": {"scheme": "crcl", "similarity": "imram", **_REGIONS},
    "decl": {"scheme": "decl"},
    "hub": {"similarity": "maxsim", **_REGIONS, "texts": "sentence_tokens", "text": "pooled"},
    "sigmoid": {"features": "bottom_up", "image": "pooled", "scheme": "matryoshka"},
}


def with_every_member() -> dict:
    """params.yaml of this repository with entries that name every member."""
    found = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    for section, (family, key) in _SECTIONS.items():
        found[section] = {name: {key: name, **_BESIDES.get(name, {})} for name in family.names()}
        for name, node in found[section].items():
            node |= {"source": f"raw/{name}"} if family is FORMATS else {"dataset": "shapes"}
    found["runs"] = {name: {**_RUN, "loss": name, **_OF_RUNS.get(name, {})} for name in LOSSES.names()}
    found["texts"]["captions"] = found["texts"].pop("open_clip")  # features of that name lie in the same folder
    found["runs"]["pretrained"] = {**_RUN, **_PAIR}
    pair = {"features": "open_clip", "texts": "open_clip_tokens", "image": "open_clip", "text": "open_clip"}
    found["runs"]["tuned"] = {**_RUN, "loss": "infonce", **pair}
    found["runs"]["anchors"] = {**_RUN, "loss": "max", "scheme": "bicro"}
    found["runs"]["linear"] = {**_RUN, "loss": "sum", "scheme": "cca", **_BRANCHES}
    found["runs"]["floor"] = {**_RUN, "loss": "sum", "scheme": "ridge", **_BRANCHES}
    found["teachers"] = {"taught": {"dataset": "shapes", "noise": "image", "run": "hal"}}
    found["ensembles"] = {"both": {"runs": ["sum", "hal"]}}
    found["report"] |= {"audits": ["sum"], "cleaning": {"image": "shapes"}, "localized": ["structure"]}
    return found


@contextmanager
def finished(root: Path) -> Iterator[Repo]:
    """Every stage recorded, with inputs and outputs that only stand for them: what DVC calls stale follows from digests,
    whatever wrote the files. ``root`` is the working directory meanwhile."""
    shutil.copytree(ROOT / "pipeline", root / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "dvc.yaml", root)
    with (root / "params.yaml").open("w", encoding="utf-8") as file:
        YAML().dump(with_every_member(), file)
    with chdir(root):
        with Repo.init(no_scm=True) as repo:
            for one in (one for stage in repo.index.stages for one in [*stage.deps, *stage.outs]):
                if not (path := Path(one.fs_path)).exists():
                    _stand_in(path)
            _record(repo)
        with Repo() as repo:
            yield repo


def _record(repo: Repo) -> None:
    """What `dvc commit` writes, in one go: it writes dvc.lock anew for each stage."""
    with repo.lock:
        for stage in repo.index.stages:
            stage.save(run_cache=False)
            stage.commit()
    stages = {stage.name: serialize.to_single_stage_lockfile(stage) for stage in repo.index.stages}
    with Path("dvc.lock").open("w", encoding="utf-8") as file:
        YAML(typ="safe").dump({"schema": "2.0", "stages": stages}, file)


def _stand_in(path: Path) -> None:
    """A file, or a folder with one, of its own content."""
    file = path if path.suffix else path / "file"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(str(path), encoding="utf-8")


Member = tuple[Family, str]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Iterator[tuple[Repo, Params]]:
    root = tmp_path_factory.mktemp("truth")
    with finished(root) as repo:
        yield repo, load(Path("params.yaml"))


def test_every_member_that_an_entry_can_name_is_named(project):
    made = [one.declaration.members(project[1], one.name) for one in nodes(project[1])]
    named = {member for members in made for member in members.items()}
    # Of these, whichever it is, DVC is told of the whole folder.
    families = {family for family, _ in named} - {registry.PROPOSALS, registry.SAMPLERS}
    assert {(family, name) for family in families for name in family.names()} <= named


def decided(params: Params, member: Member) -> set[str]:
    """The stages, as DVC addresses them, whose output the member decides, or another in its file."""
    family, name = member
    families = [one for one in FAMILIES if one.folder == family.folder and name in one.names()]
    made = [(node.stage, node.declaration, node.declaration.members(params, node.name)) for node in nodes(params)]
    made.append(("report", declarations()["report"], {}))
    return {
        stage
        for stage, declared, members in made
        if any(members[one] == name if one in members else one in declared.families for one in families)
    }


@contextmanager
def edited(*members: Member) -> Iterator[list[Path]]:
    """A comment more at the end of every file of these members, which are given."""
    before = {path: path.read_bytes() for member in members for path in _files(member)}
    try:
        for path, content in before.items():
            path.write_bytes(content + b"# a comment\n")
        yield list(before)
    finally:
        for path, content in before.items():
            path.write_bytes(content)


def _files(member: Member) -> list[Path]:
    family, name = member
    place = family.folder.relative_to(ROOT) / name
    return sorted(place.glob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def stale(repo: Repo, files: list[Path]) -> set[str]:
    """By their code, as DVC's own status of each dependency on ``files`` or folders of them says; asked once where many stages have
    it, for all of them were recorded at once. A whole status takes seconds."""
    covering = {str(one) for file in files for one in (file, *file.parents)}
    answers: dict[tuple, bool] = {}
    found = set()
    for stage in repo.index.stages:
        for dep in stage.deps:
            if str(dep) in covering:
                key = str(dep), dep.hash_info
                if key not in answers:
                    answers[key] = bool(dep.status())
                found |= {stage.addressing} if answers[key] else set()
    return found


def test_a_comment_in_a_member_makes_those_stale_that_it_decides(project):
    """dvc.yaml names whole rooms, so that more may be stale; a stage that is finished returns at once."""
    repo, params = project
    assert set(repo.status()) == {"sources"}  # which always runs
    missing = {}
    for member in MEMBERS:
        with edited(member) as files:
            missing[f"{member[0].kind} {member[1]}"] = sorted(decided(params, member) - stale(repo, files))
    assert {member: stages for member, stages in missing.items() if stages} == {}
    assert set(repo.status()) == {"sources"}  # which always runs


def test_a_comment_in_a_member_trains_its_runs_alone_anew(project, monkeypatch):
    _, params = project
    monkeypatch.setattr(code, "PACKAGE", Path("pipeline/vse_pipe"))
    content = code._content

    def codes() -> dict[str, str]:
        monkeypatch.setattr(code, "_content", cache(content))
        return {f"train@{name}": code_of(run) for name, run in params.runs.items()}

    before, wrong = codes(), {}
    for member in [member for member in MEMBERS if member[0] in RUN_FAMILIES.values()]:
        with edited(member):
            anew = {stage for stage, digest in codes().items() if digest != before[stage]}
        if anew != decided(params, member) & set(before):
            wrong[f"{member[0].kind} {member[1]}"] = sorted(anew)
    assert wrong == {}
