"""nltk's word tokenizer without the rest of nltk, whose start imports scikit-learn, scipy.stats and pandas: 1.5 s for a
module of regular expressions."""

import importlib
import re
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

_MODULE = "nltk.tokenize.destructive"
_lock = threading.Lock()
# Words of letters, digits and single hyphens, commas behind words, a full stop at the end, and none of the words that the rules
# take apart: of the sixty rules no other has anything to do there, and asking them takes a hundred times as long.
# Possessive, so that what fails does so in one pass, however many spaces there are.
_WORD = "[a-z0-9]++(?:-[a-z0-9]++)*+"
_PLAIN = re.compile(
    rf"(?!.*(?:cannot|gimme|gonna|gotta|lemme|wanna))(?:{_WORD},?+ ++)*+(?:{_WORD})?+ *+\.?+ *+",
    re.IGNORECASE | re.ASCII,
)


def word_tokenizer() -> Callable[[str], list[str]]:
    """What ``nltk.word_tokenize(text, preserve_line=True)`` gives for a text."""
    rules = _rules()

    def words(text: str) -> list[str]:
        return text.replace(",", " ,").replace(".", " .").split() if _PLAIN.fullmatch(text) else rules(text)

    return words


def _rules() -> Callable[[str], list[str]]:
    """nltk's own, text by text.

    The modules are those of the package that is installed, found through empty packages of its names; these are gone
    afterwards, so that a later ``import nltk`` gives all of it.
    """
    with _lock:
        if "nltk" in sys.modules:
            return importlib.import_module(_MODULE).NLTKWordTokenizer().tokenize
        found = find_spec("nltk")
        if found is None or found.origin is None:
            raise ModuleNotFoundError("No module named 'nltk'", name="nltk")
        folder = Path(found.origin).parent
        try:
            for name, path in (("nltk", folder), ("nltk.tokenize", folder / "tokenize")):
                sys.modules[name] = ModuleType(name)
                sys.modules[name].__path__ = [str(path)]
            return importlib.import_module(_MODULE).NLTKWordTokenizer().tokenize
        finally:
            for name in [name for name in sys.modules if name.split(".")[0] == "nltk"]:
                del sys.modules[name]
