"""The webhook configurations of the bench: each for its own namespaces only, so that all can be registered at once.

Every server is reached by a Service, as in a cluster, except the one that shows the cost of HTTP/2. The
API server uses it for loopback URLs only (k8s.io/apiserver/pkg/util/webhook/client.go, v1.36), and no webhook of a
cluster has a loopback URL. The Services have type ExternalName, because cluster addresses are not routed here.
"""

import base64
from typing import Any

from e2e.bench.variants import CONDITIONS, FLOOR_HTTP2, FLOOR_KEPT, PHASES, Variant
from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.webhook_configuration import ServiceTarget
from tests.admission.plain_configurations import create_plain_configurations

SERVERS = "bench-servers"
"""The namespace of the Services."""

LOOPBACK = "127.0.0.1"
"""The host of webhooks that the API server calls by HTTP/2."""

_HOST = "localhost"
_KINDS = (("mutating", "MutatingWebhookConfiguration"), ("validating", "ValidatingWebhookConfiguration"))
_OMITTED = ("nodes.", "namespaces.", "scales.")  # webhooks of objects outside the namespaces of the bench
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""The label of each namespace with its name."""


def host(variant: Variant) -> str:
    """Return the host name of the variant's server, which its certificate must have."""
    return f"{variant.name}.{SERVERS}.svc"


def service(variant: Variant) -> dict[str, Any]:
    """Return a Service that leads to this machine."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": variant.name, "namespace": SERVERS},
        "spec": {"type": "ExternalName", "externalName": _HOST},
    }


def gate(
    variant: Variant, port: int, authority: bytes, conditions: MatchConditions | None = None
) -> list[dict[str, Any]]:
    """Return both configurations of a gate, limited to the variant's namespaces and to creates and updates.

    `conditions` are those of the policies; without them the gate is asked about everything.
    """
    target = ServiceTarget(SERVERS, variant.name, port)
    configurations = create_plain_configurations(target, ca_bundle=authority, conditions=conditions)
    for configuration in configurations:
        objects = [each for each in configuration["webhooks"] if not each["name"].startswith(_OMITTED)]
        for each in objects:
            each["name"] = f"{variant.name}.{each['name']}"
            each["namespaceSelector"] = _select_variant(variant)
        configuration["metadata"]["name"] = variant.namespace
        configuration["webhooks"] = objects
    return list(configurations)


def never(variant: Variant, port: int, authority: bytes, conditions: MatchConditions) -> list[dict[str, Any]]:
    """Return the configurations of `gate`, whose webhooks have the condition of the variant alone."""
    configurations = gate(variant, port, authority, conditions)
    for configuration in configurations:
        for each in configuration["webhooks"]:
            each["matchConditions"] = [{"name": "never", "expression": CONDITIONS[variant]}]
    return configurations


def constant(variant: Variant, port: int, authority: bytes) -> dict[str, Any]:
    """Return one validating call for the creates that a gate gets; it rejects in the variant's full namespace."""
    _, configuration = create_plain_configurations(ServiceTarget(SERVERS, variant.name, port), ca_bundle=authority)
    created, allowing = configuration["webhooks"][0], "keep" if variant is FLOOR_KEPT else "allow"
    return configuration | {
        "metadata": {"name": variant.namespace},
        "webhooks": [
            created
            | {
                "name": f"{variant.name}.{answer}.example.com",
                "clientConfig": _client(variant, port, authority, f"/{answer}"),
                "namespaceSelector": _select_namespaces(where),
            }
            for answer, where in ((allowing, variant.namespace), ("refuse", variant.full))
        ],
    }


def trivial(variant: Variant, port: int, authority: bytes) -> list[dict[str, Any]]:
    """Return the configurations of a webhook that allows every pod, as an author would write them, for its phases."""
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE", "UPDATE"]}
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": variant.namespace},
            "webhooks": [
                {
                    "name": f"{variant.name}.{phase}.example.com",
                    "clientConfig": _client(variant, port, authority, "/v1/admit/validate"),
                    "rules": [pods],
                    "namespaceSelector": _select_variant(variant),
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "timeoutSeconds": 5,
                }
            ],
        }
        for phase, kind in _KINDS
        if phase in PHASES[variant]
    ]


def _client(variant: Variant, port: int, authority: bytes, path: str) -> dict[str, Any]:
    trusted = {"caBundle": base64.b64encode(authority).decode()}
    if variant is FLOOR_HTTP2:
        return {"url": f"https://{LOOPBACK}:{port}{path}"} | trusted
    return {"service": {"namespace": SERVERS, "name": variant.name, "port": port, "path": path}} | trusted


def _select_variant(variant: Variant) -> dict[str, Any]:
    return _select_namespaces(variant.namespace, variant.full)


def _select_namespaces(*namespaces: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": "In", "values": list(namespaces)}]}
