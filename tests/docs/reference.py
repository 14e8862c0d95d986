"""Two pages of the site that are made from the code: parameters.md, and artefacts.md with a section for
each kind of file that stages leave.
"""

import importlib
import inspect
import re
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pyarrow as pa

from tests.docs import parameters
from tests.docs.parameters import code, text
from vse_pipe import artifacts
from vse_pipe.artifacts import regions

# catalogue and digests read tables of other modules.
_NAMES = sorted({path.stem for path in Path(artifacts.__path__[0]).glob("[!_]*.py")} - {"catalogue", "digests"})
_INTRODUCTION = """# Stages and their files

Every stage writes one folder, whole or not at all. Columns, types, nulls, unique ids and finite numbers are checked at writing and
at reading. Parquet files have page checksums, arrays and models digests in meta.json or config.json; a mismatch is exit status 5."""
STAGES = ("prepare", "extract", "inject", "train", "embed", "evaluate", "audit", "localize")
_FILE = re.compile(r"^[\w.]+\.(parquet|json|npy|csv|safetensors)$")
_BOX = "edges of the box in pixels from 0; both corners belong to it"
_DIM = 1024  # stands for any number of dimensions
_FLOATS = {"float": "float32", "double": "float64", "halffloat": "float16"}


class Kind(NamedTuple):
    """A kind of artefact. place: where its files lie; about: the rest of its part of the module's docstring."""

    module: ModuleType
    name: str
    place: str
    about: str


def page() -> str:
    """The whole page, kinds in the order of the stages."""
    ordered = sorted(kinds(), key=lambda kind: (_stage(kind), kind.module.__name__))
    return "\n\n".join([_INTRODUCTION, *map(_section, ordered)]) + "\n"


def modules() -> list[ModuleType]:
    """The artefacts' modules."""
    return [importlib.import_module(f"{artifacts.__name__}.{name}") for name in _NAMES]


def kinds() -> list[Kind]:
    """A kind begins in a module's docstring with a paragraph that begins with the place of its files."""
    listed = []
    for module in modules():
        parts = re.split(r"(?:\A|\n\n)(?=data/)", inspect.cleandoc(module.__doc__))[1:]
        assert parts, f"{module.__name__}: the docstring of an artefact names its place, data/..."
        folders = [part for part in parts if part.split()[0].rstrip(":").endswith("/")]
        for part in parts:
            place, _, about = part.partition(" ")
            file, own = re.search(r"(\w+)\.(?:parquet|json|csv)", part), module.__name__.rpartition(".")[2]
            name = own if part in folders[:1] or not file or file[1] in {*_NAMES} - {own} else file[1]
            listed.append(Kind(module, name.replace("_", " "), place, about))
    return listed


def schemas(module: ModuleType) -> dict[str, pa.Schema]:
    """The schemas of a module's Parquet files by the file they belong to, with its kind where a file has several."""
    found = {}
    if hasattr(module, "schema"):
        found |= {f"{side}.parquet": module.schema(side, _DIM) for side in ("images", "captions")}
    if hasattr(module, "fragment_schema"):
        found |= {f"{side}.parquet of fragments": module.fragment_schema(side, _DIM) for side in ("images", "captions")}
    tables = [name for name in files(module) if name.endswith(".parquet")]
    for name, schema in vars(module).items():
        if isinstance(schema, pa.Schema) and b"artefact" in (schema.metadata or {}):
            prefix = name.removesuffix("SCHEMA").rstrip("_")
            own = getattr(module, prefix or "NAME", "" if prefix else tables[0])
            found[own if own in tables else f"{tables[0]} of kind {prefix.lower()}"] = schema
    return found


def files(module: ModuleType) -> list[str]:
    """The names of the files that a module writes, from its constants."""
    named = [value for value in vars(module).values() if isinstance(value, str) and _FILE.match(value)]
    both = ["images.parquet", "captions.parquet"] if hasattr(module, "schema") else []
    return list(dict.fromkeys([*both, *named]))


def _stage(kind: Kind) -> int:
    stage = kind.place.split("/")[1]
    return STAGES.index(stage) if stage in STAGES else len(STAGES)


def _section(kind: Kind) -> str:
    place = kind.place.rstrip(":")
    colon = ":" * (len(kind.place) - len(place))
    parts = [f"## {place.split('/')[1]}: {kind.name}", f"`{place}`{colon} {_prose(kind.about)}"]
    text_of_kind = kind.place + kind.about
    tables = {file: schema for file, schema in schemas(kind.module).items() if _owner(kind.module, file) == kind}
    unnamed = [file for file in files(kind.module) if _owner(kind.module, file) == kind and file not in text_of_kind]
    parts += ["Further files: " + ", ".join(code(file) for file in unnamed) + "."] if unnamed else []
    for file, schema in tables.items():
        parts += [f"{code(file)}:"] * (len(tables) > 1 or file not in place) + [_columns(schema)]
    return "\n\n".join(parts)


def _owner(module: ModuleType, file: str) -> Kind:
    """The kind of a module that names the file, its folder's kind where none does."""
    own = [kind for kind in kinds() if kind.module is module]
    naming = [kind for kind in own if file.partition(" ")[0] in kind.place + kind.about]
    return (naming or [kind for kind in own if kind.place.rstrip(":").endswith("/")] or own)[0]


def _prose(docstring: str) -> str:
    """Paragraphs and lists as they are, each paragraph and each item on one line."""
    blocks = re.split(r"\n\s*\n", docstring.strip())
    items = [re.split(r"\n(?=- )", block) for block in blocks]
    return "\n\n".join("\n".join(text(item) for item in block) for block in items)


def _columns(schema: pa.Schema) -> str:
    """A list item a column; neighbours of one type and meaning share one, and so do those of several K."""
    items = []
    kind_of = lambda column: code(_type(column.type)) + " or null" * column.nullable  # noqa: E731
    for (kind, about), group in groupby(schema, lambda column: (kind_of(column), _about(column, "K"))):
        columns = list(group)
        meaning = about if len(columns) > 1 else _about(columns[0])
        items.append(f"- {', '.join(code(column.name) for column in columns)} ({kind}): {text(meaning)}")
    return "\n".join(items)


def _about(column: pa.Field, k: str | None = None) -> str:
    """The column's meaning. k: what stands in place of the number at the end of its name."""
    if column.name in regions.BOX_COLUMNS:
        return _BOX
    about = column.metadata[b"about"].decode()
    number = re.search(r"_(\d+)$", column.name)
    return re.sub(rf"\b{number[1]}\b", k, about, count=1) if k and number else about


def _type(kind: pa.DataType) -> str:
    if pa.types.is_fixed_size_list(kind):
        return f"fixed_size_list<{_type(kind.value_type)}>[D]"
    if pa.types.is_list(kind):
        return f"list<{_type(kind.value_type)}>"
    return _FLOATS.get(str(kind), str(kind))


PAGES = {"parameters.md": parameters.page, "artefacts.md": page}
