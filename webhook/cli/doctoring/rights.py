"""What the gate's ServiceAccount must be allowed to do, by what it is started with.

`deploy/` grants these and nothing else; tests/cli/doctor/test_rights.py holds this table to it.
"""

from enum import StrEnum
from typing import NamedTuple

from webhook.admission.registration import CONFIGURATION_NAME
from webhook.gate.leader_election import LEADER_LEASE
from webhook.state.kubernetes import naming

DEFAULT_SECRET = "tallygate-tls"  # noqa: S105  its name
"""What the gate's certificate is kept in."""


class Feature(StrEnum):
    """What a gate may be started with that asks the API server for something."""

    FOLLOWS = "--cluster"
    KEEPS = "--ledgers"
    TELLS = "--events"
    CERTIFIES = "--tls-secret"
    AUDITS = "--audit-every"

    @property
    def grants(self) -> str:
        """The file that grants what it takes."""
        return f"deploy/kustomize/components/{_COMPONENTS.get(self, 'followed')}/rbac.yaml"


_COMPONENTS = {Feature.CERTIFIES: "self-signed", Feature.AUDITS: "audit"}


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


def _each(verbs: str, group: str, resources: str, feature: Feature, *, name: str = "") -> tuple[Right, ...]:
    """Rights everywhere."""
    return tuple(
        Right(verb, group, resource, feature, name=name) for resource in resources.split() for verb in verbs.split()
    )


def _own(verbs: str, group: str, resource: str, feature: Feature, *, name: str = "") -> tuple[Right, ...]:
    """Rights in the gate's own namespace."""
    return tuple(Right(verb, group, resource, feature, is_own=True, name=name) for verb in verbs.split())


_REPORTING = "list get create update delete"

RIGHTS: tuple[Right, ...] = (
    *_each("get list watch", "", "pods", Feature.FOLLOWS),
    *_each("list watch", "", "namespaces nodes resourcequotas", Feature.FOLLOWS),
    *_each("list watch", "resource.k8s.io", "deviceclasses", Feature.FOLLOWS),
    *_each("get", "apps", "deployments replicasets statefulsets", Feature.FOLLOWS),
    *_each("get", "", "replicationcontrollers", Feature.FOLLOWS),
    *_each("create update", "", "events", Feature.TELLS),
    *_own("get create update delete", naming.GROUP, naming.PLURAL, Feature.KEEPS),
    *_own("list create update delete", "coordination.k8s.io", "leases", Feature.KEEPS),
    *_own("get update watch", "", "secrets", Feature.CERTIFIES, name=DEFAULT_SECRET),
    *_own("create", "", "secrets", Feature.CERTIFIES),
    *_each(
        "get patch watch",
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations validatingwebhookconfigurations",
        Feature.CERTIFIES,
        name=CONFIGURATION_NAME,
    ),
    *_each("list", "", "nodes podtemplates replicationcontrollers resourcequotas limitranges", Feature.AUDITS),
    *_each("list", "apps", "daemonsets deployments replicasets statefulsets", Feature.AUDITS),
    *_each("list", "batch", "cronjobs jobs", Feature.AUDITS),
    *_each(_REPORTING, "openreports.io", "reports clusterreports", Feature.AUDITS),
    *_each(_REPORTING, "wgpolicyk8s.io", "policyreports clusterpolicyreports", Feature.AUDITS),
)

LEASE = LEADER_LEASE
"""The Lease of who keeps ledgers."""


def features(arguments: tuple[str, ...]) -> frozenset[Feature]:
    """What a gate that is started with these arguments asks for. Events are on unless they are turned off."""
    given = dict(each.split("=", 1) for each in arguments if each.startswith("--") and "=" in each)
    found = {feature for feature in (Feature.CERTIFIES, Feature.AUDITS) if given.get(feature)}
    if given.get(Feature.KEEPS) == "kubernetes":
        found.add(Feature.KEEPS)
    if given.get(Feature.FOLLOWS, "none") != "none":
        found.add(Feature.FOLLOWS)
        if given.get(Feature.TELLS) != "off":
            found.add(Feature.TELLS)
    return frozenset(found)
