"""Reading values with models, members and names as params.yaml has them; problems are collected, not raised."""

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from vse_pipe.core.errors import UnknownMember, unknown
from vse_pipe.project.params.checks import out_of_range
from vse_pipe.project.params.messages import described
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import Family


class ParamsReader:
    """file: its name in messages. Whatever is wrong goes to ``problems``; what cannot be read is None.

    Nothing that holds such a None is used: loading ends with the problems raised. So the results are typed as read."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[str] = []

    def problem(self, address: str, text: str) -> None:
        """Once, however many runs read what stands there."""
        if (line := f"{self.file} {address}: {text}") not in self.problems:
            self.problems.append(line)

    def model(
        self, model: type[BaseModel], values: dict, address: str, elsewhere: Mapping[str, str] | None = None
    ) -> Any:
        """``values`` as a ``model``; address: where they stand, empty for the whole file; elsewhere: by key, where others do."""

        def place_of(*keys: str) -> str:
            return ".".join(
                part for part in [(elsewhere or {}).get(keys[0], address) if keys else address, *keys] if part
            )

        try:
            checked = model.model_validate(values)
            beyond = list(out_of_range(checked.model_dump()))
            for place, text in beyond:
                self.problem(place_of(*place.split(".")), text)
            return None if beyond else checked
        except ValidationError as error:
            for problem in error.errors():
                self.problem(place_of(*map(str, problem["loc"])), described(model, problem))
            return None

    def member(
        self,
        family: Family,
        name: str,
        options: dict | None,
        address: str,
        named_at: str,
        elsewhere: Mapping[str, str] | None = None,
    ) -> Any:
        """A ``Member`` with its options. address, elsewhere: where these stand, as of ``model``; named_at: where its name does."""
        if not self.known(family, name, named_at):
            return None
        params = self.model(family.options(name), dict(options or {}), address, elsewhere)
        return None if params is None else Member(name, params)

    def known(self, family: Family, name: str, address: str) -> bool:
        try:
            family.check(name)
        except UnknownMember as error:
            self.problem(address, str(error))
            return False
        return True

    def reference(self, name: str, nodes: Collection[str], kind: str, address: str) -> bool:
        """Whether ``name`` is one of ``nodes``."""
        if name not in nodes:
            self.problem(address, unknown(kind, name, sorted(nodes)))
        return name in nodes
