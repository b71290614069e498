"""CustomResourceDefinition of CapLedger: the schema, the stored fields and the printed columns.

Every map and list is atomic, so that the API server tracks their owners as one field and not entry by entry. `status`
is not a subresource: one request writes a ledger.
"""

from typing import Any

from tallygate.state.kubernetes import cap_ledger

_TEXT = {"type": "string"}
_DIGITS = {"type": "string", "pattern": "^-?[0-9]{1,64}$"}
_REVISION = {"type": "string", "pattern": "^[0-9]{1,64}$"}


def create_crd() -> dict[str, Any]:
    """Return the object, ready to apply."""
    names = {
        "kind": cap_ledger.KIND,
        "listKind": f"{cap_ledger.KIND}List",
        "plural": cap_ledger.PLURAL,
        "singular": cap_ledger.KIND.lower(),
        "shortNames": ["cl"],
    }
    version = {
        "name": cap_ledger.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _create_schema()},
        "additionalPrinterColumns": _create_columns(),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{cap_ledger.PLURAL}.{cap_ledger.GROUP}",
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
            "isNew": {
                "type": "boolean",
                "description": "Whether the cap was never active: until then it reserves without a limit.",
            },
            "activeFrom": _TEXT
            | {"format": "date-time", "description": "The time at which the ledger is expected to be active."},
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
