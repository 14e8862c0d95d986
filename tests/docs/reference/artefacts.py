"""docs/artefacts.md: one section for each kind of file that stages leave, with its columns."""

import importlib
import re
from pathlib import Path
from types import ModuleType

import pyarrow as pa

from tests.docs.reference.markdown import code, table, text
from vse_pipe import artifacts

_INTRODUCTION = """# Stages and their files

Every stage reads the files of the stages before it and writes one folder, whole or not at all. A file is checked when it is
written and when it is read: columns, types, nulls, unique ids, finite numbers. Parquet files carry page checksums, arrays
and models the digests that their meta.json or config.json promises; one that does not match ends the command with status 5.

This page is written from the code by `python -m tests.docs.reference`."""
STAGES = ("prepare", "extract", "inject", "train", "embed", "evaluate", "audit", "localize")
_FILE = re.compile(r"^[\w.]+\.(parquet|json|npy|csv|safetensors)$")
_DIM = 1024  # stands for any number of dimensions
_FLOATS = {"float": "float32", "double": "float64", "halffloat": "float16"}


def page() -> str:
    """The whole page, kinds in the order of the stages."""
    kinds = sorted(modules(), key=lambda module: (_stage(module), module.__name__))
    return "\n\n".join([_INTRODUCTION, *(_kind(module) for module in kinds)]) + "\n"


def modules() -> list[ModuleType]:
    """The artefacts' modules: those of the package whose docstring begins with where the files lie."""
    names = [one.stem for one in sorted(Path(artifacts.__path__[0]).glob("[!_]*.py"))]
    found = [importlib.import_module(f"{artifacts.__name__}.{name}") for name in names]
    return [module for module in found if module.__doc__.startswith("data/")]


def schemas(module: ModuleType) -> dict[str, pa.Schema]:
    """The schemas of a module's Parquet files by the file they belong to, with its kind where a file has several."""
    found = {}
    if hasattr(module, "schema"):
        found |= {f"{side}.parquet": module.schema(side, _DIM) for side in ("images", "captions")}
    tables = [name for name in files(module) if name.endswith(".parquet")]
    for name, schema in vars(module).items():
        if isinstance(schema, pa.Schema) and b"artefact" in (schema.metadata or {}):
            prefix = name.removesuffix("SCHEMA").rstrip("_")
            own = getattr(module, prefix, "") if prefix else tables[0]
            found[own if own in tables else f"{tables[0]} of kind {prefix.lower()}"] = schema
    return found


def files(module: ModuleType) -> list[str]:
    """The names of the files that a module writes, from its constants."""
    named = [value for value in vars(module).values() if isinstance(value, str) and _FILE.match(value)]
    both = ["images.parquet", "captions.parquet"] if hasattr(module, "schema") else []
    return list(dict.fromkeys([*both, *named]))


def _stage(module: ModuleType) -> int:
    found = re.match(r"data/(\w+)/", module.__doc__)
    return STAGES.index(found.group(1)) if found and found.group(1) in STAGES else len(STAGES)


def _kind(module: ModuleType) -> str:
    folder, _, rest = module.__doc__.partition(" ")
    stage, name = folder.split("/")[1], module.__name__.rpartition(".")[2].replace("_", " ")
    parts = [f"## {stage}: {name}", f"`{folder.rstrip(':')}`{':' * folder.endswith(':')} {_prose(rest)}"]
    parts.append("Files: " + ", ".join(code(one) for one in files(module)) + ".")
    for file, schema in schemas(module).items():
        version = schema.metadata[b"version"].decode()
        parts += [f"Columns of `{file}`, version {version}:", _columns(schema)]
    return "\n\n".join(parts)


def _prose(docstring: str) -> str:
    """Paragraphs and lists as they are, each paragraph and each item on one line."""
    blocks = re.split(r"\n\s*\n", docstring.strip())
    items = [re.split(r"\n(?=- )", block) for block in blocks]
    return "\n\n".join("\n".join(text(item) for item in block) for block in items)


def _columns(schema: pa.Schema) -> str:
    return table(
        ("column", "type", "null", "meaning"),
        [(code(one.name), code(_type(one.type)), "yes" if one.nullable else "no", text(_about(one))) for one in schema],
    )


def _about(column: pa.Field) -> str:
    return (column.metadata or {}).get(b"about", b"").decode()


def _type(kind: pa.DataType) -> str:
    if pa.types.is_fixed_size_list(kind):
        return f"fixed_size_list<{_type(kind.value_type)}>[D]"
    if pa.types.is_list(kind):
        return f"list<{_type(kind.value_type)}>"
    return _FLOATS.get(str(kind), str(kind))
