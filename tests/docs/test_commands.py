"""Every command that the documentation shows is run: page by page from top to bottom, others in code spans one by one."""

import pytest

from tests.docs import pages, rewritten
from tests.docs.pages import Block, Command
from tests.rules.sources import ROOT

# Pages that a test of their own walks through, for they need more than a project in which everything has run.
ELSEWHERE = {
    "docs/extending.md": "tests/docs/test_extending.py",
    "docs/experiments.md": "tests/acceptance/test_workflows.py",
    "docs/serve.md": "tests/tools/serve/test_documented.py",
}
WALKED = [
    pages.name(path)
    for path in pages.PAGES
    if any(isinstance(step, Command) for step in pages.steps(path)) and pages.name(path) not in ELSEWHERE
]
IN_BLOCKS = {
    rewritten.to_run(step) for page in WALKED for step in pages.steps(ROOT / page) if isinstance(step, Command)
}
# What runs anyway when a page is walked, or for another line, need not run again.
INLINE = {
    run: command
    for path in pages.PAGES
    for command in pages.inline_commands(path)
    if (run := rewritten.to_run(command)) not in IN_BLOCKS
}


@pytest.mark.acceptance
@pytest.mark.parametrize("page", WALKED)
def test_the_commands_of_a_page_in_their_order(page, copies):
    project = copies(page)
    for step in pages.steps(ROOT / page):
        if isinstance(step, Block):
            for file in step.files:
                (project.root / file).parent.mkdir(parents=True, exist_ok=True)
                (project.root / file).write_text(step.text, encoding="utf-8")
        else:
            project.run(rewritten.to_run(step))


@pytest.fixture(scope="module")
def shared(copies):
    return copies("text")


@pytest.mark.acceptance
@pytest.mark.parametrize("command", INLINE.values(), ids=str)
def test_a_command_in_a_line_of_text(command, shared):
    shared.run("git checkout -q .")
    shared.run(rewritten.to_run(command))


def test_every_rule_is_needed():
    shown = [step for path in pages.PAGES for step in pages.steps(path) if isinstance(step, Command)]
    shown += [command for path in pages.PAGES for command in pages.inline_commands(path)]
    used = [rewritten.of(command) for command in shown]
    for rule in rewritten.TABLE:
        assert rule in used, f"no command needs the rule for {rule.shown}"
        assert rule.why


@pytest.mark.parametrize("page", ELSEWHERE)
def test_a_page_walked_elsewhere_is_read_there(page):
    assert page.rpartition("/")[2] in (ROOT / ELSEWHERE[page]).read_text(encoding="utf-8")
