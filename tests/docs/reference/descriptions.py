"""What each key of a parameter model means: the docstring under its field, or the field's description."""

from pydantic import BaseModel
from pydantic._internal._docs_extraction import extract_docstrings_from_cls

from tests.docs.reference.markdown import text
from vse_pipe.core.strict import Strict


def of_keys(model: type[BaseModel]) -> dict[str, str]:
    """The meaning of each key that is explained; that of the model itself wins over that of its bases."""
    said: dict[str, str | None] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, Strict):
            said |= extract_docstrings_from_cls(base, use_inspect=True)
            said |= {name: field.description for name, field in base.model_fields.items() if field.description}
    return {name: text(meaning).rstrip(".") for name, meaning in said.items() if meaning}


def of_model(model: type[BaseModel]) -> str:
    """The model's docstring on one line."""
    return text(model.__doc__ or "")
