"""What open_clip knows of an architecture and of the weights published for it."""

from dataclasses import dataclass
from pathlib import Path

from vse_pipe.core.errors import InputError, MissingResource, UnknownMember, UsageError, missing, missing_extra, unknown
from vse_pipe.core.files import read_json, sha256
from vse_pipe.core.weights import WeightsFile, source_of
from vse_pipe.extract.engine.pair.params import HUB, PairParams

_URL = "https://huggingface.co/{}/resolve/{}/{}"
_HUB_FILE = "open_clip_model.safetensors"
_NEEDED = ("embed_dim", "vision_cfg", "text_cfg")


# By what stands in the names of published weights.
_DATA = {
    "openai": "OpenAI's own pairs",
    "laion400m": "LAION-400M",
    "laion2b": "LAION-2B",
    "laion5b": "LAION-5B",
    "datacomp": "DataComp",
    "commonpool": "CommonPool of DataComp",
    "yfcc15m": "YFCC15M",
    "cc12m": "Conceptual 12M",
    "mscoco": "COCO",
    "webli": "WebLI",
    "dfn": "DFN",
    "metaclip": "MetaCLIP's pairs of Common Crawl",
}


@dataclass(frozen=True)
class Architecture:
    """content: model_cfg and preprocess_cfg, as in a hub's open_clip_config.json; tag: the published weights, None of others;
    source: where weights are to be fetched, if they are; file: the architecture's own, for meta.json."""

    name: str
    content: dict
    tag: str | None
    source: WeightsFile | None
    file: dict | None = None


def architecture(options: PairParams) -> Architecture:
    """Raises UnknownMember for a name that open_clip does not have, UsageError for options that contradict it, MissingResource
    and InputError for a file that is not there or describes nothing, MissingResource without the package too."""
    try:
        import open_clip  # seconds
    except ImportError as error:
        raise missing_extra("a pretrained pair", "open_clip_torch", "open_clip") from error
    if options.file is not None and not options.file.is_file():
        raise MissingResource(f"{options.file.absolute()}: no such weights file")
    if options.described is not None:
        return _of_file(options, options.described)
    name, known = options.model, open_clip.list_models()
    if name not in known:
        told = f"open_clip.list_models() names all {len(known)}"
        raise UnknownMember(missing(f"unknown open_clip model '{name}'", name, known, told))
    config = open_clip.get_model_config(name)
    tags = {tag: open_clip.get_pretrained_cfg(name, tag) for tag in open_clip.list_pretrained_tags_by_model(name)}
    tag = _tag(options)
    if tag is not None and tag not in tags:
        raise UnknownMember(unknown(f"weights of open_clip {name}", tag, tags))
    source = _hub(options.weights.removeprefix(HUB), options) if options.weights.startswith(HUB) else None
    if tag is not None:
        _require_activation(name, config, tag, tags[tag], known)
        source = source or (None if options.pretrained else _source(tags[tag], options))
    content = {"model_cfg": config, "preprocess_cfg": _preprocessing(name, tag, tags)}
    return Architecture(name, content, tag, source)


def _tag(options: PairParams) -> str | None:
    named = options.weights == "random" or options.file is not None or options.weights.startswith(HUB)
    return options.pretrained if named else options.weights


def _of_file(options: PairParams, path: Path) -> Architecture:
    if not path.is_file():
        raise MissingResource(f"{path.absolute()}: no such file; model is a name of open_clip or a JSON file")
    content = read_json(path)
    content = content if "model_cfg" in content else {"model_cfg": content}
    lacking = [key for key in _NEEDED if key not in (content["model_cfg"] or {})]
    if lacking:
        raise InputError(f"{path}: describes no model of open_clip: it has no {', '.join(lacking)}")
    if (tag := _tag(options)) is not None:
        raise UnknownMember(
            f"{path}: open_clip knows no weights '{tag}' of it; give weights as a file or hf-hub:owner/name"
        )
    source = _hub(options.weights.removeprefix(HUB), options) if options.weights.startswith(HUB) else None
    content = {key: content.get(key) or {} for key in ("model_cfg", "preprocess_cfg")}
    about = {"origin": "file", "file": path.name, "sha256": sha256(path)}
    return Architecture(path.stem, content, None, source, about)


def _preprocessing(name: str, tag: str | None, tags: dict[str, dict]) -> dict:
    """Of the tag, else what all weights published for the architecture agree on."""
    from open_clip.transform import merge_preprocess_dict

    found = {one: merge_preprocess_dict({}, config) for one, config in tags.items()}
    if tag is not None:
        return found[tag]
    distinct = [value for place, value in enumerate(found.values()) if value not in list(found.values())[:place]]
    if len(distinct) > 1:
        raise UsageError(
            f"weights of open_clip {name} were published with {len(distinct)} ways of preprocessing; set pretrained to those "
            f"that yours began from: {', '.join(tags)}"
        )
    return distinct[0] if distinct else {}


def _require_activation(name: str, config: dict, tag: str, published: dict, known: list[str]) -> None:
    """open_clip itself only warns, and takes some recall off."""
    quick, wanted = config.get("quick_gelu", False), published.get("quick_gelu", False)
    other = f"{name}-quickgelu" if wanted else name.removesuffix("-quickgelu")
    if quick != wanted and other in known:
        raise UsageError(
            f"weights '{tag}' of open_clip {name} were trained with another activation; set model: {other}"
        )


def _source(published: dict, options: PairParams) -> WeightsFile:
    """The hub's file, which is safetensors and needs ``sha256``, else the release."""
    return _hub(published["hf_hub"], options) if published["hf_hub"] else source_of(published["url"])


def _hub(address: str, options: PairParams) -> WeightsFile:
    """address: owner/name, owner/name/ or owner/name/file. Raises UsageError for another."""
    owner, _, rest = address.partition("/")
    name, _, file = rest.partition("/")
    if not owner or not name:
        raise UsageError(f"weights '{HUB}{address}': expected {HUB}owner/name or {HUB}owner/name/file")
    file = file or _HUB_FILE
    url = _URL.format(f"{owner}/{name}", options.revision, file)
    return WeightsFile(url, f"{owner}-{name}{Path(file).suffix}", "")


def trained_on(tag: str | None) -> str:
    """The data that the name of published weights tells, ``unknown`` where it tells none."""
    return " and ".join(data for name, data in _DATA.items() if tag and name in tag) or "unknown"
