"""The check that the API server reaches the gate and the gate evaluates pods, by dry runs."""

import re

from tallygate.cli.doctor.check_result import (
    Check,
    CheckResult,
    create_failure,
    create_pass,
    create_unknown,
    format_namespaced_kubectl,
)
from tallygate.cli.doctor.facts import DryRun, GateFacts, Unavailable
from tallygate.cli.doctor.webhook_match import CREATE_POD, is_called_for

_CREATED = 201
_MAX_MESSAGE_CHARACTERS = 300
# apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go and pkg/admission/plugin/webhook/errors/statuserror.go
_NOT_CALLED = re.compile(r'failed calling webhook "([^"]+)"')
_DENIED = re.compile(r'admission webhook "([^"]+)" denied the request')


def _check_reachable(facts: GateFacts) -> CheckResult:
    if facts.registration_problem:
        return create_unknown(facts.registration_problem)
    names = {webhook.name for _, configuration in facts.list_configurations() for webhook in configuration.webhooks}
    if isinstance(facts.dry_runs, Unavailable):
        return create_unknown(f"nothing could be tried: {facts.dry_runs.reason}")
    for dry_run in facts.dry_runs:
        webhook = _NOT_CALLED.search(dry_run.message)
        if webhook and webhook[1] in names:
            return create_failure(
                f"the API server cannot ask the gate: {_shorten(dry_run.message)}",
                *_list_inspect_commands(facts, dry_run.message),
            )
    proofs = [dry_run for dry_run in facts.dry_runs if _is_proof(facts, dry_run, names)]
    if proofs:
        return create_pass("; ".join(_format_proof(proof) for proof in proofs))
    return create_unknown("; ".join(_format_inconclusive(run) for run in facts.dry_runs))


def _is_proof(facts: GateFacts, dry_run: DryRun, names: set[str]) -> bool:
    """Return whether only a gate that responded can have caused this result."""
    denied = _DENIED.search(dry_run.message)
    if denied:
        return denied[1] in names
    failing_webhooks = [
        webhook
        for _, configuration in facts.list_configurations()
        for webhook in configuration.webhooks
        if is_called_for(webhook, CREATE_POD) and webhook.failure_policy == "Fail"
    ]
    return dry_run.status == _CREATED and bool(failing_webhooks)


def _format_proof(dry_run: DryRun) -> str:
    if dry_run.status == _CREATED:
        return f"dry run: pod {dry_run.pod} would be accepted in {dry_run.namespace}"
    return f"dry run: pod {dry_run.pod} was rejected by the gate, as expected"


def _format_inconclusive(dry_run: DryRun) -> str:
    if dry_run.status == _CREATED:
        return f"pod {dry_run.pod} would be accepted, as with failurePolicy Ignore without a gate"
    return f"pod {dry_run.pod} was rejected by another check, with {dry_run.status}: {_shorten(dry_run.message)}"


def _list_inspect_commands(facts: GateFacts, message: str) -> tuple[str, ...]:
    if "x509" in message:
        return ()  # the check `trusted` has the fix commands
    if facts.is_called_by_url:
        return ()
    return (
        format_namespaced_kubectl(
            facts.location, "get", "deployment,pods,endpointslices", "--selector=app.kubernetes.io/name=tallygate"
        ),
    )


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_MESSAGE_CHARACTERS else f"{line[:_MAX_MESSAGE_CHARACTERS]} …"


CHECKS = (
    Check(
        "reachable",
        "The API server reaches the gate, and the gate evaluates",
        "FAIL: the API server cannot call it; UNKNOWN: with failurePolicy Ignore it would not report it",
        _check_reachable,
    ),
)
