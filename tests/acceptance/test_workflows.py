"""The workflows of .github: what they may do, and every command of theirs run in a small project."""

import re
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.docs.pages import section
from tests.rules.sources import ROOT
from tests.small_project import Project, clone, copy_compiled, set_params

pytestmark = pytest.mark.acceptance

FOLDER = ROOT / ".github" / "workflows"
# Minutes of downloads or tests: that make knows them is all that is checked.
HEAVY = ("make setup", "make lint", "make test", "make acceptance", "make dist", "make docs")


def load(name: str) -> dict:
    return YAML(typ="safe").load((FOLDER / name).read_text(encoding="utf-8"))


def steps(workflow: dict) -> Iterator[dict]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


class Runner:
    """Runs the steps of ``workflow`` in a project, each with what the ones before it left in its environment."""

    def __init__(self, project: Project, temporary: Path, base: str) -> None:
        temporary.mkdir()
        self.project = project
        names = ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
        self.files = {name: temporary / name.lower() for name in names}
        for file in self.files.values():
            file.touch()
        self.environment = {name: str(file) for name, file in self.files.items()}
        self.environment |= {"CI": "true", "RUNNER_TEMP": str(temporary), "GITHUB_BASE_REF": base}
        self.environment["GITHUB_WORKSPACE"] = str(project.root)

    @property
    def summary(self) -> str:
        return self.files["GITHUB_STEP_SUMMARY"].read_text()

    def run(self, workflow: dict) -> dict[str, subprocess.CompletedProcess]:
        """What each step that is not HEAVY gave, by its name; the first that fails is the last."""
        done = {}
        for step in steps(workflow):
            if "run" not in step or step["run"].strip() in HEAVY:
                continue
            done[step["name"]] = result = self._step(step["run"], workflow.get("env", {}))
            if result.returncode:
                break
        return done

    def _step(self, script: str, environment: dict[str, str]) -> subprocess.CompletedProcess:
        added = dict(line.split("=", 1) for line in self.files["GITHUB_ENV"].read_text().splitlines())
        path = [*self.files["GITHUB_PATH"].read_text().split(), self.project.environment["PATH"]]
        # As GitHub runs `shell: bash`.
        command = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
        settings = self.environment | environment | added | {"PATH": ":".join(path)}
        return self.project.call(*command, **settings)


DVC = ("python", "-m", "dvc")  # no fork, which has the hash seed of another process
NAMES = sorted(path.name for path in FOLDER.glob("*.yml"))
# Rights of the job that uploads, of the workflows that have one.
UPLOADS = {
    "docs.yml": {"pages": "write", "id-token": "write"},
    "release.yml": {"contents": "read", "id-token": "write"},
}
TINY = [
    *["datasets.shapes.train=120", "datasets.shapes.val=20", "datasets.shapes.test=20"],
    *[
        "train.epochs=4",
        "train.embed_size=16",
        "train.batch_size=64",
        "train.lr=1e-2",
        "runs.max=null",
        "runs.hal=null",
    ],
    *["grid.inferences=[nns]", "report.examples=2", "evaluate.resamples=20"],
]


@pytest.mark.parametrize("name", NAMES)
def test_least_rights_limits_and_pinned_actions(name):
    workflow = load(name)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["cancel-in-progress"] is (name not in UPLOADS), "an upload must not stop half-way"
    assert workflow["defaults"]["run"]["shell"] == "bash"
    assert "pull_request_target" not in workflow["on"]
    jobs = workflow["jobs"]
    assert all(0 < job["timeout-minutes"] <= 60 for job in jobs.values())
    rights = {job: settings["permissions"] for job, settings in jobs.items() if "permissions" in settings}
    assert rights == ({"publish": UPLOADS[name]} if name in UPLOADS else {})
    uses = {step["uses"] for step in steps(workflow) if "uses" in step}
    assert uses
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action) for action in uses), uses
    options = {step["uses"].partition("@")[0]: step["with"] for step in steps(workflow) if "uses" in step}
    assert options["actions/checkout"] == {"fetch-depth": 0, "persist-credentials": False}


@pytest.mark.parametrize("name", NAMES)
def test_no_address_and_no_expression_in_a_script(name):
    """A title or branch put into a script by GitHub would be run by it: values come as environment variables."""
    assert NAMES == ["ci.yml", "docs.yml", "experiments.yml", "release.yml"]
    text = (FOLDER / name).read_text()
    assert "://" not in text
    assert "index-url" not in text
    scripts = [step["run"] for step in steps(load(name)) if "run" in step]
    assert scripts
    assert not any("${{" in script for script in scripts)


def test_make_knows_the_heavy_targets():
    used = [step.get("run", "").strip() for name in NAMES for step in steps(load(name))]
    assert {*HEAVY} <= {*used}
    here = Project(ROOT)
    for command in HEAVY:
        assert here.run("make", "-n", *command.split()[1:])
    assert here.call("make", "-n", "no-such-target").returncode == 2


def test_a_release_is_of_its_version_and_nothing_is_uploaded_unless_the_owner_says_so(tmp_path):
    workflow = load("release.yml")
    publish = workflow["jobs"]["publish"]
    assert publish["if"] == "vars.PUBLISH == 'true'"
    assert publish["needs"] == "build"
    scripts = {step["name"]: step["run"] for step in steps(workflow) if "run" in step}
    project, run = Project(ROOT), ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    statuses = {
        tag: project.call(*run, scripts["The tag is the version"], GITHUB_REF_NAME=tag).returncode
        for tag in (f"v{version}", f"v{version}1", f"v{version.replace('.', 'x')}")
    }
    assert list(statuses.values()) == [0, 1, 1], statuses
    choose, install = scripts["Install the pinned uv"].splitlines()
    project.call(*run, choose, RUNNER_TEMP=str(tmp_path))
    pin, *digests = (tmp_path / "uv.txt").read_text().splitlines()
    assert pin.startswith("uv==")
    assert all("--hash=sha256:" in line for line in digests)
    assert "--require-hashes" in install


def test_the_portable_settings_are_those_of_the_makefile():
    lines = (ROOT / "Makefile").read_text().replace("\\\n", " ").splitlines()
    line = next(line for line in lines if line.startswith("PORTABLE"))
    settings = dict(word.split("=", 1) for word in line.partition(":=")[2].split())
    assert settings
    assert settings.items() <= load("experiments.yml")["env"].items()


@pytest.fixture(scope="module")
def origin(tmp_path_factory) -> Project:
    """The branch that pull requests go to, as a server has it: without data and without a lock file."""
    return clone(tmp_path_factory.mktemp("origin") / "project", TINY)


def _pull_request(origin: Project, root: Path, edit) -> Project:
    """A fresh checkout of a branch with one commit, its page for plots made."""
    origin.run("git", "clone", "-q", str(origin.root), str(root))
    copy_compiled(root)
    project = Project(root, forked=True)
    project.named()
    project.run("git", "checkout", "-q", "-b", "change")
    edit(root)
    project.commit("change")
    project.run("vse-pipe", "plots")  # of `make setup`
    return project


Steps = tuple[Runner, dict[str, subprocess.CompletedProcess]]


@pytest.fixture(scope="module")
def dropped(origin, tmp_path_factory) -> Steps:
    """A change in code after which nothing is learnt; the runner has no cache."""

    def edit(root: Path) -> None:
        module = root / "pipeline/vse_pipe/train/scheme.py"
        text = module.read_text()
        module.write_text(text.replace("= rate.lr * ", "= 1e-9 * rate.lr * "))
        assert module.read_text() != text

    folder = tmp_path_factory.mktemp("dropped")
    project = _pull_request(origin, folder / "project", edit)
    return _ran(project, folder / "temporary")


def _ran(project: Project, temporary: Path) -> Steps:
    one = Runner(project, temporary, "main")
    return one, one.run(load("experiments.yml"))


def test_a_drop_fails_the_last_step(dropped):
    runner, done = dropped
    *before, gate = done.values()
    assert [step.returncode for step in before] == [0] * len(before), before[-1].stderr[-2000:]
    assert (next(reversed(done))[:20], gate.returncode) == ("No run may lose more", 1)
    assert "rsum fell by" in gate.stderr
    assert "**sum**" in runner.summary
    assert re.search(r"^    error: nns: rsum fell by .*; allowed is 1$", runner.summary, flags=re.M)
    assert "run `make demo` and commit them" in runner.summary


def test_the_base_ran_its_own_code(dropped, origin):
    """The branch's code learns nothing, so a base that used it could not be better."""
    runner, done = dropped
    assert set(re.findall(r"Running stage '(\w+)@?", done["Reproduce the base"].stdout)) >= {"train", "report"}
    rows = re.findall(r"\| sum\.nns\.rsum +\| ([\d.]+) +\| ([\d.]+)", runner.summary)
    assert len(rows) == 2, "once by itself, once among all"
    base, here = map(float, rows[0])
    assert base > here + 50


@pytest.fixture(scope="module")
def harmless(dropped, origin, tmp_path_factory):
    """A change of the report alone, to a branch with a lock file; actions/cache has brought the cache back."""
    before, _ = dropped
    base = before.files["GITHUB_ENV"].read_text().partition("BASE=")[2].strip()
    origin.run("git", "fetch", "-q", str(before.project.root), base)
    origin.run("git", "reset", "-q", "--hard", "FETCH_HEAD")
    folder = tmp_path_factory.mktemp("harmless")
    title = ["report.title=Another title", "report.examples=1"]
    project = _pull_request(origin, folder / "project", lambda root: set_params(root / "params.yaml", title))
    shutil.copytree(before.project.root / ".dvc" / "cache", project.root / ".dvc" / "cache")
    return _ran(project, folder / "temporary")


def test_a_harmless_change_passes_and_a_cache_saves_the_training(harmless):
    runner, done = harmless
    failed = {name: step.stderr[-2000:] for name, step in done.items() if step.returncode}
    assert failed == {}
    assert next(reversed(done)).startswith("No run may lose more")
    assert re.search(r"report\.title +\|", runner.summary)
    assert "error:" not in runner.summary
    assert re.findall(r"Running stage '(\w+)", done["Reproduce the base"].stdout) == ["sources"]
    assert re.findall(r"Running stage '(\w+)", done["Reproduce the pull request"].stdout) == ["sources", "report"]


@pytest.fixture(scope="module")
def walked(harmless):
    """Every command of docs/experiments.md, in order, in the project of the harmless change: what each one shows in
    the page and what it gave."""
    project = harmless[0].project
    project.commit("results")
    walk = []
    for command, shown in page_commands():
        done = project.call("bash", "-c", command)
        walk.append((command, shown, done))
        if command.startswith("dvc queue start"):
            _wait(project)
    return walk


def page_commands() -> list[tuple[str, list[str]]]:
    """(command, the lines below it) of the page's console blocks."""
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    text = section(page, "Experiments of DVC")
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", text, flags=re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def _wait(project: Project) -> None:
    """Until the background worker is done."""
    deadline = time.monotonic() + 600
    while len(re.findall(r"rate-\d .* Success", status := project.run("dvc", "queue", "status"))) < 2:
        assert "Failed" not in status, project.run("dvc", "queue", "logs", "rate-1")
        assert time.monotonic() < deadline, status
        time.sleep(2)


def test_every_command_of_the_page_works(walked):
    assert len(walked) > 12
    for command, _, done in walked:
        # 1: a figure fell, which is what the page shows.
        status = 1 if "--max-drop" in command else 0
        assert done.returncode == status, f"{command}\n{done.stdout[-1000:]}\n{done.stderr[-2000:]}"


def test_the_page_shows_the_tables_that_come(walked):
    """The same columns; of messages, the same words around what differs from call to call."""
    tables = 0
    for command, shown, done in walked:
        header = next((line for line in shown if line.startswith("|")), None)
        if header:
            assert _cells(header) in [_cells(line) for line in done.stdout.splitlines()], command
            tables += 1
    assert tables == 4
    said = {command: done.stdout + done.stderr for command, _, done in walked}
    for command, shown, _ in walked:
        for line in shown:
            if re.match(r"(Queue|Queued|Removed|Changes|Git|Started|Ran|Setting|rate)", line):
                assert line in said[command], command


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split("|")]


def test_queued_experiments_ran_with_their_values(walked):
    (table,) = [done.stdout for command, _, done in walked if command.startswith("dvc exp show")]
    rows = [_cells(line) for line in table.splitlines() if line.startswith("|")]
    rates = {name: row[-2] for row in rows for name in ("rate-1", "rate-2", "slower") if name in row[1]}
    assert rates == {"rate-1": "0.001", "rate-2": "0.002", "slower": "1e-05"}
    scores = {row[2] for row in rows if "rate-" in row[1] or "slower" in row[1]}
    assert len(scores) == 3, "each was trained with its own"
