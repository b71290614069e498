"""Changes of the facts of a healthy gate, and the type of the tables of cases."""

import base64
from typing import Any

import msgspec

from tallygate.accounting.amounts import Amounts
from tallygate.admission.self_registration import BY_GATE, REGISTRATION_ANNOTATION
from tallygate.cli.doctor.check_result import CheckStatus
from tallygate.cli.doctor.facts import CapLimits, PermissionResult, Unavailable
from tallygate.cli.doctor.permissions import PERMISSIONS
from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.objects.core import ResourceQuota
from tests.cli.doctor.healthy_gate import Object, create_registration, replica, webhook

FAIL, WARN, UNKNOWN = CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.UNKNOWN
VALIDATE, MUTATE = "validate.tallygate.dev", "mutate.tallygate.dev"
CHANGES = "updates.validate.tallygate.dev"
UNAVAILABLE = Unavailable("403 forbidden")

Cases = dict[str, tuple[dict[str, Any], dict[str, CheckStatus]]]
"""The changed facts and the status of every check that is then not PASS, by the name of the case."""


def change_webhook(phase: str, name: str, **fields: Any) -> dict[str, Any]:
    """Return the webhook configurations with one webhook changed."""

    def change(mutating: Object, validating: Object) -> None:
        webhook(mutating if phase == "mutate" else validating, name).update(fields)

    return create_registration(change)


def replace_bundle(bundle: bytes) -> dict[str, Any]:
    """Return the webhook configurations where the validating webhook has this CA bundle."""

    def change(_: Object, validating: Object) -> None:
        webhook(validating, VALIDATE)["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()

    return create_registration(change)


def create_other_configuration(name: str) -> WebhookConfiguration:
    """Return another mutating configuration, which receives pods."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*/*"]}
    hook = {"name": "one.example.com", "rules": [rule]}
    return msgspec.convert({"metadata": {"name": name}, "webhooks": [hook]}, WebhookConfiguration)


def create_unregistered() -> WebhookConfiguration:
    """Return a configuration that is left to the gate, without webhooks."""
    metadata = {"name": "tallygate", "annotations": {REGISTRATION_ANNOTATION: BY_GATE}}
    return msgspec.convert({"metadata": metadata}, WebhookConfiguration)


def quota(hard: dict[str, str], *, labels: dict[str, str] | None = None, **spec: Any) -> ResourceQuota:
    """Return a ResourceQuota of team-a."""
    metadata = {"name": "team", "namespace": "team-a", "labels": labels or {}}
    whole = {"metadata": metadata, "spec": {"hard": hard, **spec}}
    return msgspec.json.decode(msgspec.json.encode(whole), type=ResourceQuota)


def create_cap_limits(*, whole: bool = True) -> tuple[CapLimits, ...]:
    """Return a cap of four GPUs and two cores for team-a."""
    return (CapLimits("gpus", "team-a", Amounts({"nvidia.com/gpu": 4, "limits.cpu": 2000}), whole),)


def exclude_permissions(*verbs: str) -> tuple[PermissionResult, ...]:
    """Return every permission except these."""
    return tuple(PermissionResult(right, str(right) not in verbs) for right in PERMISSIONS)


def change_first_replica(**replica_changes: Any) -> dict[str, Any]:
    """Return two replicas, the first of which has these changes."""
    return {"replicas": (replica(**replica_changes), replica("pod-b"))}
