"""What lies in a folder for a model hub, beside the files of data/train/<run>/ that it holds as they are."""

from pathlib import Path

from vse_pipe.artifacts import features, model_files, texts

CARD, TEXTS, FEATURES, WEIGHTS = "README.md", "texts", "features", "weights"
# Of the text features: what a sentence needs. Token ids need the vocabulary alone, which the model has.
OF_TEXTS = (texts.META, texts.VOCABULARY, texts.STATE)
OF_FEATURES = (features.META,)
PATTERNS = (
    CARD,
    *model_files.FILES,
    model_files.HISTORY,
    f"{model_files.PEER}/*",
    f"{TEXTS}/*",
    f"{FEATURES}/*",
    f"{WEIGHTS}/*",
)


def weights_in(options: object) -> list[str]:
    """Every ``weights`` or ``detector_weights`` in options as meta.json has them, those of parts included."""
    if isinstance(options, list):
        return [value for one in options for value in weights_in(one)]
    if not isinstance(options, dict):
        return []
    here = [value for key, value in options.items() if key.endswith("weights") and isinstance(value, str)]
    return here + [value for one in options.values() for value in weights_in(one)]


def with_weights(options: dict, places: dict[str, str]) -> dict:
    """``options`` with other ``weights``. places: the new values by the old ones."""

    def replaced(key: str, value: object) -> object:
        if isinstance(value, dict):
            return with_weights(value, places)
        if isinstance(value, list):
            return [replaced("", one) for one in value]
        return places.get(value, value) if key.endswith("weights") and isinstance(value, str) else value

    return {key: replaced(key, value) for key, value in options.items()}


def in_pack(folder: Path, options: dict) -> dict:
    """``options`` of a meta.json in a pack, with the places of the weights that the pack holds."""
    held = {value: str(folder / value) for value in weights_in(options) if value.startswith(f"{WEIGHTS}/")}
    return with_weights(options, held)
