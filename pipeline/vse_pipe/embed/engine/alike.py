"""Whether features of two data sets were made alike: by the same weights, transform, options and precision."""

from vse_pipe.artifacts.features import WRITTEN

# What features of another data set have of their own. Code, libraries and devices change a last bit.
_OWN = {*WRITTEN, "dataset", "images_sha256", "code_sha256", "libraries", "device", "files"}
# Options: where the features of a data set lie that somebody else computed, and what changes a last bit as well.
_OWN_OPTIONS = {"tsv", "batch_size"}


def changed(ours: dict, theirs: dict) -> list[str]:
    """The keys of two meta.json whose values say that they were not made alike."""
    one, other = map(_about, (ours, theirs))
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


def identity(value: object) -> object:
    """Of weights the content, not where it came from."""
    if isinstance(value, dict) and ("sha256" in value or "seed" in value):
        return value.get("sha256"), value.get("seed")
    return value


def _about(meta: dict) -> dict:
    found = {key: identity(value) for key, value in meta.items() if key not in _OWN}
    options = {key: value for key, value in meta.get("params", {}).items() if key not in _OWN_OPTIONS}
    return found | {"params": options, "the shape of a row": list(meta.get("shape", ()))[1:]}
