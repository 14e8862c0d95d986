"""A small project in which every stage up to evaluate has run, made once a session, and a record of it as DVC keeps it."""

import json
import os
import re
from pathlib import Path

from ruamel.yaml import YAML

from tests.rules.sources import ROOT
from tests.toy_project import write_params, write_prepared
from vse_pipe.project import code, paths
from vse_pipe.project.params.document import read_document
from vse_pipe.tools import check

INFERENCES = ["nns", "csls"]


def build(root: Path) -> None:
    """In the folder ``root``, which is left as the working directory."""
    from vse_pipe.embed.stage import embed
    from vse_pipe.evaluate.stage import evaluate
    from vse_pipe.extract.text_stage import extract_texts
    from vse_pipe.inject.stage import inject
    from vse_pipe.project.params.load import load
    from vse_pipe.train.stage import train

    os.chdir(root)
    small = {"epochs": 2, "batch_size": 8, "lr": 1e-2, "lr_update": 2, "embed_size": 12, "keep_state": True}
    params = load(
        write_params(root, grid={"inferences": INFERENCES}, train=small, evaluate={"resamples": 10}, **SECTIONS)
    )
    Path("toy.csv").write_text("image,caption\n", encoding="utf-8")
    write_prepared()
    for noise in params.noises:
        inject(params, noise)
    extract_texts(params, "words")
    train(params, "sum", "cpu")
    embed(params, "sum", "cpu")
    evaluate(params, "sum", INFERENCES, "cpu")
    write_dvc_yaml()


def write_dvc_yaml() -> None:
    """In the working directory, with the folders that it names and no stage of these projects writes."""
    # Without the code: its closure takes a second, and tests/tools/test_check.py looks at it in this repository.
    text = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
    text = re.sub(r"^ +- pipeline/.*\n|,\s+\"?pipeline/[^,\]]+(?=[,\]])", "", text, flags=re.M)
    Path("dvc.yaml").write_text(text, encoding="utf-8")
    Path("pipeline").mkdir()
    for folder in ("data/audit", "data/localize"):
        Path(folder).mkdir(parents=True, exist_ok=True)


# dvc.yaml names an address for every family.
SECTIONS = {
    "teachers": {},
    "ensembles": {},
    "transfers": {},
    "embed": {"splits": None},
    "localize": {},
    "report": {"audits": [], "cleaning": {}, "localized": []},
    "loss": {"sum": {"margin": 0.2}},
    "scheme": {"plain": {}},
    "sampler": {},
    "similarity": {"cosine": {}},
    "image": {"linear": {}},
    "inference": {},
}


def record() -> None:
    """dvc.lock and DVC's cache as they would be had DVC run the stages of the project in the working directory."""
    document = read_document(paths.PARAMS)
    found, problems = check.read_dvc_yaml(check.DVC_YAML, document)
    assert not problems
    locked = {}
    for stage in found:
        outs = [out for out in stage.outs if Path(out).exists()]
        if outs:
            deps = [dep for dep in stage.deps if dep.startswith("data/") and Path(dep).exists()]
            values = {address: check.lookup(document, address)[0] for address in stage.params}
            locked[stage.name] = {
                "cmd": stage.cmd,
                "deps": [{"path": dep, "md5": code.md5(Path(dep))} for dep in deps],
                "params": {"params.yaml": values},
                "outs": [{"path": out, "md5": _cached(Path(out))} for out in outs],
            }
    with code.DVC_LOCK.open("w", encoding="utf-8") as file:
        YAML().dump({"schema": "2.0", "stages": locked}, file)


def _cached(out: Path) -> str:
    digest, files = code.md5(out), code.files_below(out)
    listing = [{"md5": one, "relpath": name} for name, one in files.items()]
    _put(digest, json.dumps(listing).encode())
    for name, one in files.items():
        _put(one, (out / name).read_bytes())
    return digest


def _put(digest: str, content: bytes) -> None:
    path = code.cache_object(digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
