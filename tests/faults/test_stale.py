"""Each upstream artefact made anew, and then each reader called: the right result or status 5, never a join by old numbers."""

import contextlib
import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.sealed import sealed
from tests.search import project as artefacts
from vse_pipe.artifacts import captions, identity, images, model_files
from vse_pipe.audit.data import audit_data
from vse_pipe.audit.review.desk import open_desk
from vse_pipe.audit.stage import audit
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import sha256
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.export.export import export_run
from vse_pipe.export.pack import pack
from vse_pipe.extract.stage import extract
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject, teach
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.stages import nodes
from vse_pipe.report.stage import report
from vse_pipe.search.engine import Engine
from vse_pipe.tools.check import stale_problem
from vse_pipe.tools.compare import compare
from vse_pipe.train.stage import train

RUNS = ("sum", "given")
CRITERIA = ["nns", "csls"]
SECTIONS: dict = {
    "runs": {name: artefacts.RUNS[name] for name in RUNS},
    "ensembles": {"both": {"runs": ["sum", "given"]}},
    "teachers": {"taught": {"run": "sum", "dataset": "toy", "noise": "clean"}},
    "grid": {"inferences": CRITERIA},
    "evaluate": {"resamples": 10},
    "report": {"examples": 1},
}


def params(**changes: object) -> Params:
    """Of params.yaml in the working directory; made and read once, which takes longer than most readers do."""
    text, found = _loaded(json.dumps(changes))
    Path("params.yaml").write_text(text)
    return found


@functools.cache
def _loaded(changes: str) -> tuple[str, Params]:
    found = artefacts.params(Path(), **{**SECTIONS, **json.loads(changes)})
    return Path("params.yaml").read_text(), found


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Every artefact, before anything is made anew."""
    root = tmp_path_factory.mktemp("stale")
    with contextlib.chdir(root):
        artefacts.write(root, RUNS, leak=True)
        for name in (*RUNS, "both"):
            evaluate(params(), name, CRITERIA, "cpu")
        audit(params(), "sum", device="cpu")
        audit_data(params(), "toy", "clean")
        _search("csls")
        report(params())
    return root


# What is made anew.


def _prepared(change: Callable[[dict, dict], None]) -> None:
    folder = paths.prepared("toy")
    pictures, texts = images.read(folder), captions.read(folder)
    rows = pictures.to_pydict(), texts.to_pydict()
    change(*rows)
    images.write(folder, pa.table(rows[0], schema=images.SCHEMA.remove_metadata()), str(images.root(pictures)))
    captions.write(folder, pa.table(rows[1], schema=captions.SCHEMA.remove_metadata()))
    sealed(folder)


def row_on_top() -> None:
    """A picture of test with a caption, of which all others move on by one number."""

    def change(pictures: dict, texts: dict) -> None:
        last = pictures["image_id"][-1] + 3
        moved = dict(zip(pictures["image_id"], [*pictures["image_id"][1:], last], strict=True))
        first = {"image_id": pictures["image_id"][0], "split": "test"}
        about = {**first, "file": "new.png", "width": 40, "height": 40, "sha256": "9"}
        shutil.copy(Path(artefacts.ROOT) / pictures["file"][0], Path(artefacts.ROOT) / "new.png")
        for name, values in pictures.items():
            new = [moved[one] for one in values] if name == "image_id" else values
            pictures[name] = [about[name], *new]
        said = {**first, "caption_id": texts["caption_id"][0], "text": "a new disc"}
        texts["image_id"] = [moved[one] for one in texts["image_id"]]
        texts["caption_id"] = [one + 1 for one in texts["caption_id"]]
        for name, values in texts.items():
            texts[name] = [said[name], *values]

    _prepared(change)


def picture(split: str) -> None:
    def change(pictures: dict, texts: dict) -> None:
        pictures["sha256"][pictures["split"].index(split)] = "9" * 64

    _prepared(change)


def caption(split: str) -> None:
    def change(pictures: dict, texts: dict) -> None:
        texts["text"][texts["split"].index(split)] = "a green box, seen from above"

    _prepared(change)


def other_split() -> None:
    """A picture of val becomes one of test."""

    def change(pictures: dict, texts: dict) -> None:
        place = pictures["split"].index("val")
        pictures["split"][place] = "test"
        own = np.array(texts["image_id"]) == pictures["image_id"][place]
        texts["split"] = np.where(own, "test", texts["split"]).tolist()

    _prepared(change)


def trained() -> None:
    train(params(train={**artefacts.SECTIONS["train"], "lr": 0.03}), "sum", "cpu")


def embedded() -> None:
    """By a model that was trained anew, too."""
    trained()
    embed(params(), "sum", "cpu")


def injected() -> None:
    inject(params(noises={"clean": {"dataset": "toy", "protocol": "caption", "rate": 0.5}}), "clean")


def extracted() -> None:
    options = {**artefacts.SECTIONS["features"], "filters": {**artefacts.SECTIONS["features"]["filters"], "filters": 8}}
    extract(params(features=options), "filters", "cpu")


def extracted_texts() -> None:
    extract_texts(params(texts={"words": {"dataset": "toy", "method": "words", "min_count": 3}}), "words")


# Who reads. What each returns is the same for the same inputs.


def _search(criterion: str = "nns") -> object:
    hits = Engine.open(params(), "sum", criterion, "test", "cpu").by_text("a red disc", 5).hits
    return [(hit.image_id, hit.file, hit.text, hit.score) for hit in hits]


def _report(**sections: object) -> object:
    shutil.rmtree("reports")
    report(params(**sections))
    return Path("reports/metrics.json").read_text()


def _compare() -> object:
    found = compare("sum", ["given"], Path.cwd(), params(), resamples=20)
    return [(row.address, row.difference) for one in found for row in one.rows]


def _check() -> None:
    """What it finds is raised, as the command ends with its status."""
    problems = [problem for node in nodes(params()) if node.out.exists() and (problem := stale_problem(node))]
    if problems:
        raise IntegrityError("\n".join(problem.line for problem in problems))


def _train() -> object:
    return sha256(train(params(), "sum", "cpu") / model_files.MODEL)


def _taught() -> object:
    return (teach(params(), "taught") / "pairs.parquet").read_bytes()


READERS: dict[str, Callable[[], object]] = {
    "train": _train,
    "teach": _taught,
    "embed": lambda: sha256(embed(params(), "sum", "cpu") / "images.parquet"),
    "evaluate": lambda: evaluate(params(), "sum", CRITERIA, "cpu"),
    "ensemble": lambda: evaluate(params(), "both", CRITERIA, "cpu"),
    "search": _search,
    "search against hubs": lambda: _search("csls"),
    "export": lambda: export_run(params(), "sum", "csls", "npy", "text_to_image", Path("out"), "cpu"),
    "audit": lambda: audit(params(), "sum", device="cpu"),
    "audit of pictures": lambda: audit_data(params(), "toy"),
    "audit of pairs": lambda: audit_data(params(), "toy", "clean"),
    "report": _report,
    "audited": lambda: _report(report={"examples": 1, "audits": ["sum"]}),
    "audited pairs": lambda: _report(report={"examples": 1, "cleaning": {"clean": "toy"}}),
    "compare": _compare,
    "pack": lambda: pack(params(), "sum", Path("packed"), None),
    "check": _check,
}
# refused: status 5. same: nothing that it joins has changed. anew: it reads what there is now.
REFUSED, SAME, ANEW = "refused", "same", "anew"
_ALL = dict.fromkeys(READERS, REFUSED)
_SEARCHED = ("search", "search against hubs")
_OF_TEST = dict.fromkeys(("evaluate", "ensemble", *_SEARCHED, "export", "report", "compare"), SAME)
_OF_TRAIN = _ALL | _OF_TEST
_AUDITED = dict.fromkeys(("audit of pictures", "audit of pairs"), SAME)
_AUDITS = _AUDITED | {"audited pairs": SAME}
_OF_FEATURES = _ALL | _OF_TEST | _AUDITS | {"train": ANEW, "teach": SAME, "audited": SAME}
_OF_PAIRS = _OF_FEATURES | {"audit of pairs": ANEW, "audited pairs": REFUSED, "audited": REFUSED}
_OF_VECTORS = ("train", "teach", "embed", "evaluate", "ensemble", *_SEARCHED, "export", "audit")
# What is made anew, and what each reader then does.
CASES: dict[str, tuple[Callable[[], None], dict[str, str]]] = {
    "a row on top": (row_on_top, _ALL),
    "a picture of test": (lambda: picture("test"), _ALL),
    "a picture of train": (lambda: picture("train"), _OF_TRAIN),
    "a caption of test": (lambda: caption("test"), _ALL | {"audit of pictures": ANEW}),
    "a caption of train": (lambda: caption("train"), _OF_TRAIN | {"audit of pictures": ANEW}),
    "another split": (other_split, _ALL | {"audit of pictures": ANEW}),
    "train": (trained, _ALL | _AUDITED | {"train": ANEW, "embed": ANEW, "audit": ANEW, "audited pairs": REFUSED}),
    "embed": (embedded, _ALL | _AUDITED | dict.fromkeys(_OF_VECTORS, ANEW)),
    "inject": (injected, _OF_PAIRS | {"teach": ANEW, "embed": SAME}),
    "extract": (extracted, _OF_FEATURES),
    # A sentence is read with the vocabulary of the texts.
    "texts": (extracted_texts, _OF_FEATURES | dict.fromkeys(_SEARCHED, REFUSED)),
}


@pytest.fixture(scope="module")
def before(whole, tmp_path_factory) -> dict[str, object]:
    found = {}
    for name, reader in READERS.items():
        root = tmp_path_factory.mktemp("before") / "project"
        shutil.copytree(whole, root)
        with contextlib.chdir(root):
            found[name] = reader()
    return found


@pytest.fixture(scope="module")
def case(whole, tmp_path_factory, request) -> tuple[Path, dict[str, str]]:
    """The project with something made anew, and what each reader does."""
    root = tmp_path_factory.mktemp("anew") / "project"
    shutil.copytree(whole, root)
    change, expected = CASES[request.param]
    with contextlib.chdir(root):
        change()
        params()
    return root, expected


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", CASES, indirect=True)
def test_an_artefact_made_anew_is_joined_with_nothing_that_was_made_from_the_old(
    before, case, reader, tmp_path, monkeypatch
):
    root, expected = case
    monkeypatch.chdir(shutil.copytree(root, tmp_path / "project"))
    if expected[reader] == REFUSED:
        with pytest.raises(IntegrityError, match=r"run `(dvc repro|vse-pipe) ") as caught:
            READERS[reader]()
        assert reader in ("check", "pack") or "\n" not in str(caught.value)
    else:
        found = READERS[reader]()
        assert expected[reader] == ANEW or json.dumps(found, default=repr) == json.dumps(before[reader], default=repr)


@pytest.mark.parametrize("bank", ["test", "train"])
def test_the_split_of_the_queries_that_correct_hubs_counts(whole, tmp_path, monkeypatch, bank):
    monkeypatch.chdir(shutil.copytree(whole, tmp_path / "project"))
    evaluate(params(evaluate={"resamples": 10, "bank": bank}), "sum", ["csls"], "cpu")
    picture("train")
    with pytest.raises(IntegrityError, match="split train") if bank == "train" else contextlib.nullcontext():
        identity.require_current(paths.evaluations("sum"))
    picture("val")  # which chooses parameters
    with pytest.raises(IntegrityError, match=r"split .*val"):
        identity.require_current(paths.evaluations("sum"))


def test_findings_on_pairs_are_reviewed_beside_those_pairs_alone(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(whole, tmp_path / "project"))
    assert len(open_desk("toy", "clean", None).rows)
    injected()
    with pytest.raises(
        IntegrityError, match=r"made from other pairs .*; run `vse-pipe audit --dataset toy --noise clean` again"
    ):
        open_desk("toy", "clean", None)


def test_criteria_of_other_members_go_and_members_that_left_are_forgotten(whole, tmp_path, monkeypatch):
    """The ensemble of two runs becomes that of one of them and words, and the other is embedded anew."""
    monkeypatch.chdir(shutil.copytree(whole, tmp_path / "project"))
    alone = {"ensembles": {"both": {"runs": ["given", "bm25"], "rule": "rrf"}}}
    evaluate(params(**alone), "both", ["nns"], "cpu")
    out = paths.evaluations("both")
    assert sorted(path.parent.name for path in out.glob("*/metrics.json")) == ["nns"]
    embedded()
    identity.require_current(out)
