"""What `dvc repro` makes after files from outside have changed, against a project that is made from scratch, byte for byte."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.small_project import Project, clone
from vse_pipe.core.files import sha256

pytestmark = pytest.mark.acceptance

# Files with seconds in them.
TIMED = ("history.csv", "metrics.json")
NAMES = ("prepare", "extract", "inject", "train", "embed", "evaluate")
RUN = "dataset: mine, features: small, texts: words, noise: clean, loss: sum, scheme: plain, similarity: cosine"
VALUES = [
    "datasets={mine: {format: csv, source: photos/captions.csv, images: pictures, on_error: skip}}",
    "features={small: {dataset: mine, backbone: random_filters, filters: 4, image_size: 16}}",
    "texts={words: {dataset: mine, method: words, min_count: 1}, means: {dataset: mine, method: mean_vectors, vectors: vectors.txt}}",
    "noises={clean: {dataset: mine, protocol: image}}",
    f"runs={{sum: {{{RUN}, text: gru, image: linear}}}}",
    "grid.inferences=[nns]",
    "train={epochs: 1, batch_size: 8, embed_size: 4}",
    "text.gru={word_dim: 2, vectors: start.txt}",
    "evaluate={resamples: 0, judgements: grades.csv}",
    "report.examples=0",
]
TARGETS = ("evaluate@sum", "extract_texts@means")
WORDS = ("red", "green", "blue", "square", "round", "small")
TABLE, PICTURES = Path("photos/captions.csv"), Path("photos/pictures")


def _picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (20, 20, 3), np.uint8)
    Image.fromarray(pixels).save(path)


def _vectors(path: Path, seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(len(WORDS), 2)).tolist()
    lines = (f"{word} {one} {other}" for word, (one, other) in zip(WORDS, rows, strict=True))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _edit(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def _raw(root: Path) -> None:
    splits = ["train"] * 8 + ["val"] * 2 + ["test"] * 4
    rows = [f"{n}.png,a {WORDS[n % 6]} {WORDS[n % 5]} thing,{split}" for n, split in enumerate(splits)]
    for number in range(len(splits)):
        _picture(root / PICTURES / f"{number}.png", number)
    (root / TABLE).write_text("image,caption,split\n" + "\n".join(rows) + "\n", encoding="utf-8")
    _vectors(root / "vectors.txt", 0)
    _vectors(root / "start.txt", 1)
    (root / "grades.csv").write_text("image_id,caption_id,grade\n10,10,3\n11,11,2\n", encoding="utf-8")


def _replaced_in_disguise(root: Path) -> None:
    """Size and time of change as before."""
    path = root / PICTURES / "3.png"
    before, content = path.stat(), bytearray(path.read_bytes())
    content[-20] ^= 1  # in the digest of the last chunk, which is none of the picture
    path.write_bytes(bytes(content))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _added(root: Path) -> None:
    _picture(root / PICTURES / "new.png", 200)
    with (root / TABLE).open("a", encoding="utf-8") as file:
        file.write("new.png,a red round thing,test\n")


# Each with the stages that DVC has to run besides those that always run and those that depend on these.
CHANGES = {
    "a picture in disguise": (_replaced_in_disguise, "prepare@mine"),
    "a new picture": (_added, "prepare@mine"),
    "a picture is gone": (lambda root: (root / PICTURES / "13.png").unlink(), "prepare@mine"),
    "vectors of texts": (lambda root: _vectors(root / "vectors.txt", 2), "extract_texts@means"),
    "vectors of a run": (lambda root: _vectors(root / "start.txt", 3), "train@sum"),
    "grades": (lambda root: _edit(root / "grades.csv", "11,11,2", "11,12,2"), "evaluate@sum"),
}


def _outputs(project: Project) -> dict[str, str]:
    """Digests of everything that the stages wrote but for the learning curve, which says how many seconds it took."""
    folder = project.root / "data"
    files = [path for name in NAMES for path in (folder / name).rglob("*") if path.is_file()]
    kept = [path for path in files if not str(path).endswith((".lock", ".timing.json", *TIMED))]
    return {str(path.relative_to(folder)): sha256(path) for path in kept}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    made = clone(tmp_path_factory.mktemp("sources") / "project", VALUES)
    _raw(made.root)
    made.run("dvc", "repro", *TARGETS)
    return made


def _from_scratch(project: Project, root: Path) -> Project:
    """By hand, which gives the bytes that DVC's calls give."""
    shutil.copytree(project.root, root, ignore=shutil.ignore_patterns("data", "dvc.lock", "cache", "tmp"))
    made = Project(root, forked=True)
    for stage in ("sources", *NAMES):
        made.run("vse-pipe", stage)
    return made


def test_nothing_runs_where_nothing_has_changed(project):
    for path in (project.root / PICTURES).iterdir():
        path.touch()
    told = project.run("dvc", "repro", *TARGETS)
    assert [line for line in told.splitlines() if line.startswith("Running")] == ["Running stage 'sources':"]


@pytest.mark.parametrize("change", CHANGES)
def test_outputs_are_those_of_a_project_made_from_scratch(project, tmp_path, change):
    apply, stage = CHANGES[change]
    before = _outputs(project)
    apply(project.root)
    told = project.run("vse-pipe", "check", status=5)
    assert f"; run `dvc repro {stage}`" in told
    told = project.run("dvc", "repro", *TARGETS)
    assert f"Running stage '{stage}'" in told
    # One of the 14 of before may be damaged by an earlier change.
    assert change != "a new picture" or re.search("1[34] of 15 pictures computed before", told)
    assert _outputs(project) != before
    assert _outputs(project) == _outputs(_from_scratch(project, tmp_path / "scratch"))
