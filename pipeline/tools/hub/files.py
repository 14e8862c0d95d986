"""What lies in a folder for a model hub, beside the files of data/train/<run>/ that it holds as they are."""

from pipeline.artifacts import features, history, model_files, texts

CARD, TEXTS, FEATURES = "README.md", "texts", "features"
# Of the text features: what a sentence needs. Token ids need the vocabulary alone, which the model has.
OF_TEXTS = (texts.META, texts.VOCABULARY, texts.STATE)
OF_FEATURES = (features.META,)
PATTERNS = (CARD, *model_files.FILES, history.NAME, f"{model_files.PEER}/*", f"{TEXTS}/*", f"{FEATURES}/*")
