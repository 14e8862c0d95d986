"""vse-pipe localize: what is wrong is one line with its status, and what it prints."""

import json

import pytest

from tests import regions_project as made


@pytest.fixture
def project(call, tmp_path):
    """call: the command line, in ``tmp_path``."""
    made.write_regions_project(tmp_path, toy=made.run_of())
    return tmp_path


def test_a_table_and_one_document(call, project, capsys) -> None:
    capsys.readouterr()
    made.write_embedded("toy")
    status, out, _ = call("localize", "--run", "toy", "--device", "cpu")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[-5:] if line.strip()] == ["all", "cool", "plain", "warm"]
    status, out, _ = call("-q", "localize", "--run", "toy", "--json")
    assert status == 0
    assert json.loads(out)["all"]["mentions"] == 21
    status, out, _ = call("localize", "--run", "toy", "--dry-run")
    assert "runs again  localize toy: 21 mentions" in out


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        (("--run", "toyy"), 2, "error: unknown run 'toyy'; did you mean 'toy'? known: toy"),
        (("--run", "toy"), 3, "error: data/embed/toy/images.parquet does not exist; make it with `vse-pipe embed"),
        (("--run", "toy", "--phrase", "a dog"), 2, "error: give a photo with --image and what to find in it"),
        (("--run", "toy", "--out", "drawn.png"), 2, "error: --out names the drawing of a photo; give one with --image"),
        (("--run", "toy", "--image", "p.png", "--phrase", "a", "--dry-run"), 2, "error: --dry-run tells what a run's"),
        (("--run", "toy", "--image", "photo.png"), 2, "error: give a photo with --image and what to find in it"),
        (("--run", "toy", "--image", "none.png", "--phrase", "a dog"), 3, "error: none.png: cannot be read"),
    ],
)
def test_what_is_wrong_is_one_line(call, project, given, status, message) -> None:
    found, out, err = call("localize", *given)
    lines = [line for line in err.splitlines() if line.startswith("error")]
    assert (found, out, len(lines)) == (status, "", 1)
    assert message in lines[0].replace(f"{project}/", "")
    assert not list(project.glob("data/localize/*/"))
    assert not (project / "localized.png").exists()
