"""The closure of imports against what Python loads, and members: what they say is what their modules hold, told without torch."""

import hashlib
import importlib
import json
import os
import subprocess
import sys

import pytest
from pydantic import create_model

from tests.rules.sources import ROOT
from tests.toy_project import PARAMS, load_params, write_prepared
from vse_pipe.core.errors import UnknownMember
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import code
from vse_pipe.project.registry import (
    IMAGE_ENCODERS,
    INFERENCES,
    LOSSES,
    PROTOCOLS,
    RUN_FAMILIES,
    SCHEMES,
    SIMILARITIES,
    TEXT_ENCODERS,
    TEXT_FEATURES,
)
from vse_pipe.project.stages import declarations

# Imports the modules named on the command line one after the other, the packages above each aside, and says what is there.
_LOADED = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps([n for n, m in sys.modules.items() if n.startswith("vse_pipe.") and not hasattr(m, "__path__")]))
"""


@pytest.mark.acceptance
def test_all_that_python_loads_for_the_stages_is_in_their_closure():
    starts = sorted({declared.module for declared in declarations().values()})
    command = [sys.executable, "-c", _LOADED, *starts]
    loaded = set(json.loads(subprocess.run(command, capture_output=True, check=True, cwd=ROOT).stdout))
    effect = {one for one in loaded if not one.startswith("vse_pipe.project.")} - set(code._WITHOUT_EFFECT)
    effect = {one for one in effect if not one.endswith(".options")}
    assert "vse_pipe.train.loop" in effect
    assert sorted(effect - code.closure(starts)) == []


def test_imports_inside_functions_count_and_of_members_those_that_the_entry_names():
    assert "vse_pipe.evaluate.judgements" in code.closure(["vse_pipe.evaluate.measure"])
    assert "vse_pipe.evaluate.judgements" not in code.closure([INFERENCES.module("nns")])
    declared = declarations()["train"]
    needed = code.needed(declared, {LOSSES: "max"})
    assert {LOSSES.module("max")} <= needed
    assert not {LOSSES.module("hal")} & needed
    declared = declarations()["evaluate"]
    needed = code.needed(declared, {})
    for family in declared.families:
        for name in family.names():
            assert {family.module(name)} <= needed, name


# Says which modules lie in memory once params.yaml is read, and which once the run is trained.
_TRAINED = """
import json, sys
from pathlib import Path
from vse_pipe.project.params.load import load
params = load(Path("params.yaml"))
before = sorted(sys.modules)
from vse_pipe.train.stage import train
train(params, "hal", "cpu")
print(json.dumps([before, sorted(sys.modules)]))
"""


@pytest.mark.acceptance
def test_the_closure_of_a_run_is_what_the_run_imports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = load_params(tmp_path, runs={"hal": {**PARAMS["runs"]["sum"], "loss": "hal"}})
    write_prepared()
    inject(params, "clean")
    extract_texts(params, "words")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/pipeline:{ROOT}"}
    command = [sys.executable, "-c", _TRAINED]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    before, after = (set(found) for found in json.loads(done.stdout.splitlines()[-1]))
    declared = declarations()["train"]
    needed = code.needed(declared, declared.members(params, "hal"))
    # What reading params.yaml imports decides how options are checked; a run does not come by most of it.
    imported = {one for one in after - before if one.startswith("vse_pipe.") and code.file(one).read_bytes()}
    effect = {one for one in imported if not one.startswith("vse_pipe.project.")} - set(code._WITHOUT_EFFECT)
    effect = {one for one in effect if not one.endswith(".options")}
    assert "vse_pipe.train.losses.hal" in effect
    assert sorted(effect - needed) == []
    assert sorted(needed - after) == []
    assert not [one for one in needed if one.startswith(("vse_pipe.extract", "vse_pipe.pictures"))]


def test_what_is_no_module_is_in_the_list_of_the_report_alone(tmp_path):
    listed = code.listings(load_params(tmp_path))
    named = {stage: {line.split()[0] for line in text.splitlines() if "/" in line} for stage, text in listed.items()}
    files = {"papers/vsepp.yaml", "report/template/page.css", "report/sections/judged.html"}
    assert {f"vse_pipe/{file}" for file in files} <= named.pop("report")
    assert set().union(*named.values()) == set()


def test_a_new_option_of_one_loss_leaves_the_code_of_all_runs_as_it_was(monkeypatch):
    """And changes the default values of that loss alone."""
    page = "vse_pipe.train.losses.options"
    train = declarations()["train"]
    digests = {name: code.digest(code.needed(train, {LOSSES: name})) for name in LOSSES.names()}
    defaults = {name: code.listing(code.defaults(train, {LOSSES: name})) for name in LOSSES.names()}
    module = importlib.import_module(page)
    extended = create_model("HalOptions", __base__=module.HalOptions, sharpness=(float, 1.0))
    monkeypatch.setattr(module, "HalOptions", extended)
    text = code.file(page).read_bytes() + b"# another option\n"
    content = code.sha256
    edited = hashlib.sha256(text).hexdigest()
    monkeypatch.setattr(code, "sha256", lambda path: edited if path == code.file(page) else content(path))
    assert digests == {name: code.digest(code.needed(train, {LOSSES: name})) for name in LOSSES.names()}
    changed = {name for name in LOSSES.names() if code.listing(code.defaults(train, {LOSSES: name})) != defaults[name]}
    assert changed == {"hal"}


# A function that some members of the family have, and the trait that says so.
TOLD = [
    (LOSSES, "learns", "network"),
    (SIMILARITIES, "learns", "network"),
    (SIMILARITIES, "fragments", "regions"),
    (INFERENCES, "item_bias", "item_bias"),
    (INFERENCES, "matches", "match"),
    (TEXT_FEATURES, "terms", "terms"),
]
_READ = """
import sys
from pathlib import Path
from vse_pipe.project.params.load import load
from vse_pipe.papers import overlay
assert load(Path("params.yaml"), further=[overlay.row_problems]).runs
"""
_NAMED = "\nprint(' '.join(sorted({'torch', 'pandas', 'PIL', 'pyarrow'} & set(sys.modules))))"


@pytest.mark.parametrize(("family", "trait", "function"), TOLD)
def test_a_function_is_there_where_the_traits_say_so(family, trait, function):
    said = {name: getattr(family.traits(name), trait) for name in family.names()}
    assert said == {name: hasattr(family.load(name), function) for name in family.names()}
    assert len(set(said.values())) == 2


def test_traits_name_members_that_exist():
    named = [(LOSSES, LOSSES.traits(name).similarities, SIMILARITIES) for name in LOSSES.names()]
    for name in SCHEMES.names():
        traits = SCHEMES.traits(name)
        named += [(SCHEMES, traits.losses, LOSSES), (SCHEMES, traits.similarities, SIMILARITIES)]
    assert [one for _, one, other in named if not set(one or ()) <= set(other.names())] == []
    assert LOSSES.traits("sum") == LOSSES.defaults
    assert SCHEMES.traits("l2rm").parts == 2
    assert not PROTOCOLS.traits("as_is").knows_truth
    assert IMAGE_ENCODERS.traits("finetune").reads == "pixels"
    assert TEXT_ENCODERS.traits("gru").words
    for family in RUN_FAMILIES.values():
        assert all(isinstance(family.traits(name), type(family.defaults)) for name in family.names()), family.kind
    with pytest.raises(UnknownMember, match=r"^unknown scheme 'plane'; did you mean 'plain'"):
        SCHEMES.check("plane")


def _imported(script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", script + _NAMED, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().rpartition("\n")[2]


def test_params_yaml_and_options_of_every_member_are_read_without_torch_and_tables():
    assert _imported(_READ) == ""
    names = "LOSSES SCHEMES SIMILARITIES TEXT_ENCODERS IMAGE_ENCODERS INFERENCES BACKBONES FORMATS PROPOSALS"
    families = names.replace(" ", ", ")
    script = f"import sys\nfrom vse_pipe.project.registry import {families}\n"
    script += f"[family.options(name) for family in ({families}) for name in family.names()]"
    assert _imported(script) == ""
