"""After a comment in a member's file DVC calls every stage stale that the member decides, and only its runs train anew."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from dvc.repo import Repo

from tests.acceptance.truth.every_member import finished
from tests.rules.sources import ROOT
from vse_pipe.project import code
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import (
    BACKBONES,
    ENGINES,
    FORMATS,
    INFERENCES,
    PROPOSALS,
    PROTOCOLS,
    RUN_FAMILIES,
    SAMPLERS,
    TEXT_FEATURES,
    Family,
)
from vse_pipe.project.stages import declarations, nodes
from vse_pipe.train.checkpoint import code_of

pytestmark = pytest.mark.acceptance

FAMILIES = (
    *(FORMATS, PROPOSALS, BACKBONES, ENGINES, TEXT_FEATURES, PROTOCOLS, INFERENCES),
    *RUN_FAMILIES.values(),
)
Member = tuple[Family, str]


def test_every_family_is_edited():
    from vse_pipe.project import registry

    known = [one for one in vars(registry).values() if isinstance(one, Family)]
    assert {one.package for one in FAMILIES} == {one.package for one in known}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Iterator[tuple[Repo, Params]]:
    root = tmp_path_factory.mktemp("truth")
    with finished(root) as repo:
        yield repo, load(Path("params.yaml"))


def test_every_member_that_an_entry_can_name_is_named(project):
    made = [one.declaration.members(project[1], one.name) for one in nodes(project[1])]
    named = {member for members in made for member in members.items()}
    # Of these, whichever it is, DVC is told of the whole folder.
    families = {family for family, _ in named} - {PROPOSALS, SAMPLERS}
    assert {(family, name) for family in families for name in family.names()} <= named


def decided(params: Params, member: Member) -> set[str]:
    """The stages, as DVC addresses them, whose output the member decides."""
    family, name = member
    made = [(node.stage, node.declaration, node.declaration.members(params, node.name)) for node in nodes(params)]
    made.append(("report", declarations()["report"], {}))
    return {
        stage
        for stage, declared, members in made
        if (members[family] == name if family in members else family in declared.families)
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


MEMBERS = [(family, name) for family in FAMILIES for name in family.names()]


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


def test_the_whole_status_says_the_same(project):
    repo, params = project
    members = [(ENGINES, "ray"), (FORMATS, "csv"), (RUN_FAMILIES["loss"], "max")]
    with edited(*members) as files:
        stages = {name for name, changes in repo.status().items() if "changed deps" in str(changes)}
        assert stages == stale(repo, files)
    assert stages >= set().union(*(decided(params, member) for member in members))
