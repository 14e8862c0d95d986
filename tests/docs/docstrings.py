"""For the site's reference: docstrings as Markdown, and the members of families, which a function makes."""

import importlib
import inspect
import re

import griffe

from vse_pipe.project.registry import INFERENCES

CRITERIA, LOSSES = "vse_pipe.api.criteria", "vse_pipe.api.losses"
_EXAMPLE = re.compile(r"^>>> .*\n(?:.+\n?)*", re.MULTILINE)
_PLACEHOLDER = re.compile(r"(`[^`]*`)|<(?=\w+>)")


class Docstrings(griffe.Extension):
    """What Griffe reads of the package, changed before mkdocstrings renders it."""

    def on_object(self, *, obj: griffe.Object, **kwargs) -> None:
        """Examples become code, and ``<run>`` in the text no tag of HTML."""
        if obj.docstring:
            text = _PLACEHOLDER.sub(lambda found: found.group(1) or "&lt;", obj.docstring.value)
            obj.docstring.value = _EXAMPLE.sub(_fence, text)

    def on_attribute(self, *, attr: griffe.Attribute, **kwargs) -> None:
        """A member becomes a function with the signature and the docstring that it has at run time."""
        if attr.parent.path in (CRITERIA, LOSSES) and str(attr.value).startswith("_member("):
            member = getattr(importlib.import_module(attr.parent.path), attr.name)
            function = griffe.Function(attr.name, lineno=attr.lineno, parameters=_parameters(member))
            about = INFERENCES.load(member().name) if attr.parent.path == CRITERIA else member
            function.docstring = griffe.Docstring(inspect.getdoc(about), parent=function)
            attr.parent.set_member(attr.name, function)


def _fence(example: re.Match) -> str:
    return f"```pycon\n{example.group().rstrip()}\n```\n"


def _parameters(member) -> griffe.Parameters:
    found = inspect.signature(member).parameters.values()
    keyword = griffe.ParameterKind.keyword_only
    defaults = ["..." if "factory" in repr(one.default) else repr(one.default) for one in found]
    return griffe.Parameters(
        *(griffe.Parameter(one.name, kind=keyword, default=text) for one, text in zip(found, defaults, strict=True))
    )
