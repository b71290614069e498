"""The permissions that the gate's ServiceAccount needs, by the gate's arguments.

`deploy/` grants exactly these; tests/cli/doctor/test_permissions.py compares both.
"""

from enum import StrEnum
from typing import NamedTuple

from tallygate.admission.webhook_configuration import CONFIGURATION_NAME
from tallygate.backstop.compiled_objects import POLICY_NAMES
from tallygate.gate.leader_election import LEADER_LEASE
from tallygate.policy.known_kinds import KNOWN_KINDS
from tallygate.policy.model import PolicySet
from tallygate.state.kubernetes import cap_ledger, cap_usage
from tallygate.state.kubernetes.applied_objects import BACKSTOP_ROLE, USAGE_ROLE
from tallygate.state.kubernetes.ask_address_store import ASK_NAME

DEFAULT_SECRET = "tallygate-tls"  # noqa: S105  its name
"""The name of the Secret with the gate's certificate."""

_REGISTRATION_GROUP = "admissionregistration.k8s.io"
_REGISTRATION_RESOURCES = "mutatingwebhookconfigurations validatingwebhookconfigurations"
_POLICY_RESOURCES = "validatingadmissionpolicies validatingadmissionpolicybindings"
_REPORT_VERBS = "list get create update delete"
LEADER_LEASE_NAME = LEADER_LEASE
"""The name of the Lease of the leader."""


class Feature(StrEnum):
    """An option of the gate that needs permissions in the API server."""

    CLUSTER = "--cluster"
    CLUSTER_LEDGERS = "--ledgers"
    EVENTS = "--events"
    CERTIFICATES = "--tls-secret"
    AUDIT = "--audit-interval"
    PUBLICATION = "--publish-nodes"
    BACKSTOP = "--backstop"
    USAGE = "--publish-usage"
    ASK_ADDRESS = "--ask-url"

    @property
    def manifest_path(self) -> str:
        """The manifest that grants the permissions of the feature."""
        return f"deploy/kustomize/components/{_MANIFESTS.get(self, 'cluster-access/rbac.yaml')}"


_MANIFESTS = {
    Feature.CERTIFICATES: "self-signed/rbac.yaml",
    Feature.AUDIT: "audit/rbac.yaml",
    Feature.PUBLICATION: "publish-nodes/rbac.yaml",
    Feature.BACKSTOP: "backstop/rbac.yaml",
    Feature.USAGE: "publish-usage/rbac.yaml",
    Feature.ASK_ADDRESS: "ask/address-rbac.yaml",
}


class Permission(NamedTuple):
    """A verb on a resource, in the gate's own namespace or everywhere; `name` restricts it to one object."""

    verb: str
    group: str
    resource: str
    feature: Feature
    is_namespaced: bool = False
    name: str = ""

    def __str__(self) -> str:
        """Return the permission as text, for example `get pods`."""
        full_resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {full_resource}{f'/{self.name}' if self.name else ''}"


def _create_permissions(
    verbs: str, group: str, resources: str, feature: Feature, *, name: str = ""
) -> tuple[Permission, ...]:
    """Return permissions for all namespaces."""
    return tuple(
        Permission(verb, group, resource, feature, name=name)
        for resource in resources.split()
        for verb in verbs.split()
    )


def _create_namespaced_permissions(
    verbs: str, group: str, resource: str, feature: Feature, *, name: str = ""
) -> tuple[Permission, ...]:
    """Return permissions for the gate's own namespace."""
    return tuple(Permission(verb, group, resource, feature, is_namespaced=True, name=name) for verb in verbs.split())


PERMISSIONS: tuple[Permission, ...] = (
    *_create_permissions("get list watch", "", "pods", Feature.CLUSTER),
    *_create_permissions("list watch", "", "limitranges namespaces nodes resourcequotas", Feature.CLUSTER),
    *_create_permissions("list watch", "scheduling.k8s.io", "priorityclasses", Feature.CLUSTER),
    *_create_permissions("list watch", "node.k8s.io", "runtimeclasses", Feature.CLUSTER),
    *_create_permissions(
        "list watch",
        "resource.k8s.io",
        "deviceclasses devicetaintrules resourceclaimtemplates resourceslices",
        Feature.CLUSTER,
    ),
    *_create_permissions("get list watch", "resource.k8s.io", "resourceclaims", Feature.CLUSTER),
    *_create_permissions("list watch", "karpenter.sh", "nodeclaims nodepools", Feature.CLUSTER),
    *_create_permissions("get", "apps", "daemonsets deployments replicasets statefulsets", Feature.CLUSTER),
    *_create_permissions("get", "", "replicationcontrollers", Feature.CLUSTER),
    *_create_permissions("get", "argoproj.io", "rollouts", Feature.CLUSTER),
    *_create_permissions("get", "batch", "jobs", Feature.CLUSTER),
    *_create_permissions("get", "scheduling.k8s.io", "podgroups", Feature.CLUSTER),
    *(Permission("get", kind.group, kind.resource, Feature.CLUSTER) for kind in KNOWN_KINDS if kind.starts_together),
    *_create_permissions("create update", "", "events", Feature.EVENTS),
    *_create_namespaced_permissions(
        "get create update delete", cap_ledger.GROUP, cap_ledger.PLURAL, Feature.CLUSTER_LEDGERS
    ),
    *_create_namespaced_permissions(
        "list create update delete", "coordination.k8s.io", "leases", Feature.CLUSTER_LEDGERS
    ),
    *_create_namespaced_permissions("get update watch", "", "secrets", Feature.CERTIFICATES, name=DEFAULT_SECRET),
    *_create_namespaced_permissions("create", "", "secrets", Feature.CERTIFICATES),
    *_create_permissions(
        "get update", _REGISTRATION_GROUP, _REGISTRATION_RESOURCES, Feature.CLUSTER, name=CONFIGURATION_NAME
    ),
    *_create_namespaced_permissions("get", "", "namespaces", Feature.CLUSTER),
    *_create_permissions(
        "get patch update watch",
        _REGISTRATION_GROUP,
        _REGISTRATION_RESOURCES,
        Feature.CERTIFICATES,
        name=CONFIGURATION_NAME,
    ),
    *_create_namespaced_permissions("get", "apps", "deployments", Feature.CERTIFICATES, name=CONFIGURATION_NAME),
    *_create_namespaced_permissions("get", "", "namespaces", Feature.CERTIFICATES),
    *_create_permissions(
        "list", "", "nodes podtemplates replicationcontrollers resourcequotas limitranges", Feature.AUDIT
    ),
    *_create_permissions("list", "apps", "daemonsets deployments replicasets statefulsets", Feature.AUDIT),
    *_create_permissions("list", "batch", "cronjobs jobs", Feature.AUDIT),
    *(Permission("list", kind.group, kind.resource, Feature.AUDIT) for kind in KNOWN_KINDS),
    *_create_permissions(_REPORT_VERBS, "openreports.io", "reports clusterreports", Feature.AUDIT),
    *_create_permissions(_REPORT_VERBS, "wgpolicyk8s.io", "policyreports clusterpolicyreports", Feature.AUDIT),
    *_create_permissions("patch", "", "nodes/status", Feature.PUBLICATION),
    *_create_permissions("list create", _REGISTRATION_GROUP, _POLICY_RESOURCES, Feature.BACKSTOP),
    *(
        permission
        for name in POLICY_NAMES
        for permission in _create_permissions(
            "patch delete", _REGISTRATION_GROUP, _POLICY_RESOURCES, Feature.BACKSTOP, name=name
        )
    ),
    *_create_permissions("list create patch delete", "", "resourcequotas", Feature.BACKSTOP),
    *_create_permissions("get", "rbac.authorization.k8s.io", "clusterroles", Feature.BACKSTOP, name=BACKSTOP_ROLE),
    *_create_permissions("list create patch delete", cap_ledger.GROUP, cap_usage.PLURAL, Feature.USAGE),
    *_create_permissions("get", "rbac.authorization.k8s.io", "clusterroles", Feature.USAGE, name=USAGE_ROLE),
    *_create_namespaced_permissions("get patch", "", "configmaps", Feature.ASK_ADDRESS, name=ASK_NAME),
)


def list_permissions(policies: PolicySet | None) -> tuple[Permission, ...]:
    """Return the permissions that a gate with these policies may need; only `PERMISSIONS` if they are unknown.

    No manifest of `deploy/` grants those on the kinds that policies define: an audit lists their objects, and under a
    cap with `admit: whole` the gate reads the object that controls a pod.
    """
    kinds = () if policies is None else policies.workload_kinds
    listed = [Permission("list", own_kind.group, own_kind.resource, Feature.AUDIT) for own_kind in kinds]
    read: list[Permission] = []
    if policies is not None and any(cap.admits_whole for cap in policies.caps):
        read = [
            Permission("get", own_kind.group, own_kind.resource, Feature.CLUSTER)
            for own_kind in kinds
            if own_kind.starts_together
        ]
    return (*PERMISSIONS, *listed, *read)


def parse_features(arguments: tuple[str, ...]) -> frozenset[Feature]:
    """Return the features that these arguments enable. Events are on unless an argument turns them off."""
    options = dict(argument.split("=", 1) for argument in arguments if argument.startswith("--") and "=" in argument)
    enabled = {
        feature for feature in (Feature.CERTIFICATES, Feature.AUDIT, Feature.ASK_ADDRESS) if options.get(feature)
    }
    enabled |= {
        feature for feature in (Feature.PUBLICATION, Feature.BACKSTOP, Feature.USAGE) if options.get(feature) == "on"
    }
    if options.get(Feature.CLUSTER_LEDGERS) == "kubernetes":
        enabled.add(Feature.CLUSTER_LEDGERS)
    if options.get(Feature.CLUSTER, "none") != "none":
        enabled.add(Feature.CLUSTER)
        if options.get(Feature.EVENTS) != "off":
            enabled.add(Feature.EVENTS)
    return frozenset(enabled)
