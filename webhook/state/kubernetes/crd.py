"""CustomResourceDefinition of CapLedger: the schema, the stored fields and the printed columns.

Every map and list is atomic, so that the API server tracks their owners as one field and not entry by entry. `status`
is not a subresource: one request writes a ledger.
"""

from typing import Any

from webhook.state.kubernetes import cap_ledger

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
        {"name": "Namespace", "type": "string", "jsonPath": ".spec.namespace", "description": "None: it is shared."},
        {"name": "Hard", "type": "string", "jsonPath": ".status.shown.hard"},
        {"name": "Held", "type": "string", "jsonPath": ".status.shown.held"},
        {"name": "Promised", "type": "string", "jsonPath": ".status.shown.promised"},
        {"name": "Rows", "type": "integer", "jsonPath": ".status.shown.rows"},
        {"name": "Counted", "type": "date", "jsonPath": ".status.shown.countedAt"},
        {"name": "Converging", "type": "string", "jsonPath": ".status.converging", "priority": 1},
    ]


def _create_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": (
            "What the pods under one cap hold, and what is promised to pods that are not counted yet. The gate writes "
            "it; a change by hand, or taking the finalizer off, lets more in than the cap allows, or less."
        ),
        "required": ["spec", "status"],
        "properties": {"spec": _create_spec_schema(), "status": _create_status_schema()},
    }


def _create_spec_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "Which ledger it is.",
        "required": ["cap"],
        "properties": {
            "cap": _TEXT | {"description": "The cap's name and a hash of what it counts."},
            "namespace": _TEXT | {"description": "Whose it is; none for a cap that is shared."},
        },
    }


def _create_status_schema() -> dict[str, Any]:
    names = {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "atomic"}
    return {
        "type": "object",
        "description": "The ledger. Amounts are in thousandths for cpu, in bytes for memory, in whole units else.",
        "properties": {
            "hard": _create_amounts_schema("What the cap allows, as the leader's policies say."),
            "tally": _create_amounts_schema("What the pods hold that are counted."),
            "counts": names | {"description": "The names that the tally counts."},
            "asOf": _REVISION | {"description": "The resourceVersion of the pods that were counted."},
            "nsAsOf": _REVISION | {"description": "The resourceVersion of the namespaces that were counted."},
            "members": _TEXT | {"description": "A hash of the namespaces that the cap held then."},
            "converging": _TEXT | {"description": "Who made the ledger, as long as it promises nothing yet."},
            "rows": _TEXT | {"description": "What is promised to pods that are not counted yet: one on each line."},
            "shown": _create_summary_schema(),
        },
    }


def _create_summary_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "The same for people. Nobody decides by it.",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "hard": _TEXT,
            "held": _TEXT,
            "promised": _TEXT,
            "rows": {"type": "integer"},
            "countedAt": _TEXT | {"format": "date-time", "description": "When it was counted from newer pods last."},
        },
    }


def _create_amounts_schema(description: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "additionalProperties": _DIGITS,
        "x-kubernetes-map-type": "atomic",
    }
