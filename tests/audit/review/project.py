"""A project with pictures of one colour each, and an audit that found something of every kind."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import pyarrow as pa
from PIL import Image, ImageDraw
from starlette.testclient import TestClient

from tests.command_line import heed_ctrl_c
from tests.sealed import sealed
from tests.toy_project import write_decisions, write_params
from vse_pipe.artifacts import captions, decisions, images
from vse_pipe.artifacts.images import UNREAD
from vse_pipe.audit.review import app, desk
from vse_pipe.core.files import sha256
from vse_pipe.project import paths

COLOURS = {"red": 7, "green": 17, "blue": 27, "white": 37, "teal": 47, "gone": 57}
HOSTILE = "<script>alert(1)</script> & \"quoted', ;\t=cmd"
# kind, id, doubt, why, proposal, other
FOUND = [
    ("pair", 0, 0.95, "the caption of another picture", "picture", 17),
    ("pair", 1, 0.4, "rank 900", "picture", 27),
    ("pair", 2, 0.3, "rank 100", "drop", None),
    ("caption", 3, 0.92, "says nothing", "drop", None),
    ("picture", 37, 0.91, "brightness 1.00", "", None),
    ("duplicate", 27, 0.99, "the same bytes", "merge", 17),
    ("duplicate", 47, 0.5, "cosine 0.97", "merge", 17),
    ("duplicate_caption", 4, 0.6, "the same words", "merge", 1),
    ("leak", 57, 0.97, "cosine 0.998", "move", 7),
]
TEXTS = ["a red square", HOSTILE, "a blue square", "image", "a teal square", "a gone square"]


def write_project(root: Path) -> None:
    """``root`` with params.yaml, the prepared data set ``toy`` and its findings."""
    write_params(root)
    (root / "photos").mkdir()
    for name in COLOURS:
        if name != "gone":
            picture = Image.new("RGB", (480, 320), name)
            ImageDraw.Draw(picture).ellipse((160, 80, 320, 240), fill="gold", outline="black", width=4)
            picture.save(root / "photos" / f"{name}.png")
    with chdir(root):
        folder = paths.prepared("toy")
        folder.mkdir(parents=True)
        ids, files = list(COLOURS.values()), [f"{name}.png" for name in COLOURS]
        sizes = {name: pa.array([480] * len(ids), pa.int32()) for name in ("width", "height")}
        splits = ["train"] * 5 + ["test"]
        digests = [sha256(Path("photos", file)) if Path("photos", file).exists() else UNREAD for file in files]
        columns = {"image_id": ids, "file": files, "split": splits, **sizes, "sha256": digests}
        images.write(folder, pa.table(columns), "photos")
        columns = {"caption_id": range(len(TEXTS)), "image_id": ids, "text": TEXTS, "split": splits}
        captions.write(folder, pa.table({name: list(column) for name, column in columns.items()}))
        sealed(folder)
        write_findings()


def write_findings() -> None:
    rows = [dict(zip(("kind", "id", "doubt", "why", "proposal", "other"), row, strict=True)) for row in FOUND]
    write_decisions("toy", rows, path=str(paths.audited_pairs("toy", None) / decisions.FINDINGS))


def opened(path: Path | None = None) -> desk.ReviewDesk:
    """The desk of the project in the working directory."""
    return desk.open_desk("toy", None, path)


def client(by: str = "anna", path: Path | None = None) -> TestClient:
    made = app.create(opened(path), by)
    return TestClient(made, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


def decide(page: TestClient, name: str, decision: str, group: bool = False, status: int = 200) -> dict:
    kind, _, number = name.partition("/")
    document = {"kind": kind, "id": int(number), "decision": decision, "group": group}
    answer = page.post("/api/decisions", json=document)
    assert answer.status_code == status, answer.text
    return answer.json()


def find(page: TestClient, **asked: str) -> dict:
    answer = page.get("/api/finding", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def name_of(answer: dict) -> str | None:
    finding = answer["finding"]
    return finding and f"{finding['kind']}/{finding['id']}"


@contextmanager
def started(root: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen]]:
    """``vse-pipe review`` as a process: the page's address, and the process."""
    command = [
        sys.executable,
        "-c",
        "from vse_pipe.cli import main; main()",
        "review",
        "--dataset",
        "toy",
        "--port",
        "0",
    ]
    process = subprocess.Popen(
        [*command, *arguments], cwd=root, stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c, text=True
    )
    said = ""
    try:
        while not (ready := re.search(r"reviewing at (http://\S+/) until", said)):
            line = process.stderr.readline()
            assert line, f"ended before it was ready: {said}"
            said += line
        yield ready[1], process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def rows_of(path: Path) -> list[tuple]:
    """(kind/id, decision, by) of each row of a decisions file."""
    rows = decisions.read(path)
    return [(f"{row.kind}/{row.id}", row.decision, row.by) for row in rows.itertuples()]


def post(url: str, name: str, decision: str) -> dict:
    """A decision sent to a started page."""
    import urllib.request

    kind, _, number = name.partition("/")
    content = json.dumps({"kind": kind, "id": int(number), "decision": decision}).encode()
    request = urllib.request.Request(f"{url}api/decisions", content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
