"""The choices of a user of `tallygate init`: the values that options and questions give, and their checks."""

import re
from dataclasses import dataclass
from enum import StrEnum

import click

from tallygate.accounting.name_rules import NameContext, find_name_problems
from tallygate.accounting.names import is_extended
from tallygate.errors import TallygateError
from tallygate.policy.formats import check_label_key, check_name_pattern, quote_text

GPU = "nvidia.com/gpu"
MAX_AMOUNT = 1_000_000
_MAX_AMOUNTS = 32
_AMOUNT = re.compile(r"0*[1-9][0-9]{0,9}", re.ASCII)
_MAX_REQUIREMENT_LENGTH = 400
_NAMESPACE = re.compile(r"(?=.{1,63}\Z)[a-z0-9]([a-z0-9-]*[a-z0-9])?")
"""The name of a namespace (IsDNS1123Label)."""


class Purpose(StrEnum):
    """The subject of the policies."""

    GPUS = "gpus"
    """The numbers that a pod may request, and what each team uses."""
    LICENCES = "licences"
    """A pool of licences of the site."""
    RULES = "rules"
    """The numbers that a pod may request, without caps; the rule warns."""


class GpuCount(StrEnum):
    """The way in which a cap counts GPUs."""

    WHOLE = "whole"
    SLICES = "slices"
    """MIG slices and whole GPUs together, in sevenths of a GPU."""
    MEMORY = "memory"
    """The memory of shared GPUs (HAMi), in MiB."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of a user; fields that do not belong to the purpose are not read."""

    purpose: Purpose
    resource: str
    gpu_count: GpuCount = GpuCount.WHOLE
    amounts: tuple[int, ...] = (1,)
    """The numbers that one container may request, ascending."""
    team_label: str = ""
    """The label whose value is the team of a namespace; empty where `team_namespaces` selects namespaces."""
    team_namespaces: str = ""
    hard: int = 1
    """GPUs of a team, or licences of the site."""


def parse_resource(name: str) -> str:
    """Return the name of an extended resource.

    Raises:
        click.BadParameter: unless a container can request the name and nodes can advertise it.
    """
    if problems := find_name_problems(name, NameContext.CONTAINER):
        raise click.BadParameter(problems[0].message)
    if not is_extended(name):
        raise click.BadParameter(
            f"{quote_text(name)} belongs to Kubernetes; name a resource with a domain, as in {GPU}"
        )
    return name


def parse_amounts(text: str) -> tuple[int, ...]:
    """Return whole numbers from 1 that commas separate, ascending and each once.

    Raises:
        click.BadParameter: if the text has something else, or too many numbers.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(map(_AMOUNT.fullmatch, words)) or max(map(int, words)) > MAX_AMOUNT:
        advice = f"write whole numbers from 1 to {MAX_AMOUNT:,}, as in 1,2,4,8"
        raise click.BadParameter(f"{quote_text(text)} is not a list of amounts; {advice}")
    if len(words) > _MAX_AMOUNTS:
        raise click.BadParameter(f"{len(words)} amounts are more than {_MAX_AMOUNTS}")
    return tuple(sorted(set(map(int, words))))


def parse_count(text: str) -> int:
    """Return a whole number from 1.

    Raises:
        click.BadParameter: if the text is something else.
    """
    if not _AMOUNT.fullmatch(text) or int(text) > MAX_AMOUNT:
        raise click.BadParameter(f"{quote_text(text)} is not a count; write a whole number from 1 to {MAX_AMOUNT:,}")
    return int(text)


def parse_label_key(text: str) -> str:
    """Return the key of a label.

    Raises:
        click.BadParameter: if no object can have such a label.
    """
    try:
        check_label_key(text)
    except TallygateError as error:
        raise click.BadParameter(f"{error}") from error
    return text


def parse_namespaces(glob: str) -> str:
    """Return a glob over names of namespaces.

    Raises:
        click.BadParameter: if it can match no namespace.
    """
    try:
        check_name_pattern(glob)
    except TallygateError as error:
        raise click.BadParameter(f"{error}") from error
    if not _NAMESPACE.fullmatch(create_namespace_name(glob, "a")):
        raise click.BadParameter(f"{quote_text(glob)} can match no name of a namespace; write it as in team-*")
    return glob


def parse_requirement(text: str) -> str:
    """Return what pip installs: a name with a version, or with an address. Whether it is there is not checked.

    Raises:
        click.BadParameter: if it is an option of pip, or no line of text.
    """
    if not text.strip() or text.startswith("-") or not text.isprintable() or len(text) > _MAX_REQUIREMENT_LENGTH:
        raise click.BadParameter(f"{quote_text(text)} is nothing that pip installs; write it as in tallygate==0.1.0")
    return text.strip()


def create_namespace_name(glob: str, letter: str) -> str:
    """Return a name that a glob matches: each wildcard stands for the letter."""
    return glob.replace("*", letter).replace("?", letter)
