"""A small project in which every stage up to evaluate has run, made once a session, and a record of it as DVC keeps it."""

import os
import re
from pathlib import Path

from dvc.repo import Repo

from tests.rules.sources import ROOT
from tests.toy_project import write_params, write_prepared
from vse_pipe.project.params.load import load
from vse_pipe.project.sources import write_sources
from vse_pipe.project.stages import sources

INFERENCES = ["nns", "csls"]


def build(root: Path) -> None:
    """In the folder ``root``, which is left as the working directory."""
    from vse_pipe.embed.stage import embed
    from vse_pipe.evaluate.stage import evaluate
    from vse_pipe.extract.text_stage import extract_texts
    from vse_pipe.inject.stage import inject
    from vse_pipe.train.stage import train

    os.chdir(root)
    small = {"epochs": 2, "batch_size": 8, "lr": 1e-2, "lr_update": 2, "embed_size": 12}
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
    Repo.init(".", no_scm=True).close()
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
    """Whatever is there in the working directory becomes what DVC has recorded and cached."""
    write_sources(sources(load(Path("params.yaml"))))
    with Repo() as repository, repository.lock:
        for stage in repository.index.stages:
            if all(Path(out.def_path).exists() for out in stage.outs):
                stage.save(allow_missing=True, run_cache=False)
                stage.commit(allow_missing=True)
                stage.dump(update_pipeline=False)
