"""The new names of opaque resources, as the options of the command define them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tallygate.accounting.names import OPAQUE_PREFIX, find_qualified_name_errors, is_extended
from tallygate.cli.framework import UsageError

OPAQUE_NAME = re.compile(re.escape(OPAQUE_PREFIX) + r"[-A-Za-z0-9_.]+")


@dataclass(frozen=True, slots=True)
class Renames:
    """The new name of each opaque name: one of its own in `names`, by the last part of the old one, or in `domain`."""

    domain: str = ""
    names: Mapping[str, str] = field(default_factory=dict[str, str])

    def find_new_name(self, old: str) -> str:
        """Return the new name of an opaque name, empty if no option defines one.

        Raises:
            UsageError: if the name in the domain is not the name of an extended resource.
        """
        last = old.removeprefix(OPAQUE_PREFIX)
        if last in self.names:
            return self.names[last]
        if not self.domain:
            return ""
        new = f"{self.domain}/{last}"
        _require_extended(new, f"--domain {self.domain}")
        return new

    def replace(self, text: str) -> str:
        """Return a text with the new names, empty if one of its names has none."""
        new_names = {old: self.find_new_name(old) for old in OPAQUE_NAME.findall(text)}
        return OPAQUE_NAME.sub(lambda match: new_names[match[0]], text) if all(new_names.values()) else ""

    def require_distinct(self, old_names: Sequence[str]) -> None:
        """Check that every name gets a new one, and no two the same.

        Raises:
            UsageError: if a name has no new one, or two have the same.
        """
        old_by_new: dict[str, str] = {}
        for old in sorted(set(old_names)):
            new, last = self.find_new_name(old), old.removeprefix(OPAQUE_PREFIX)
            if not new:
                raise UsageError(
                    f"{old} has no new name: add --name {last}=example.com/{last}, or --domain example.com"
                )
            first = old_by_new.setdefault(new, old)
            if first != old:
                raise UsageError(f"{first} and {old} both become {new}: give one of them another name with --name")


def parse_renames(domain: str | None, names: Sequence[str]) -> Renames:
    """Return the new names by `--domain` and by each `--name OLD=NEW`.

    Raises:
        UsageError: if an option has another form, or a new name is not the name of an extended resource.
    """
    parsed: dict[str, str] = {}
    for argument in names:
        old, equals, new = argument.partition("=")
        last = old.removeprefix(OPAQUE_PREFIX)
        if not equals or not last or not new:
            raise UsageError(f"--name {argument} is not OLD=NEW, as in --name bananas=example.com/banana")
        if parsed.setdefault(last, new) != new:
            raise UsageError(f"--name {last} is given twice, with {parsed[last]} and {new}: keep one")
        _require_extended(new, f"--name {argument}")
    if domain is not None:
        _require_extended(f"{domain}/x", f"--domain {domain}")
    return Renames(domain or "", parsed)


def _require_extended(name: str, option: str) -> None:
    errors = find_qualified_name_errors(name)
    if errors:
        raise UsageError(f"{option}: {name} is not a qualified name: {errors[0]}; write one as in example.com/banana")
    if not is_extended(name):
        raise UsageError(
            f"{option}: {name} is not the name of an extended resource: write a domain outside kubernetes.io, as in "
            "example.com/banana"
        )
