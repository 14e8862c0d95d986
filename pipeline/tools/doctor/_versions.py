"""Versions against ranges such as ``>=2.12,<3``: what pyproject.toml uses of the language of versions."""

import re

_RULE = re.compile(r"^(>=|<=|==|!=|<|>|~=)\s*([0-9][0-9A-Za-z.+*-]*)$")


def parts(version: str) -> tuple[int, ...]:
    """The numbers of a release, ``2.15.0+cu132`` as (2, 15, 0)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def allowed(version: str, ranges: str) -> bool | None:
    """None where a rule is of a kind that this does not know."""
    verdict = True
    for rule in filter(None, (part.strip() for part in ranges.split(","))):
        match = _RULE.match(rule)
        if match is None or match[1] in ("~=", "!=") or "*" in match[2]:
            return None
        have, wanted = _padded(parts(version), parts(match[2]))
        verdict &= {
            ">=": have >= wanted,
            "<=": have <= wanted,
            "==": have == wanted,
            "<": have < wanted,
            ">": have > wanted,
        }[match[1]]
    return verdict


def _padded(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    length = max(len(one), len(other))
    return one + (0,) * (length - len(one)), other + (0,) * (length - len(other))


def split(requirement: str) -> tuple[str, str, str]:
    """``dvc>=3.67,<4 ; extra == "x"`` as (name, ranges, marker)."""
    text, _, marker = requirement.partition(";")
    match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)(\[[^]]*\])?\s*\(?([^)]*)\)?\s*$", text)
    return (match[1], match[3].strip(), marker.strip()) if match else (text.strip(), "", marker.strip())
