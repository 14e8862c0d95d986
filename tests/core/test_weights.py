"""Where weights come from, and every way in which they can be wrong or missing."""

import hashlib
import http.client
import io
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from vse_pipe.core.errors import IntegrityError, MissingResource, UsageError
from vse_pipe.core.weights import WeightsFile, cache, locate, source_of
from vse_pipe.extract.backbones.options import ImageParams

CONTENT = b"weights"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
URL = f"https://example.org/models/net-{DIGEST[:8]}.pth"
SOURCE = source_of(URL)


class Response(io.BytesIO):
    def info(self) -> http.client.HTTPMessage:
        return http.client.HTTPMessage()


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> dict:
    """network["answer"] is what the opener gives, or raises."""
    said: dict = {"answer": urllib.error.URLError("Name or service not known"), "asked": []}

    def opener(request: urllib.request.Request):
        said["asked"].append(request.full_url)
        if isinstance(said["answer"], Exception):
            raise said["answer"]
        return said["answer"]

    monkeypatch.setattr("torch.hub.urlopen", opener)
    return said


def test_the_digest_is_read_from_the_name() -> None:
    assert WeightsFile(URL, f"net-{DIGEST[:8]}.pth", DIGEST[:8]) == SOURCE
    assert source_of("https://x/mnasnet0.5_top1_67.823-3ffadce67e.pth").digest == "3ffadce67e"
    assert source_of("https://x/net-v2.pth").digest == ""


def test_downloads_once_and_checks_every_time(folder: Path, network: dict) -> None:
    network["answer"] = Response(CONTENT)
    found = locate(ImageParams(), SOURCE, seed=1)
    assert found.path == folder / "weights" / SOURCE.file
    assert found.about == {"origin": "published", "url": URL, "file": SOURCE.file, "sha256": DIGEST, "pinned": True}
    assert locate(ImageParams(), SOURCE, seed=1) == found
    assert network["asked"] == [URL]
    found.path.write_bytes(b"tampered")
    with pytest.raises(
        IntegrityError, match=f"sha256 is {hashlib.sha256(b'tampered').hexdigest()}, expected {DIGEST[:8]}"
    ):
        locate(ImageParams(), SOURCE, seed=1)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (urllib.error.URLError("Name or service not known"), "Name or service not known"),
        (urllib.error.HTTPError(URL, 404, "Not Found", http.client.HTTPMessage(), None), "Not Found"),
        (TimeoutError("timed out"), "timed out"),
        (ConnectionResetError("reset by peer"), "reset by peer"),
    ],
    ids=["no network", "404", "timeout", "reset"],
)
def test_unreachable_says_how_to_get_it_by_hand(folder: Path, network: dict, answer, reason: str) -> None:
    network["answer"] = answer
    with pytest.raises(MissingResource) as caught:
        locate(ImageParams(), SOURCE, seed=1)
    target = folder / "weights" / SOURCE.file
    for part in (URL, reason, f"sha256 {DIGEST[:8]}", f"put it at {target}"):
        assert part in str(caught.value)
    assert caught.value.exit_status == 4
    assert list((folder / "weights").iterdir()) == []


@pytest.mark.parametrize("came", [b"<html>please log in</html>", CONTENT[:-1]], ids=["another", "cut short"])
def test_something_else_was_downloaded(folder: Path, network: dict, came: bytes) -> None:
    network["answer"] = Response(came)
    with pytest.raises(
        IntegrityError, match=rf'expected "{DIGEST[:8]}", got "[0-9a-f]{{64}}"\); what came was not kept'
    ):
        locate(ImageParams(), SOURCE, seed=1)
    assert list((folder / "weights").iterdir()) == []


def test_without_a_published_digest_params_must_pin_it(folder: Path, network: dict) -> None:
    bare = WeightsFile("https://example.org/model.safetensors", "net.safetensors", "")
    with pytest.raises(UsageError, match=r"no digest is known for https://example.org/model.safetensors: set sha256"):
        locate(ImageParams(), bare, seed=1)
    network["answer"] = Response(CONTENT)
    found = locate(ImageParams(sha256=DIGEST), bare, seed=1)
    assert found.path.name == f"net-{DIGEST[:8]}.safetensors"
    assert len(network["asked"]) == 1


def test_params_may_not_contradict_the_published_digest(folder: Path) -> None:
    with pytest.raises(UsageError, match="contradicts the published digest"):
        locate(ImageParams(sha256="0" * 64), SOURCE, seed=1)


def test_a_full_digest_in_params_is_compared_whole(folder: Path) -> None:
    path = folder / "weights" / SOURCE.file
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    wrong = DIGEST[:8] + "0" * 56
    with pytest.raises(IntegrityError, match=f"expected {wrong}"):
        locate(ImageParams(sha256=wrong), SOURCE, seed=1)


def test_random_never_looks_for_a_file(folder: Path, network: dict) -> None:
    found = locate(ImageParams(weights="random"), SOURCE, seed=3)
    assert found.path is None
    assert found.about == {"origin": "random", "seed": 3}
    assert network["asked"] == []


def test_a_path_is_recorded_and_a_missing_pin_is_said(folder: Path, capsys: pytest.CaptureFixture) -> None:
    Path("own.pth").write_bytes(CONTENT)
    found = locate(ImageParams(weights="own.pth"), None, seed=1)
    assert found.about == {"origin": "file", "file": "own.pth", "sha256": DIGEST, "pinned": False}
    assert f"sha256: {DIGEST}" in capsys.readouterr().err
    assert locate(ImageParams(weights="own.pth", sha256=DIGEST), None, seed=1).about["pinned"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"weights": "gone.pth"}, MissingResource, "gone.pth: no such weights file"),
        ({"weights": "own.pth", "sha256": "0" * 64}, IntegrityError, f"own.pth: sha256 is {DIGEST}, expected 0000"),
    ],
)
def test_a_path_that_will_not_do(folder: Path, options: dict, error: type, message: str) -> None:
    Path("own.pth").write_bytes(CONTENT)
    with pytest.raises(error, match=message):
        locate(ImageParams(**options), None, seed=1)


def test_the_cache_is_torchvisions_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VSE_PIPE_WEIGHTS", "/w")
    assert cache() == Path("/w")
    monkeypatch.delenv("VSE_PIPE_WEIGHTS")
    monkeypatch.setenv("TORCH_HOME", "/t")
    assert cache() == Path("/t/hub/checkpoints")
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache() == Path("/x/torch/hub/checkpoints")
