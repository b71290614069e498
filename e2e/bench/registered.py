"""The webhook configurations of the bench: each for its own namespaces only, so that all can be registered at once.

Every server is reached by a Service, as in a cluster, but for the one that is there to show what HTTP/2 would cost. The
API server speaks that to loopback URLs and to nothing else (k8s.io/apiserver/pkg/util/webhook/client.go, v1.36), and
nobody's webhook is a loopback URL. The Services are of type ExternalName, since nothing here routes cluster addresses.
"""

import base64
from typing import Any

from e2e.bench.objects import LEFT
from e2e.bench.variants import FLOOR, FLOOR_HTTP2, FLOOR_KEPT, PHASES, Variant
from webhook.admission.webhook_configuration import ServiceTarget, create_webhook_configurations

SERVERS = "bench-servers"
"""The namespace of the Services."""

LOOPBACK = "127.0.0.1"
"""As the API server calls what it speaks HTTP/2 to."""

LEFTOVERS = "bench-leftovers"
"""The configuration that leaves reservations open."""

_HOST = "localhost"
_KINDS = (("mutating", "MutatingWebhookConfiguration"), ("validating", "ValidatingWebhookConfiguration"))
_TOLD = ("nodes.", "namespaces.", "scales.")  # of what is in no namespace of ours, or is no object
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def host(variant: Variant) -> str:
    """The name by which the API server calls the variant's server: its certificate must be good for it."""
    return f"{variant.name}.{SERVERS}.svc"


def service(variant: Variant) -> dict[str, Any]:
    """A Service that leads to this machine."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": variant.name, "namespace": SERVERS},
        "spec": {"type": "ExternalName", "externalName": _HOST},
    }


def gate(variant: Variant, port: int, authority: bytes) -> list[dict[str, Any]]:
    """Both configurations of a tallygate as it registers itself, but for its namespaces, of creates and updates."""
    reached = ServiceTarget(SERVERS, variant.name, port)
    configurations = create_webhook_configurations(reached, ca_bundle=authority)
    for configuration in configurations:
        objects = [each for each in configuration["webhooks"] if not each["name"].startswith(_TOLD)]
        for each in objects:
            each["name"] = f"{variant.name}.{each['name']}"
            each["namespaceSelector"] = _only(variant)
        configuration["metadata"]["name"] = variant.namespace
        configuration["webhooks"] = objects
    return list(configurations)


def constant(variant: Variant, port: int, authority: bytes) -> dict[str, Any]:
    """One validating call for what is created of what a gate is asked about; where there is no room, to who refuses."""
    _, configuration = create_webhook_configurations(ServiceTarget(SERVERS, variant.name, port), ca_bundle=authority)
    created, let_in = configuration["webhooks"][0], "keep" if variant is FLOOR_KEPT else "allow"
    return configuration | {
        "metadata": {"name": variant.namespace},
        "webhooks": [
            created
            | {
                "name": f"{variant.name}.{answer}.example.com",
                "clientConfig": _client(variant, port, authority, f"/{answer}"),
                "namespaceSelector": _within(where),
            }
            for answer, where in ((let_in, variant.namespace), ("refuse", variant.full))
        ],
    }


def leftovers(variant: Variant, port: int, authority: bytes) -> dict[str, Any]:
    """Let the constant answer refuse the labelled pods of a variant, beside its gate, whose reservation stays open."""
    _, configuration = create_webhook_configurations(ServiceTarget(SERVERS, FLOOR.name, port), ca_bundle=authority)
    refusing = configuration["webhooks"][0] | {
        "name": "leftover.example.com",
        "clientConfig": _client(FLOOR, port, authority, "/refuse"),
        "namespaceSelector": _within(variant.namespace),
        "objectSelector": {"matchLabels": {LEFT: "true"}},
    }
    return configuration | {"metadata": {"name": LEFTOVERS}, "webhooks": [refusing]}


def trivial(variant: Variant, port: int, authority: bytes) -> list[dict[str, Any]]:
    """The configurations of a webhook that allows every pod, as somebody would write them by hand, for its phases."""
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
                    "namespaceSelector": _only(variant),
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


def _only(variant: Variant) -> dict[str, Any]:
    return _within(variant.namespace, variant.full)


def _within(*namespaces: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": _NAMESPACE_LABEL, "operator": "In", "values": list(namespaces)}]}
