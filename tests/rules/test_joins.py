"""Ids are running numbers: whoever looks them up in prepared tables, or takes vectors by them, compares digests first."""

import ast

from tests.rules.sources import ROOT

# What hands out rows without a comparison, by the module that defines it.
DIRECT = {"images": {"read"}, "captions": {"read", "blocks", "CaptionColumn"}, "Embedded": {"read"}}
COMPARED = "compares digests itself, or within `joins.compared`"
ALONE = "makes an artefact from these tables and reads nothing else by their ids"
# Modules that may, and why; any other reads through `vse_pipe.artifacts.joins` and `Embedded.of_run`.
ALLOWED = {
    "pipeline/vse_pipe/artifacts/joins.py": COMPARED,
    "pipeline/vse_pipe/embed/stage.py": "features and texts are compared where they are read (restore.inputs, transfer)",
    "pipeline/vse_pipe/embed/transfer.py": ALONE,
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
    "pipeline/vse_pipe/train/encoders/image/finetune.py": COMPARED,
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
