"""Commands of the documentation, run in a project: those of vse-pipe in this process, since a start takes seconds, and what is behind
a pipe or DVC in forks. Below them small data in the form of what a reader has: photographs, features, vectors of a model.
"""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from dvc.repo import Repo
from ruamel.yaml import YAML

from tests.acceptance import forked
from tests.prepare import _data
from tests.small_project import QUICK
from vse_pipe import cli

# What every `apply` and the project itself are reduced to.
SIZES = {"train": 60, "val": 20, "test": 20}
PROPOSALS = 6
BATCH = 16
TRAINING = {"epochs": 1, "batch_size": BATCH, "embed_size": 16}


class Project:
    """A folder with a project, in which commands run as a user would run them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "DVC_NO_ANALYTICS": "1",
            "PYTHONPATH": f"{root}/pipeline:{root}",
        }

    def run(self, command: str, status: int = 0) -> str:
        """What the command prints. Fails where it ends with another status."""
        if command == "@stages":
            return self.stages()
        several = command.split("; ")
        if len(several) > 1 and all(map(_is_ours, several)):
            return "".join(self.run(one, status) for one in several)
        if _is_ours(command):
            ended, output = vse_pipe(shlex.split(command)[1:], self.root)
        else:
            asks_its_shell = command.endswith("-completion")
            path = ("" if asks_its_shell else f"{forked.folder(**QUICK)}:") + self.environment["PATH"]
            # Two commands: for the last one bash would make way, and the shell that --show-completion asks for be gone.
            script = f"{re.sub(r'^python -m (?=tests[.])', 'module ', command)}\nexit $?"
            environment = self.environment | {"PATH": path}
            around = {"cwd": self.root, "env": environment, "capture_output": True, "text": True}
            done = subprocess.run(["bash", "-c", script], **around)
            ended, output = done.returncode, done.stdout + done.stderr
        assert ended == status, f"{command} ended with {ended}\n{output[-3000:]}"
        if re.search(r"^vse-pipe .*\bapply\b|--apply$", command):
            shrink(self.root / "params.yaml")
        return output

    def stages(self) -> str:
        """Every command that `dvc repro` has for the stages up to inject, and those of the last run."""
        repo = Repo(str(self.root))
        try:
            commands = {stage.name: stage.cmd for stage in repo.index.stages}
        finally:
            repo.close()
        last = list(read_yaml(self.root / "params.yaml")["runs"])[-1]
        for stage in ("prepare", "extract", "extract_texts", "inject", "train", "embed", "evaluate"):
            of_stage = [(name, cmd) for name, cmd in commands.items() if name.startswith(f"{stage}@")]
            assert of_stage, f"dvc.yaml has no stage {stage}"
            for name, cmd in of_stage:
                if stage in ("train", "embed", "evaluate") and name.partition("@")[2] != last:
                    continue
                self.run(re.sub(r"^(\w+=\S* )+", "", cmd))
        return ""


def vse_pipe(arguments: list[str], root: Path) -> tuple[int, str]:
    """(exit status, stdout and stderr together) of the command line, called in this process in ``root``."""
    output = io.StringIO()
    with contextlib.chdir(root):
        called = mock.patch.object(sys, "argv", ["vse-pipe", *arguments])
        with called, contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            try:
                cli.main()
                status = 0
            except SystemExit as stop:
                status = int(stop.code or 0)
    return status, output.getvalue()


def shrink(params: Path) -> None:
    """Few images and regions, two seeds, one epoch, narrow models: what is computed stays, how much of it does not."""
    content = read_yaml(params)
    for node in content["datasets"].values():
        if node["format"] == "shapes":
            node.update(SIZES)
        if "count" in node:
            node["count"] = PROPOSALS
    for node in content["features"].values():
        node["batch_size"] = BATCH  # the last batch of any collection is filled up to it
    for run in [*content["runs"].values(), *content["noises"].values()]:
        if run.get("seeds"):
            run["seeds"] = run["seeds"][:2]
    known = {None, *content["runs"]}
    known |= {f"{name}/{seed}" for name, run in content["runs"].items() for seed in run.get("seeds") or []}
    content["ensembles"] = {
        name: node for name, node in content["ensembles"].items() if {*node["runs"]} <= {*known, "bm25"}
    }
    for run in content["runs"].values():
        if "train" in run:
            run["train"].update({key: TRAINING[key] for key in TRAINING if key in run["train"]})
    content["train"].update(TRAINING)
    content["train"]["stop_when_dead"] = False  # a handful of pairs may be learned in an epoch, or stand still
    content["evaluate"]["resamples"] = 4
    content["report"]["examples"] = 2
    with params.open("w", encoding="utf-8") as file:
        YAML().dump(content, file)


def read_yaml(path: Path) -> dict:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def _is_ours(command: str) -> bool:
    plain = re.sub(r"'[^']*'", "", command)
    return command.startswith("vse-pipe ") and not re.search(r"[|>;$~]|-completion$", plain)


WORDS = ["two", "dogs", "run", "along", "the", "water", "while", "a", "child", "sits", "on", "swing", "near", "tram"]


def picture(path: Path, seed: int = 0, size: tuple[int, int] = (48, 48)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_data.picture(seed, size, "PNG" if path.suffix == ".png" else "JPEG"))


def captions(seed: int, count: int = 5) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 6, replace=False)) for _ in range(count)]


def karpathy(folder: Path) -> None:
    """``dataset_flickr8k.json`` with its pictures: five captions an image, as Flickr8k has."""
    splits = ["train"] * 8 + ["val"] * 4 + ["test"] * 4
    entries = [_data.entry(n, split, tuple(captions(n))) for n, split in enumerate(splits)]
    _data.karpathy(folder, entries, "dataset_flickr8k.json")


def precomp(folder: Path) -> None:
    """VSE++'s layout with features of 32 numbers."""
    _data.precomp(
        folder,
        {
            split: (_data.rows(count, seed, (32,)), captions(seed, 5 * count))
            for seed, (split, count) in enumerate({"train": 8, "dev": 4, "test": 4}.items())
        },
    )


def tar_shards(folder: Path) -> None:
    """``train-000.tar`` and its like: a picture and a caption for each sample."""
    for split in ("train", "val", "test"):
        members = [part for n in range(3) for part in _data.sample(f"{n:06}", n, captions(n, 1)[0])]
        _data.shard(folder / f"{split}-000.tar", members)


def picture_rows(folder: Path) -> None:
    """``train-000.parquet`` and its like: a picture's bytes and its captions in each row."""
    folder.mkdir(parents=True, exist_ok=True)
    row = {"image": {"bytes": _data.picture(0), "path": "0.png"}, "caption": captions(0, 2)}
    for split in ("train", "val", "test"):
        pq.write_table(pa.Table.from_pylist([row] * 3), folder / f"{split}-000.parquet")


def entities(folder: Path) -> None:
    """What stands beside sentences and annotations of picture 11: two more pictures like it, and the splits."""
    for number, split in zip((11, 22, 33), ("train", "val", "test"), strict=True):
        for name in ("Sentences/{}.txt", "Annotations/{}.xml"):
            (folder / name.format(number)).write_text((folder / name.format(11)).read_text())
        (folder / f"{split}.txt").write_text(f"{number}\n")
        picture(folder / f"flickr30k-images/{number}.jpg", number, (500, 375))


def features(path: Path, rows: int, seed: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, _data.rows(rows, seed, (32,)))


def word_vectors(path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(path, words=np.array(WORDS), vectors=rng.standard_normal((len(WORDS), 8)).astype(np.float32))


def embeddings(root: Path) -> None:
    """Vectors in files of one's own, taken from the run ``hal``: those of the test split, the training captions as a bank."""
    source = root / "data" / "embed" / "hal"
    for side, letter in (("images", "a"), ("captions", "b")):
        table = pq.read_table(source / f"{side}.parquet")
        ranked = table.filter(pc.equal(table["split"], "test"))
        for name in (f"{side}.parquet", f"{letter}.parquet"):
            pq.write_table(ranked, root / name)
        vectors = ranked["embedding"].combine_chunks().flatten().to_numpy().reshape(len(ranked), -1)
        np.save(root / f"{letter}.npy", vectors)
        if side == "images":
            places = {number: row for row, number in enumerate(ranked["image_id"].to_pylist())}
        else:
            owners = [places[number] for number in ranked["image_id"].to_pylist()]
            np.save(root / "owners.npy", np.array(owners))
            pq.write_table(table.filter(pc.equal(table["split"], "train")), root / "train.parquet")


def evaluations(root: Path) -> None:
    """``DIR/nns`` and ``DIR/csls``."""
    shutil.copytree(root / "data" / "evaluate" / "hal", root / "DIR")


def own_csv(root: Path) -> None:
    """A few pictures in ``photos/`` with captions.csv."""
    rows = ["image,caption,split"]
    for number in range(16):
        split = "train" if number < 8 else "val" if number < 12 else "test"
        picture(root / "photos" / f"{number}.jpg", number)
        rows += [f"{number}.jpg,{text},{split}" for text in captions(number, 2)]
    (root / "photos" / "captions.csv").write_text("\n".join(rows) + "\n")


def overlay(path: Path) -> None:
    path.write_text(
        "replace: nodes\n"
        "datasets: {mine: {format: csv, source: photos/captions.csv}}\n"
        "features: {main: {dataset: mine, backbone: random_filters}}\n"
        "texts: {words: {dataset: mine, method: words, min_count: 1}}\n"
        "noises: {clean: {dataset: mine, protocol: image}}\n"
        "runs: {hal: {dataset: mine, features: main, texts: words, noise: clean, loss: hal, scheme: plain,"
        " similarity: cosine, text: gru, image: linear}}\n"
    )


def photos(folder: Path) -> None:
    """Three, one of them deeper."""
    for number, name in enumerate(("beach.jpg", "park.jpg", "2026/city.jpg")):
        picture(folder / name, number)


def annotations(folder: Path) -> None:
    """COCO's files of two pictures for train and one for val."""
    for first, names in ((0, ("train2017/a.jpg", "train2017/b.jpg")), (2, ("val2017/c.jpg",))):
        part, ids = names[0].split("/")[0], range(first, first + len(names))
        images = [{"id": k, "file_name": name.split("/")[1]} for k, name in zip(ids, names, strict=True)]
        said = [{"id": k, "image_id": k, "caption": f"picture {k}"} for k in ids]
        path = folder / f"annotations/captions_{part}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"images": images, "annotations": said}))
        for k, name in zip(ids, names, strict=True):
            picture(folder / name, k)
