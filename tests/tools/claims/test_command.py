"""`vse-pipe claims` as a user meets it."""

import json

import pytest

from tests.command_line import caller
from tests.report.test_claims import claim, write


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vse_pipe.core.console.stdout.width", 240)
    write(tmp_path, title="Two | claims", claims=[claim(), claim(left="lone", text="lone beats weak")])
    return caller(monkeypatch, capsys)


def test_json_has_the_numbers_behind_each_verdict(run):
    status, out, err = run("claims", "claims.yaml", "--json", "--resamples", "60")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["title"], found["resamples"], found["seed"]) == ("Two | claims", 60, 1)
    first, second = found["claims"]
    assert (first["verdict"], first["left"], len(first["left_values"])) == ("holds", "strong (nns)", 3)
    means = [sum(first[f"{side}_values"]) / 3 for side in ("left", "right")]
    assert first["difference"] == pytest.approx(means[0] - means[1], abs=1e-5)
    assert first["interval"][0] < first["difference"] < first["interval"][1]
    assert (second["verdict"], second["why"]) == ("no verdict", "lone has 1 training, the file asks for 2")
    assert "interval" not in second


def test_markdown_and_the_terminal_say_the_same(run):
    status, out, _ = run("claims", "claims.yaml", "--md", "--resamples", "60")
    assert status == 0
    lines = out.splitlines()
    assert lines[2] == "1 hold, 0 do not hold, 0 cannot be told from these data, 1 without a verdict"
    row = next(line for line in lines if line.startswith("| strong beats weak | Table 1 | rsum, left greater |"))
    assert row.endswith("| holds |")
    assert " ± " in row
    text = " ".join(run("claims", "claims.yaml", "--resamples", "60")[1].split())
    assert "strong beats weak" in text
    assert "no verdict: lone has 1 training" in text


def test_a_narrow_terminal_has_an_interval_in_one_line(run, monkeypatch):
    monkeypatch.setattr("vse_pipe.core.console.stdout.width", 80)
    first = json.loads(run("claims", "claims.yaml", "--json", "--resamples", "60")[1])["claims"][0]
    text = run("claims", "claims.yaml", "--resamples", "60")[1]
    assert "{:+.2f} to {:+.2f}".format(*first["interval"]) in text


def test_packaged_claims_need_their_runs_or_leave_to_skip_them(run):
    status, _, err = run("claims", "papers")
    assert (status, "error: unknown run 'k3'" in err, len(err.splitlines()) > 10) == (2, True, True)
    status, out, _ = run("claims", "papers", "--skip-unknown", "--json")
    claims = json.loads(out)["claims"]
    assert (status, {one["verdict"] for one in claims}) == (0, {"no verdict"})


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("nothing.yaml",), 4, "error: nothing.yaml: no such file of claims"),
        (("paper",), 4, "did you mean 'papers'?"),
        (("claims.yaml", "--md", "--json"), 2, "--md and --json exclude each other"),
    ],
)
def test_what_is_asked_in_vain(run, arguments, status, message):
    found, _, err = run("claims", *arguments)
    assert (found, message in err) == (status, True), err
