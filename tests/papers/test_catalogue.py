"""Files of papers: what they may hold, and how settings are merged."""

import copy
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.rules.sources import ROOT
from vse_pipe.core.errors import ParamsError
from vse_pipe.papers import catalogue
from vse_pipe.papers.catalogue import Settings, merged

PAPER = {
    "title": "A paper",
    "authors": "Somebody",
    "venue": "Somewhere 2020",
    "remarks": {"guess": "the paper does not say"},
    "settings": {
        "sum": {"loss": "sum", "options": {"loss": {"margin": 0.1}}, "train": {"lr": 0.001, "epochs": 7}},
        "code": {"options": {"loss": {"margin": 0.3}}},
    },
    "blocks": [
        {
            **{"table": "1", "dataset": "flickr30k", "protocol": "1k", "columns": ["i2t.r1", "t2i.r1"]},
            "settings": ["vse"],
            "rows": [
                {"id": "1.1", "method": "SUM", "settings": ["sum"], "published": [30.0, 20.0], "assumed": "guess"},
                {"id": "1.2", "method": "another's", "quoted": True, "published": [None, 21.5]},
            ],
        }
    ],
}


def write(path: Path, content: dict) -> Path:
    with path.open("w", encoding="utf-8") as file:
        YAML().dump(content, file)
    return path


def changed(*address: str | int, to: object) -> dict:
    """The paper with the value at ``address`` set to ``to``, or taken out when that is None."""
    content = copy.deepcopy(PAPER)
    place = content
    for step in address[:-1]:
        place = place[step]
    if to is None:
        del place[address[-1]]
    else:
        place[address[-1]] = to
    return content


ROWS = ("blocks", 0, "rows")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed("titel", to="x"), r"paper\.yaml titel: unknown key"),
        (changed(*ROWS, 0, "published", to=["much"]), r"paper\.yaml blocks\.0\.rows\.0\.published\.0"),
    ],
)
def test_a_bad_file_is_refused_with_its_address(tmp_path, content, message):
    with pytest.raises(ParamsError, match=message):
        catalogue.read(write(tmp_path / "paper.yaml", content))


@pytest.mark.parametrize("name", catalogue.names())
def test_the_names_in_a_packaged_paper_are_there(name):
    """Settings, data sets, remarks and rows that train others; ids are given once."""
    paper, shared = catalogue.load(name), catalogue.common()
    assert not set(shared.settings) & set(paper.settings)
    rows = [row for block in paper.blocks for row in block.rows]
    ids = [row.id for row in rows]
    assert len(set(ids)) == len(ids)
    assert {block.dataset for block in paper.blocks} <= set(shared.datasets)
    nodes = [*paper.blocks, *rows]
    used = {name for node in nodes for names in (node.settings, *node.variants.values()) for name in names}
    assert used <= {*shared.settings, *paper.settings}
    assert {row.assumed for row in rows} <= {"", *paper.remarks}
    assert {row.trains for row in rows} <= {None, *ids}
    # A row has settings, is quoted from elsewhere, or ranks the model of another row.
    origins = {row.id: (row.quoted, row.trains is not None, bool(row.settings)) for row in rows}
    assert [name for name, kinds in origins.items() if sum(kinds) != 1] == []
    assert all(len(row.published) == len(block.columns) for block in paper.blocks for row in block.rows)


def test_the_citation_names_the_papers_and_authors_of_the_package():
    cited = YAML(typ="safe").load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    papers = [catalogue.load(name) for name in catalogue.names()]
    assert [reference["title"] for reference in cited] == [paper.title for paper in papers]
    for reference, paper in zip(cited, papers, strict=True):
        families = [author.get("family-names", "anonymous, the authors of HAL") for author in reference["authors"]]
        assert ", ".join(families) == paper.authors.replace(" and ", ", ")
        assert reference.get("conference", {"name": paper.venue})["name"] == paper.venue


def test_the_example_of_the_documentation_is_a_paper(tmp_path):
    text = (ROOT / "docs/papers.md").read_text()
    (tmp_path / "paper.yaml").write_text(text.rpartition("```yaml\n")[2].partition("```")[0])
    assert [row.id for row in catalogue.read(tmp_path / "paper.yaml").blocks[0].rows] == ["1.1", "1.2"]


HAL = Settings(dataset="coco", loss="hal", options={"loss": {"gamma": 30.0, "eps": 0.3}}, train={"lr": 1.0})
GRU = Settings(loss="hal", text="gru", options={"loss": {"gamma": 30.0}, "text": {"word_dim": 300}})
TEN = {"name": "ten", "backbone": "vgg19", "crops": "ten"}
ONE = {"name": "one", "backbone": "vgg19"}
MERGED = {
    "value by value": (
        [HAL, Settings(options={"loss": {"eps": 0.7}}, train={"epochs": 3, "lr": 2.0})],
        HAL.model_copy(update={"options": {"loss": {"gamma": 30.0, "eps": 0.7}}, "train": {"lr": 2.0, "epochs": 3}}),
    ),
    "another member drops the options of the one it replaces and no others": (
        [GRU, Settings(loss="sum", options={"loss": {"margin": 0.2}})],
        Settings(loss="sum", text="gru", options={"loss": {"margin": 0.2}, "text": {"word_dim": 300}}),
    ),
    "null takes a value back": (
        [Settings(train={"lr": 1.0, "optimiser": "sgd"}), Settings(train={"optimiser": None})],
        Settings(train={"lr": 1.0}),
    ),
    "a node replaces the earlier one whole": ([Settings(features=TEN), Settings(features=ONE)], Settings(features=ONE)),
}


@pytest.mark.parametrize(("layers", "expected"), MERGED.values(), ids=MERGED)
def test_later_settings_win_and_the_layers_stay_as_they_are(layers, expected):
    before = copy.deepcopy(layers)
    assert merged(layers) == expected
    assert layers == before
