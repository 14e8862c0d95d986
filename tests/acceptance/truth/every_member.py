"""Parameters that name every member of every family, and a project of them that DVC holds to be finished."""

import shutil
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

from dvc.repo import Repo
from dvc.stage import serialize
from ruamel.yaml import YAML

from tests.rules.sources import ROOT
from vse_pipe.project.registry import BACKBONES, FORMATS, LOSSES, PROTOCOLS, TEXT_FEATURES

_SECTIONS = {
    "datasets": (FORMATS, "format"),
    "features": (BACKBONES, "backbone"),
    "texts": (TEXT_FEATURES, "method"),
    "noises": (PROTOCOLS, "protocol"),
}
# What an entry says besides the name of its member, where the member needs it.
_BESIDES = {
    "bottom_up": {"tsv": ["raw/regions"]},
    "grid": {"model": "resnet18"},
    "open_clip": {"model": "ViT-B-32", "weights": "random"},
    "timm": {"model": "vit_tiny_patch16_224"},
    "torchvision": {"model": "resnet18"},
    "hglmm": {"vectors": "raw/vectors.txt"},
    "mean_vectors": {"vectors": "raw/vectors.txt"},
    "sentences": {"model": "raw/sentences"},
    "sentence_tokens": {"model": "raw/sentences"},
    "mixed": {"parts": [{"method": "tfidf"}, {"method": "mean_vectors", "vectors": "raw/vectors.txt"}]},
    "file": {"path": "raw/index.npy", "sha256": "0" * 64},
}
_RUN = {
    **{"dataset": "shapes", "features": "random_filters", "texts": "words", "noise": "image"},
    **{"scheme": "plain", "similarity": "cosine", "text": "gru", "image": "linear"},
}
_BRANCHES = {"texts": "mean_vectors", "text": "two_branch", "image": "two_branch"}
_PAIR = {
    "features": "open_clip",
    "texts": "captions",
    "image": "identity",
    "text": "identity",
    "scheme": "zero_shot",
    "loss": "sum",
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
    "crcl": {"scheme": "crcl"},
    "decl": {"scheme": "decl"},
    "hub": {"similarity": "scan_i2t", **_REGIONS, "texts": "sentence_tokens", "text": "pooled"},
    "sigmoid": {"features": "bottom_up", "image": "pooled"},
}


def params() -> dict:
    """params.yaml of this repository with entries that name every member."""
    found = YAML(typ="safe").load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    for section, (family, key) in _SECTIONS.items():
        found[section] = {name: {key: name, **_BESIDES.get(name, {})} for name in family.names()}
        for name, node in found[section].items():
            node |= {"source": f"raw/{name}"} if family is FORMATS else {"dataset": "shapes"}
    found["runs"] = {name: {**_RUN, "loss": name, **_OF_RUNS.get(name, {})} for name in LOSSES.names()}
    found["texts"]["captions"] = found["texts"].pop("open_clip")  # features of that name lie in the same folder
    found["runs"]["pretrained"] = {**_RUN, **_PAIR}
    found["runs"]["linear"] = {**_RUN, "loss": "sum", "scheme": "cca", **_BRANCHES}
    found["teachers"] = {"taught": {"dataset": "shapes", "noise": "image", "run": "hal"}}
    found["ensembles"] = {"both": {"first": "sum", "second": "hal"}}
    found["report"] |= {"audits": ["sum"], "localized": ["structure"]}
    return found


@contextmanager
def finished(root: Path) -> Iterator[Repo]:
    """Every stage recorded, with inputs and outputs that only stand for them: what DVC calls stale follows from digests,
    whatever wrote the files. ``root`` is the working directory meanwhile."""
    shutil.copytree(ROOT / "pipeline", root / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "dvc.yaml", root)
    with (root / "params.yaml").open("w", encoding="utf-8") as file:
        YAML().dump(params(), file)
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
