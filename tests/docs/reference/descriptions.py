"""What each key of a parameter model means: the description of its field, which is the docstring under it."""

from pydantic import BaseModel

from tests.docs.reference.markdown import text


def of_keys(model: type[BaseModel]) -> dict[str, str]:
    """The meaning of each key that is explained; that of the model itself wins over that of its bases."""
    return {
        name: text(field.description).rstrip(".")
        for base in reversed(model.__mro__)
        if issubclass(base, BaseModel)
        for name, field in base.model_fields.items()
        if field.description
    }


def of_model(model: type[BaseModel]) -> str:
    """The model's docstring on one line."""
    return text(model.__doc__ or "")
