"""Which stages DVC calls stale after a comment in a member's file: those that the entries' members make stale, no other."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from dvc.repo import Repo

from tests.acceptance.truth.every_member import finished
from tests.rules.sources import ROOT
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

pytestmark = pytest.mark.acceptance

FAMILIES = (
    *(FORMATS, PROPOSALS, BACKBONES, ENGINES, TEXT_FEATURES, PROTOCOLS, INFERENCES),
    *RUN_FAMILIES.values(),
)
# Rooms and families that dvc.yaml names as a whole although an entry says which member it uses.
WHOLE = {
    "prepare": (PROPOSALS.package,),
    "extract_texts": (TEXT_FEATURES.package,),
    "inject_teachers": ("vse_pipe.ranking",),
    "train": (SAMPLERS.package,),
    "audit": ("vse_pipe.train", "vse_pipe.ranking"),
    "localize": ("vse_pipe.ranking",),
}
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


def expected(params: Params, member: Member) -> set[str]:
    """The stages, as DVC addresses them, that this member decides something of."""
    family, name = member
    made = [(one.stage, one.declaration, one.declaration.members(params, one.name)) for one in nodes(params)]
    made.append(("report", declarations()["report"], {}))
    return {
        stage
        for stage, declared, members in made
        if any(f"{family.package}.".startswith(f"{one}.") for one in WHOLE.get(declared.group, ()))
        or (members[family] == name if family in members else family in declared.families)
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
    repo, params = project
    assert set(repo.status()) == {"sources"}  # which always runs
    wrong = {}
    for member in [(family, name) for family in FAMILIES for name in family.names()]:
        with edited(member) as files:
            found, wanted = stale(repo, files), expected(params, member)
        if found != wanted:
            more, less = sorted(found - wanted), sorted(wanted - found)
            wrong[f"{member[0].kind} {member[1]}"] = {"stale too": more, "not stale": less}
    assert wrong == {}
    assert set(repo.status()) == {"sources"}  # which always runs


def test_the_whole_status_says_the_same(project):
    repo, params = project
    members = [(ENGINES, "ray"), (FORMATS, "csv"), (RUN_FAMILIES["loss"], "max")]
    with edited(*members):
        found = {name for name, changes in repo.status().items() if "changed deps" in str(changes)}
    assert found == set().union(*(expected(params, one) for one in members))
