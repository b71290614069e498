"""Whether the gate may do what it is started to do."""

from webhook.admission.webhook_configuration import DEFAULT_NAMESPACE
from webhook.cli.doctoring.asked_for import detect_features
from webhook.cli.doctoring.facts import GateFacts, Unavailable
from webhook.cli.doctoring.mending import format_kubectl
from webhook.cli.doctoring.verdict import (
    Check,
    CheckResult,
    create_failure,
    create_pass,
    create_unknown,
    create_warning,
    format_names,
)

_OVERLAY = "deploy/kustomize/mine"


def _check_permissions(facts: GateFacts) -> CheckResult:
    if isinstance(facts.permissions, Unavailable):
        return create_unknown(f"what the gate's ServiceAccount may do could not be asked: {facts.permissions.reason}")
    features = detect_features(facts)
    needed = [
        permission_result
        for permission_result in facts.permissions
        if features is None or permission_result.permission.feature in features
    ]
    account = f"{facts.location.namespace}/tallygate"
    if not needed:
        return create_pass(f"ServiceAccount {account} needs none: the gate follows no cluster")
    missing = [str(each.permission) for each in needed if not each.allowed]
    if not missing:
        return create_pass(f"ServiceAccount {account} has all {len(needed)} rights that it needs")
    create_result = create_warning if features is None else create_failure
    files = dict.fromkeys(each.permission.feature.manifest_path for each in needed if not each.allowed)
    reason = f"ServiceAccount {account} lacks {len(missing)} of {len(needed)} rights: {format_names(missing)}"
    if facts.location.namespace != DEFAULT_NAMESPACE:  # another overlay has put it there, and knows how
        return create_result(reason, format_kubectl(facts.location, "apply", "-k", _OVERLAY))
    return create_result(reason, *(format_kubectl(facts.location, "apply", f"--filename={file}") for file in files))


PERMISSION_CHECKS = (
    Check(
        "rights",
        "The gate's ServiceAccount may do what it must",
        "FAIL: it lacks a right; WARN: it lacks one, and whether the gate needs it cannot be seen",
        _check_permissions,
    ),
)
