"""The choices of a user: from options, else from questions on a terminal, else the defaults."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click
from click.types import convert_type

from tallygate.cli.framework import UsageError
from tallygate.cli.init.choices import (
    GPU,
    Choices,
    GpuCount,
    Purpose,
    parse_amounts,
    parse_count,
    parse_label_key,
    parse_namespaces,
    parse_resource,
)

PURPOSES = click.Choice([each.value for each in Purpose])
GPU_COUNTS = click.Choice([each.value for each in GpuCount])

_RESOURCES = {Purpose.GPUS: GPU, Purpose.LICENCES: "licences.example.com/simulator", Purpose.RULES: GPU}
_HARD = {Purpose.GPUS: 8, Purpose.LICENCES: 20, Purpose.RULES: 1}
_PURPOSES_OF_OPTIONS = {
    "gpu_count": ("--count", {Purpose.GPUS}),
    "amounts": ("--amounts", {Purpose.GPUS, Purpose.RULES}),
    "team_label": ("--team-label", {Purpose.GPUS}),
    "team_namespaces": ("--team-namespaces", {Purpose.GPUS}),
    "hard": ("--hard", {Purpose.GPUS, Purpose.LICENCES}),
}


@dataclass(frozen=True, slots=True)
class Questions:
    """The options that the user has given, None where not; `asks` tells whether the others are asked for."""

    given: Mapping[str, Any]
    asks: bool

    def choose_purpose(self) -> Purpose:
        """Return what the policies limit."""
        return Purpose(self._ask("purpose", "What do the policies limit", Purpose.GPUS.value, PURPOSES))

    def choose(self, purpose: Purpose) -> Choices:
        """Return all choices for a purpose.

        Raises:
            UsageError: if an option does not belong to the purpose, options exclude each other, or no pod could run.
        """
        self._check_options(purpose)
        gpu_count = GpuCount.WHOLE
        if purpose is Purpose.GPUS:
            text = "How are GPUs counted: whole, with MIG slices, or by the memory of shared GPUs"
            gpu_count = GpuCount(self._ask("gpu_count", text, GpuCount.WHOLE.value, GPU_COUNTS))
        resource = self._choose_resource(purpose, gpu_count)
        amounts: tuple[int, ...] = (1,)
        if purpose is not Purpose.LICENCES:
            amounts = self._ask(
                "amounts", f"Which numbers of {resource} may a container request", "1,2,4,8", parse_amounts
            )
        label, namespaces = self._choose_teams() if purpose is Purpose.GPUS else ("", "")
        hard = _HARD[purpose]
        if purpose is not Purpose.RULES:
            owner = "GPUs does a team" if purpose is Purpose.GPUS else "licences does the site"
            text = f"How many {owner} have"
            hard = self._ask("hard", text, str(max(hard, amounts[-1])), _create_hard_parser(amounts[0]))
        if purpose is Purpose.GPUS:
            _check_hard(amounts[0], hard)
        return Choices(purpose, resource, gpu_count, amounts, label, namespaces, hard)

    def _check_options(self, purpose: Purpose) -> None:
        for name, (flag, purposes) in _PURPOSES_OF_OPTIONS.items():
            if self.given[name] is not None and purpose not in purposes:
                those = " and ".join(f"--for {each}" for each in Purpose if each in purposes)
                raise UsageError(f"{flag} belongs to {those}, not to --for {purpose}")
        if self.given["team_label"] and self.given["team_namespaces"]:
            raise UsageError("--team-label and --team-namespaces exclude each other: give one of them")

    def _choose_resource(self, purpose: Purpose, gpu_count: GpuCount) -> str:
        if gpu_count is GpuCount.WHOLE:
            resource: str = self._ask("resource", "Which resource do pods request", _RESOURCES[purpose], parse_resource)
            return resource
        if self.given["resource"] not in (None, GPU):
            raise UsageError(f"--count {gpu_count} supports only the resource names of NVIDIA: omit --resource")
        return GPU

    def _choose_teams(self) -> tuple[str, str]:
        """Return the label of teams, or the glob of their namespaces; the other is empty."""
        ways = click.Choice(("label", "names"))
        if self.given["team_namespaces"]:
            return "", self.given["team_namespaces"]
        if not self.given["team_label"]:
            text = "How is the team of a namespace recognized: by a label, or by its name (one for each team)"
            if self._ask("team_way", text, "label", ways) == "names":
                return "", self._ask("team_namespaces", "Which names (* is any text)", "team-*", parse_namespaces)
        return self._ask("team_label", "Which label of namespaces has the team", "team", parse_label_key), ""

    def _ask(self, name: str, text: str, default: str, convert: Callable[[str], Any]) -> Any:
        """Return the given option, else the answer to a question or the default."""
        if self.given.get(name) is not None:
            return self.given[name]
        if not self.asks:
            return convert(default)
        return click.prompt(text, default, type=convert_type(convert), err=True)


def _create_hard_parser(least: int) -> Callable[[str], int]:
    """Return a parser of the hard limit whose error lets the question be asked again."""

    def parse(text: str) -> int:
        hard = parse_count(text)
        _check_hard(least, hard)
        return hard

    return parse


def _check_hard(least: int, hard: int) -> None:
    """Check that a team has at least what a container requests.

    Raises:
        click.BadParameter: if the least that a container may request is more.
    """
    if least > hard:
        advice = f"give a team {least} or more (--hard), or allow smaller numbers (--amounts)"
        raise click.BadParameter(f"a team has {hard}, and a container requests {least} at least: {advice}")
