"""What may be different about a gate that is not well, and how a table of such differences is written."""

import base64
from typing import Any

import msgspec

from tests.cli.doctor.world import Object, registered, replica, webhook
from webhook.accounting.amounts import Amounts
from webhook.cli.doctor.api_types import WebhookConfiguration
from webhook.cli.doctor.check_result import CheckStatus
from webhook.cli.doctor.facts import CapLimits, PermissionResult, Unavailable
from webhook.cli.doctor.permissions import PERMISSIONS
from webhook.objects.core import ResourceQuota

FAIL, WARN, UNKNOWN = CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.UNKNOWN
VALIDATE, MUTATE = "validate.tallygate.dev", "mutate.tallygate.dev"
CHANGES = "updates.validate.tallygate.dev"
UNSEEN = Unavailable("403 forbidden")

Cases = dict[str, tuple[dict[str, Any], dict[str, CheckStatus]]]
"""By what is different: the facts that are, and every check that is then not PASS."""


def changed(phase: str, name: str, **fields: Any) -> dict[str, Any]:
    """The registration with one webhook changed."""

    def change(mutating: Object, validating: Object) -> None:
        webhook(mutating if phase == "mutate" else validating, name).update(fields)

    return registered(change)


def trusting(bundle: bytes) -> dict[str, Any]:
    """The registration where the validating webhook trusts others."""

    def change(_: Object, validating: Object) -> None:
        webhook(validating, VALIDATE)["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()

    return registered(change)


def later(name: str) -> WebhookConfiguration:
    """Another mutating configuration, which sees pods."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*/*"]}
    hook = {"name": "one.example.com", "rules": [rule]}
    return msgspec.convert({"metadata": {"name": name}, "webhooks": [hook]}, WebhookConfiguration)


def quota(hard: dict[str, str], **spec: Any) -> ResourceQuota:
    """A ResourceQuota of team-a."""
    whole = {"metadata": {"name": "team", "namespace": "team-a"}, "spec": {"hard": hard, **spec}}
    return msgspec.json.decode(msgspec.json.encode(whole), type=ResourceQuota)


def capped(*, whole: bool = True) -> tuple[CapLimits, ...]:
    """A cap of four GPUs and two cores over team-a."""
    return (CapLimits("gpus", "team-a", Amounts({"nvidia.com/gpu": 4, "limits.cpu": 2000}), whole),)


def without(*verbs: str) -> tuple[PermissionResult, ...]:
    """Every right but these."""
    return tuple(PermissionResult(right, str(right) not in verbs) for right in PERMISSIONS)


def only(**replica_changes: Any) -> dict[str, Any]:
    """One of the two replicas is otherwise."""
    return {"replicas": (replica(**replica_changes), replica("pod-b"))}
