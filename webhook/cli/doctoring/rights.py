"""What the gate's ServiceAccount must be allowed to do, by what it is started with.

`deploy/` grants these and nothing else; tests/cli/doctor/test_rights.py holds this table to it.
"""

from enum import StrEnum
from typing import NamedTuple

from webhook.gate.leading import KEEPER
from webhook.state.kubernetes import naming


class Feature(StrEnum):
    """What a gate may be started with that asks the API server for something."""

    FOLLOWS = "--cluster"
    KEEPS = "--ledgers=kubernetes"


class Right(NamedTuple):
    """A verb on a resource, in the gate's own namespace or everywhere; `name` where it is one object's."""

    verb: str
    group: str
    resource: str
    feature: Feature
    is_own: bool = False
    name: str = ""

    def __str__(self) -> str:
        """As somebody would say it."""
        whole = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {whole}{f'/{self.name}' if self.name else ''}"


def _each(verbs: str, group: str, resources: str, feature: Feature, *, is_own: bool = False) -> tuple[Right, ...]:
    return tuple(
        Right(verb, group, resource, feature, is_own) for resource in resources.split() for verb in verbs.split()
    )


RIGHTS: tuple[Right, ...] = (
    *_each("get list watch", "", "pods namespaces nodes", Feature.FOLLOWS),
    *_each("list watch", "", "resourcequotas", Feature.FOLLOWS),
    *_each("get create update", naming.GROUP, naming.PLURAL, Feature.KEEPS, is_own=True),
    *_each("list create update delete", "coordination.k8s.io", "leases", Feature.KEEPS, is_own=True),
)

LEASE = KEEPER
"""The Lease of who keeps ledgers."""


def features(arguments: tuple[str, ...]) -> frozenset[Feature]:
    """What a gate that is started with these arguments asks for."""
    found = set()
    if any(each.startswith(f"{Feature.FOLLOWS}=") and not each.endswith("=none") for each in arguments):
        found.add(Feature.FOLLOWS)
    if Feature.KEEPS in arguments:
        found.add(Feature.KEEPS)
    return frozenset(found)
