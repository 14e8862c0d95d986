"""House rules that a machine can check and ruff does not: each lists everything that breaks it."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.rules.sources import PACKAGE, ROOT, modules, tree

TESTS = sorted((ROOT / "tests").rglob("*.py"))
# Folders of pure maths: no I/O; that it imports no artefacts is a contract in pyproject.toml.
MATHS = [
    *(f"ranking/{name}" for name in ("inference", "similarities")),
    *(f"train/{name}" for name in ("encoders", "losses", "samplers")),
    "inject/protocols",
]
_FILES = r"\bopen\(|\bPath\(|np\.save|np\.load|torch\.save|torch\.load|\bpq\."
_COMPARISONS = ("allclose", "isclose", "equal", "array_equal")


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {path: tree(path) for path in modules()}


def test_files_stay_short():
    lines = {_name(path): path.read_text(encoding="utf-8").count("\n") for path in modules()}
    long = {name: count for name, count in lines.items() if count > 500}
    assert long == {}, "split them by subjects"


def test_functions_stay_short(trees):
    found = ((path, node) for path, module in trees.items() for node in ast.walk(module))
    functions = [
        (f"{_name(path)}: {node.name}", node.end_lineno - node.lineno + 1)
        for path, node in found
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert len(functions) > 1000
    assert [(name, lines) for name, lines in functions if lines > 60] == []


def test_modules_say_what_they_are(trees):
    own = {path: module for path, module in trees.items() if path.name != "__init__.py"}
    assert [_name(path) for path, module in own.items() if not ast.get_docstring(module)] == []


def test_a_class_has_one_file(trees):
    """Members of the same name in two families each have their options."""
    files = defaultdict(set)
    for path, module in trees.items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef) and not node.name.endswith("Options"):
                files[node.name].add(_name(path))
    assert {name: sorted(found) for name, found in files.items() if len(found) > 1} == {}


def test_maths_touches_no_files():
    paths = [path for folder in MATHS for path in sorted((PACKAGE / folder).rglob("*.py"))]
    assert len({path.parent for path in paths}) >= len(MATHS)
    used = {_name(path): re.findall(_FILES, path.read_text(encoding="utf-8")) for path in paths}
    assert {name: what for name, what in used.items() if what} == {}


def _discarded(module: ast.Module) -> Iterator[int]:
    for node in ast.walk(module):
        called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
        if getattr(called, "attr", "") in _COMPARISONS:
            yield node.lineno


def test_no_comparison_is_discarded(trees):
    """An assertion that was forgotten."""
    assert list(_discarded(ast.parse("x = np.allclose(a, b)\nnp.allclose(a, b)\n"))) == [2]
    every = {**trees, **{path: tree(path) for path in TESTS}}
    assert [f"{_name(path)}:{line}" for path, one in every.items() for line in _discarded(one)] == []


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("try:\n    print()\nexcept:\n    pass\n", "E722"),
        ("import pickle\n", "TID251"),
        ("import pickle\n\npickle.loads(b'')\n", "S301"),
        ("from pickle import loads\n", "TID251"),
    ],
)
def test_ruff_refuses_what_is_unsafe(code, rule):
    """In the package; among tests a pickle is allowed where one is planted."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format=concise", "-"]
    done = subprocess.run(
        [*command, "--stdin-filename", "pipeline/vse_pipe/core/probe.py"],
        cwd=ROOT,
        input=code,
        capture_output=True,
        text=True,
    )
    assert rule in done.stdout, done.stdout + done.stderr


def test_ruff_finds_nothing():
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "."], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_line_starts_light():
    code = "import sys, vse_pipe.cli; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    assert "typer" in loaded, "the probe itself must see imports"
    assert (HEAVY | {"numpy", "pyarrow", "pydantic"}) & set(loaded) == set()


def test_every_contract_is_kept(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert lint_imports(no_cache=True) == EXIT_STATUS_SUCCESS, capsys.readouterr().out


HEAVY = {
    "altair", "dvc", "faiss", "grimp", "nltk", "numba", "pandas", "scipy", "sklearn", "timm", "torch", "torchvision",
    "transformers", "vl_convert",
}  # fmt: skip
NEEDED = {
    "prepare": set(),
    "extract": set(),
    "inject": set(),
    "train": {"torch"},
    "embed": {"torch"},
    "evaluate": {"torch"},
    "report": {"altair", "pandas"},
}
PROBE = """
import importlib, sys
from pathlib import Path
from vse_pipe.project.params.load import load
load(Path("params.yaml"), [])
importlib.import_module(f"vse_pipe.{sys.argv[1]}.stage")
print(*{name.partition(".")[0] for name in sys.modules})
"""


@pytest.mark.acceptance
def test_stages_import_what_they_need_and_no_more():
    found = {
        stage: HEAVY.intersection(
            subprocess.run(
                [sys.executable, "-c", PROBE, stage], cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.split()
        )
        for stage in NEEDED
    }
    assert found == NEEDED


# What hands out rows without a comparison, by the module that defines it.
DIRECT = {"images": {"read"}, "captions": {"read", "blocks", "CaptionColumn"}, "Embedded": {"read"}}
COMPARED = "compares digests itself, or within `joins.compared`"
ALONE = "makes an artefact from these tables and reads nothing else by their ids"
# Modules that may, and why; any other reads through `vse_pipe.artifacts.joins` and `Embedded.of_run`.
ALLOWED = {
    "pipeline/vse_pipe/artifacts/joins.py": COMPARED,
    "pipeline/vse_pipe/embed/stage.py": "features and texts are compared where they are read (restore.inputs, transfer)",
    "pipeline/vse_pipe/evaluate/judgements.py": COMPARED,
    "pipeline/vse_pipe/evaluate/stage.py": "a bank from a folder of its own is compared by model (must_match)",
    "pipeline/vse_pipe/extract/job.py": ALONE,
    "pipeline/vse_pipe/extract/assemble.py": ALONE,
    "pipeline/vse_pipe/extract/text_stage.py": ALONE,
    "pipeline/vse_pipe/inject/stage.py": ALONE,
    "pipeline/vse_pipe/prepare/declaration.py": ALONE,
    "pipeline/vse_pipe/prepare/regions.py": ALONE,
    "pipeline/vse_pipe/ranking/embedded.py": COMPARED,
    "pipeline/vse_pipe/audit/stage.py": "features, texts and pairs are compared where they are read (restore.inputs, pairs.require_for)",
    "pipeline/vse_pipe/tools/revisions.py": COMPARED,
    "pipeline/vse_pipe/tools/pack.py": "counts images and captions by split",
    "pipeline/vse_pipe/tools/search/correction.py": "a bank from a folder of its own is compared by model (must_match)",
    "pipeline/vse_pipe/train/encoders/finetune.py": COMPARED,
    "pipeline/vse_pipe/train/inputs.py": "features, texts and pairs are compared before (require); vectors are those that "
    "teachers.json has the digest of (require_same_teacher)",
}


def _readers(text: str) -> set[str]:
    """``images.read`` and the like, whatever the module is called there."""
    tree = ast.parse(text)
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vse_pipe.")
        for alias in node.names
        if alias.name in DIRECT and (node.module == "vse_pipe.artifacts" or alias.name == "Embedded")
    }
    names |= {"cls": "Embedded"} if "class Embedded" in text else {}
    return {
        f"{names[node.value.id]}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in names
        and node.attr in DIRECT[names[node.value.id]]
    }


def test_tables_are_read_beside_another_artefact_through_joins_alone():
    found = {}
    for path in sorted((ROOT / "pipeline").rglob("*.py")):
        if readers := _readers(path.read_text(encoding="utf-8")):
            found[path.relative_to(ROOT).as_posix()] = ", ".join(sorted(readers))
    offenders = {name: what for name, what in found.items() if name not in ALLOWED}
    assert offenders == {}, "read with joins.images_of, joins.captions_of or joins.compared, or say here why not"
    assert set(ALLOWED) - set(found) == set(), "no reader any more"


def test_a_reader_by_another_name_is_seen():
    text = "from vse_pipe.artifacts import images as artefact\nread = artefact.read\n"
    assert _readers(text) == {"images.read"}
    assert _readers("from vse_pipe.pictures import images\nimages.read\n") == set()


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
