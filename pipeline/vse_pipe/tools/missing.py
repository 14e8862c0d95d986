"""What a stage needs and this machine does not have: packages, weights and other files. Nothing is
fetched. ``extract`` downloads published weights of image networks.
"""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from vse_pipe.core.files import is_remote
from vse_pipe.extract.texts.options import EncoderParams
from vse_pipe.project.params.typed import Member, Params
from vse_pipe.project.registry import TEXT_FEATURES
from vse_pipe.project.stages import Node


def missing(params: Params, node: Node) -> Iterator[str]:
    """A line for each thing."""
    if node.group == "extract_texts":
        method = params.texts[node.name].method
        for member in (method, *method.params.further()):
            yield from _of_texts(member)
    elif node.group == "extract":
        reads = params.features[node.name].backbone.params.reads()
        yield from (f"{group.path} is not there" for group in reads if not group.path.exists())
    elif node.declaration.reads is not None:
        files = [group.path for group in node.declaration.reads(params, node.name)]
        absent = [path for path in files if not is_remote(path) and not path.exists()]
        yield from (f"{path} is not there" for path in absent if not set(path.parents) & set(absent))
    if node.group == "prepare":
        dataset = params.datasets[node.name]
        if dataset.source.startswith("s3://"):
            yield from _packages("s3fs")


def _of_texts(method: Member) -> Iterator[str]:
    traits, options = TEXT_FEATURES.traits(method.name), method.params
    yield from _packages(*traits.libraries)
    yield from (f"{path} is not there" for path in options.files() if not path.exists())
    if isinstance(options, EncoderParams) and not options.files() and not _is_cached(options):
        yield f"{options.model} is not in the model hub's cache; extract fetches revision {options.revision or 'main'}"


def _is_cached(encoder: EncoderParams) -> bool:
    from huggingface_hub import try_to_load_from_cache

    try:
        return isinstance(try_to_load_from_cache(encoder.model, "modules.json", revision=encoder.revision), str)
    except ValueError:  # the path of a folder that is not there is no name on the hub
        return False


def _packages(*names: str) -> Iterator[str]:
    if absent := [name for name in names if not _is_installed(name)]:
        yield f"not installed: {', '.join(absent)}; pip install {absent[0]}"


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False
