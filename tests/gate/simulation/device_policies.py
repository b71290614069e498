"""The caps of a world: those of pods alone, and those of pods, claims and devices."""

from collections.abc import Mapping
from typing import NamedTuple

from tallygate.webhook.admission.cap_index import ActiveCap, CapIndex
from tests.accounting.claims import CLASS
from tests.admission.case import parse_policies
from tests.state.informers.pods import GPU
from tests.state.informers.slices import DRIVER

H100, MEMORY = "h100", "gpu-memory"
_EACH, _TOGETHER = 4, 9
_CAP = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: {name}}}
spec:
  namespaces: {{include: ["team-*"], selector: {{matchLabels: {{{name}: "yes"}}}}}}
  shared: {shared}
  hard: {{nvidia.com/gpu: {hard}}}
"""
_CAP_OF_EACH = _CAP.format(name="each", shared="false", hard=_EACH)
_SHARED_CAP = _CAP.format(name="together", shared="true", hard=_TOGETHER)
_GROUPED_CAP = f"""
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {{name: together}}
spec:
  namespaces: {{include: ["team-*"]}}
  groupBy: {{label: together}}
  hard: {{nvidia.com/gpu: {_EACH}}}
"""
_SELECTOR = f"""device.attributes["{DRIVER}"].model == "{H100}\""""
_DEVICES_OF_EACH = _CAP.format(name="each", shared="false", hard=f"{_EACH}, {H100}: 2") + (
    f"  devices: {{{H100}: {{selector: '{_SELECTOR}'}}}}\n"
)
_SHARED_DEVICES = _CAP.format(name="together", shared="true", hard=f"{_TOGETHER}, {MEMORY}: 8") + (
    f"  devices: {{{MEMORY}: {{sum: memory}}}}\n"
)


class Policies(NamedTuple):
    """A cap of each namespace and one that all share; the first alone. Each selects namespaces by a label of its name.

    With `has_claims` there are claims, and both caps count them.
    """

    both: CapIndex
    without_shared: CapIndex
    has_claims: bool


def _index(cap_of_each: str, shared_cap: str, resources_by_class: Mapping[str, str]) -> Policies:
    both, alone = (
        CapIndex(parse_policies(text), None, resources_by_class)
        for text in (f"{cap_of_each}---{shared_cap}", cap_of_each)
    )
    return Policies(both, alone, has_claims=bool(resources_by_class))


def list_ledger_caps(caps: CapIndex) -> tuple[ActiveCap, ...]:
    """Return every cap that may have ledgers, with both groups of a cap that has groups."""
    return caps.list_ledger_caps(("team-a", {"together": value}) for value in ("yes", "no"))


PODS_ONLY = _index(_CAP_OF_EACH, _SHARED_CAP, {})
GROUPS = _index(_CAP_OF_EACH, _GROUPED_CAP, {})
"""Each value of a label has a shared ledger: namespaces move between them."""
_WHOLE = "  admit: whole\n"
GANGS = _index(_CAP_OF_EACH + _WHOLE, _SHARED_CAP + _WHOLE, {})
GANG_GROUPS = _index(_CAP_OF_EACH + _WHOLE, _GROUPED_CAP + _WHOLE, {})
"""Workloads are admitted as a whole, in the latter under a cap with groups."""
WITH_CLAIMS = _index(_CAP_OF_EACH, _SHARED_CAP, {CLASS: GPU})
WITH_DEVICES = _index(_DEVICES_OF_EACH, _SHARED_DEVICES, {CLASS: GPU})
"""The first cap also counts the devices of a model, the second one the memory of devices."""
