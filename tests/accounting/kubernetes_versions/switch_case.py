"""A case of a switch: a function that returns the answer of a version, and the answers without and with the rule."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.accounting.kubernetes_versions.version import KubernetesVersion

Answerer = Callable[[KubernetesVersion], Any]
"""The answer of a version."""


class SwitchCase(NamedTuple):
    """The answer of the product, and what it has to be before the rule applies and after."""

    answer: Answerer
    before: Any
    after: Any


CASES: dict[Switch, list[SwitchCase]] = {}
"""The cases by switch, of the modules that are imported."""


def switch_case(switch: Switch, *, before: Any, after: Any) -> Callable[[Answerer], Answerer]:
    """Return the decorator that makes a function a case of a switch."""

    def add(answer: Answerer) -> Answerer:
        CASES.setdefault(switch, []).append(SwitchCase(answer, before, after))
        return answer

    return add


@dataclass(frozen=True, slots=True)
class VersionWithSwitch(KubernetesVersion):
    """A version to which one rule of a later version applies, too."""

    switch: Switch | None = None

    def has(self, switch: Switch) -> bool:
        return switch is self.switch or KubernetesVersion.has(self, switch)
