"""constraints.txt holds every package that `make setup` installs, with the digests of its files, and no address."""

import re
import tomllib
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.rules.sources import ROOT

_ENTRY = re.compile(r"([A-Za-z0-9._-]+)==(\S+)(?: ; [^\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n")
_TEXT = (ROOT / "constraints.txt").read_text(encoding="utf-8")
_PINNED = {canonicalize_name(name): version for name, version, _ in _ENTRY.findall(_TEXT)}


def test_every_line_belongs_to_a_version_with_digests():
    assert _ENTRY.sub("", _TEXT) == ""
    assert len(_PINNED) > 100


def test_all_that_is_needed_is_pinned_at_a_version_that_fits():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    waiting = [
        *project["build-system"]["requires"],
        *project["dependency-groups"]["setup"],
        *project["project"]["dependencies"],
        *extras["test"],
        *extras["dev"],
    ]
    wrong, seen = [], set()
    while waiting:
        text = waiting.pop()
        one = Requirement(text)
        name = canonicalize_name(one.name)
        if name not in _PINNED or not one.specifier.contains(_PINNED[name], prereleases=True):
            wrong.append(text)
        elif text not in seen and name != "uv":  # uv needs nothing, and a clone may have been set up without it
            seen.add(text)
            waiting += [
                str(needed)
                for needed in map(Requirement, requires(name) or [])
                if needed.marker is None or any(needed.marker.evaluate({"extra": of}) for of in ["", *one.extras])
            ]
    assert wrong == []
    assert len(seen) > 100
