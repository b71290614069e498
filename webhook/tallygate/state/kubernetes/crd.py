"""CustomResourceDefinitions of CapLedger and CapUsage: the schemas, the stored fields and the printed columns.

Every map and list is atomic, so that the API server tracks their owners as one field and not entry by entry. `status`
is not a subresource: one request writes an object.
"""

from typing import Any

from tallygate.state.kubernetes import cap_ledger, cap_usage

_TEXT = {"type": "string"}
_DIGITS = {"type": "string", "pattern": "^-?[0-9]{1,64}$"}
_GUARANTEES = _TEXT | {"description": "A JSON text: by member namespace, the amounts that are guaranteed to it."}
_USED_BY_NAMESPACE = _TEXT | {"description": "A JSON text: the part of `used` of each namespace with a guarantee."}
_REVISION = {"type": "string", "pattern": "^[0-9]{1,64}$"}

_ACTIVATION_FIELDS = {
    "isNew": {
        "type": "boolean",
        "description": "Whether the cap was never active: until then it reserves without a limit.",
    },
    "activeFrom": _TEXT
    | {"format": "date-time", "description": "The time at which the ledger is expected to be active."},
}


def create_crd() -> dict[str, Any]:
    """Return the definition of CapLedger, ready to apply."""
    return _create_definition(cap_ledger.KIND, cap_ledger.PLURAL, "cl", _create_schema(), _create_columns())


def create_usage_crd() -> dict[str, Any]:
    """Return the definition of CapUsage, ready to apply."""
    return _create_definition(
        cap_usage.KIND, cap_usage.PLURAL, "capuse", _create_usage_schema(), _create_usage_columns()
    )


def _create_definition(
    kind: str, plural: str, short_name: str, schema: dict[str, Any], columns: list[dict[str, Any]]
) -> dict[str, Any]:
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "shortNames": [short_name],
    }
    version = {
        "name": cap_ledger.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{cap_ledger.GROUP}",
            "labels": {"app.kubernetes.io/name": "tallygate", "app.kubernetes.io/component": "gate"},
        },
        "spec": {"group": cap_ledger.GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _create_columns() -> list[dict[str, Any]]:
    return [
        {"name": "Cap", "type": "string", "jsonPath": ".spec.cap"},
        {"name": "Namespace", "type": "string", "jsonPath": ".spec.namespace", "description": "Empty: it is shared."},
        {"name": "Hard", "type": "string", "jsonPath": ".status.summary.hard"},
        {"name": "Used", "type": "string", "jsonPath": ".status.summary.used"},
        {"name": "Reserved", "type": "string", "jsonPath": ".status.summary.reserved"},
        {"name": "Reservations", "type": "integer", "jsonPath": ".status.summary.reservations"},
        {"name": "Counted", "type": "date", "jsonPath": ".status.summary.countedAt"},
        {"name": "Initializing", "type": "string", "jsonPath": ".status.initializing", "priority": 1},
    ]


def _create_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": (
            "The amounts that pods and claims under one cap use, and the reservations of what is not counted yet. The "
            "gate writes it; after a change by hand the gate may admit more than the cap allows, or less."
        ),
        "required": ["spec", "status"],
        "properties": {"spec": _create_spec_schema(), "status": _create_status_schema()},
    }


def _create_spec_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "The key of the ledger.",
        "required": ["cap"],
        "properties": {
            "cap": _TEXT | {"description": "The cap's name, a hash of what it counts, and the value of a group."},
            "namespace": _TEXT | {"description": "The namespace of the ledger; empty for a cap that is shared."},
        },
    }


def _create_status_schema() -> dict[str, Any]:
    names = {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "atomic"}
    return {
        "type": "object",
        "description": "The ledger. Amounts are in thousandths for cpu, in bytes for memory, otherwise in whole units.",
        "properties": {
            "hard": _create_amounts_schema("The hard limits of the cap, from the policies of the leader."),
            "used": _create_amounts_schema("The amounts of the pods and claims that are counted."),
            "unconfirmed": _create_amounts_schema("The part of `used` that may be counted twice for a moment."),
            "unpublished": {
                "type": "object",
                "description": "By UID, the amounts of claims whose devices no ResourceSlice publishes now.",
                "additionalProperties": {
                    "type": "object",
                    "additionalProperties": _DIGITS,
                    "x-kubernetes-map-type": "atomic",
                },
                "x-kubernetes-map-type": "atomic",
            },
            "resources": names
            | {"description": "The names of the resources that are counted, and the ways to a device under a name."},
            "podsResourceVersion": _REVISION | {"description": "The resourceVersion of the pods that were counted."},
            "claimsResourceVersion": _REVISION
            | {"description": "The resourceVersion of the claims for devices that were counted."},
            "namespacesResourceVersion": _REVISION
            | {"description": "The resourceVersion of the namespaces that were counted."},
            "namespacesHash": _TEXT | {"description": "A hash of the member namespaces at that resourceVersion."},
            "initializing": _TEXT
            | {"description": "The nonce of the creator, while the ledger reserves nothing; empty once active."},
            "reservations": _TEXT
            | {"description": "What is not counted yet: UID, name and attempt, below the requested amounts."},
            "surge": _create_amounts_schema("The amounts above `hard` that pods of a controller that rolls may use."),
            "surgeSince": _TEXT
            | {"format": "date-time", "description": "The time at which such a pod exceeded `hard`, until that ends."},
            "deviceClasses": {
                "type": "object",
                "description": "By DeviceClass, the extended resources by which its devices are counted.",
                "additionalProperties": names,
                "x-kubernetes-map-type": "atomic",
            },
            "remapped": names | {"description": "Names whose allocations are decided, since a class has changed."},
            "remappingMark": _TEXT | {"description": "The change of classes after which they are."},
            **_ACTIVATION_FIELDS,
            "guarantees": _GUARANTEES,
            "usedByNamespace": _USED_BY_NAMESPACE,
            "summary": _create_summary_schema(),
        },
    }


def _create_summary_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "The same in a form for people. No decision depends on it.",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "hard": _TEXT,
            "used": _TEXT,
            "reserved": _TEXT,
            "reservations": {"type": "integer"},
            "countedAt": _TEXT
            | {"format": "date-time", "description": "The time of the last recount from newer pods."},
        },
    }


def _create_amounts_schema(description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "additionalProperties": _DIGITS,
        "x-kubernetes-map-type": "atomic",
    }


def _create_usage_columns() -> list[dict[str, Any]]:
    return [
        {"name": "Used", "type": "string", "jsonPath": ".status.summary.used", "description": "Used and hard."},
        {"name": "Free", "type": "string", "jsonPath": ".status.summary.free"},
        {"name": "Until", "type": "string", "jsonPath": ".status.summary.until", "description": "The end of a limit."},
        {"name": "State", "type": "string", "jsonPath": ".status.state"},
        {"name": "As of", "type": "date", "jsonPath": ".status.asOf"},
        {"name": "Reserved", "type": "string", "jsonPath": ".status.summary.reserved", "priority": 1},
        {"name": "Sharing", "type": "string", "jsonPath": ".status.sharing", "priority": 1},
        {"name": "Namespaces", "type": "integer", "jsonPath": ".status.namespaces", "priority": 1},
    ]


def _create_usage_schema() -> dict[str, Any]:
    time = _TEXT | {"format": "date-time"}
    properties = {
        "state": _TEXT
        | {
            "enum": [state.value for state in cap_usage.CapState],
            "description": "`active`; `new`: it counts first and rejects nothing; `initializing`: it is counted again.",
        },
        "activeFrom": time | {"description": "The time at which a cap that is not active is expected to be."},
        "sharing": _TEXT
        | {
            "enum": [sharing.value for sharing in cap_usage.CapSharing],
            "description": "Whether the amounts are those of this namespace alone, of several, or of a group.",
        },
        "namespaces": {"type": "integer", "description": "The number of namespaces that share the amounts."},
        "resources": {
            "type": "array",
            "description": "The amounts of each resource that the cap counts, as quantities.",
            "items": _create_published_resource_schema(),
            "x-kubernetes-list-type": "atomic",
        },
        "summary": {
            "type": "object",
            "description": "The same in a form for people.",
            "x-kubernetes-map-type": "atomic",
            "properties": {"used": _TEXT, "reserved": _TEXT, "free": _TEXT, "until": _TEXT},
        },
        "asOf": time | {"description": "The time of the write: since then the gate has seen no other amounts."},
    }
    return {
        "type": "object",
        "description": (
            "A cap of this namespace: its limits and the amounts that are used, reserved and free. The gate writes it "
            "and reads it for no decision."
        ),
        "properties": {
            "status": {
                "type": "object",
                "description": "The cap and its amounts.",
                "required": ["state", "sharing", "namespaces"],
                "properties": properties,
            }
        },
    }


def _create_published_resource_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": _TEXT | {"description": "The name of the resource."},
            "hard": _TEXT | {"description": "The hard limit now; absent without one."},
            "soft": _TEXT | {"description": "The soft limit; absent without one."},
            "used": _TEXT | {"description": "The amount that pods and claims use; absent if it is unknown."},
            "reserved": _TEXT | {"description": "The amount that is reserved for pods that are not counted yet."},
            "free": _TEXT | {"description": "`hard` less `used` and `reserved`; absent without a hard limit."},
            "until": _TEXT | {"format": "date-time", "description": "The end of the hard limit, if it has one."},
            "later": _TEXT | {"description": "The hard limit from then on."},
        },
    }
