"""The check of the kinds of other projects, known or defined by policies: their objects are sent to the gate."""

from collections.abc import Iterator, Sequence

from tallygate.admission.request import CREATE, UPDATE, Phase
from tallygate.admission.webhook_configuration import get_workload_webhook_name
from tallygate.admission.workload_resources import WorkloadResource
from tallygate.cli.doctor.api_types import WebhookConfiguration
from tallygate.cli.doctor.check_result import (
    Check,
    CheckResult,
    combine_results,
    create_pass,
    create_unknown,
    create_warning,
    format_kubectl,
    format_names,
    format_webhook_copy,
    format_webhook_patch,
)
from tallygate.cli.doctor.facts import MUTATING, VALIDATING, GateFacts, ServedKind, Unavailable
from tallygate.cli.doctor.webhook_match import ExpectedConfigurations, RequestKind, has_webhook_for

_PHASES = {MUTATING: Phase.MUTATING, VALIDATING: Phase.VALIDATING}


def _check_workload_kinds(facts: GateFacts) -> CheckResult:
    if facts.registration_problem:
        return create_unknown(facts.registration_problem)
    results = [*_check_served(facts), *_check_definitions(facts), *_check_policies(facts)]
    return combine_results(results, create_pass(_format_served(facts)))


def _check_served(facts: GateFacts) -> Iterator[CheckResult]:
    """Yield the results for known kinds that are served, and not registered or not read."""
    served = facts.workloads.served
    if isinstance(served, Unavailable):
        yield create_unknown(f"the served kinds cannot be read: {served.reason}")
        return
    for found in served:
        if found.resource is None:
            yield create_warning(
                f"{found} is served in {', '.join(found.versions)}, and read in {', '.join(found.kind.versions)} only: "
                "pod templates in its objects are not evaluated"
            )
    for kind, configuration in facts.list_configurations():
        missing = [kind for kind in served if kind.resource and not _is_registered(configuration, kind)]
        if missing:
            yield create_warning(
                f"{format_names([str(kind) for kind in missing])} {'is' if len(missing) == 1 else 'are'} served and "
                f"not registered in the {_PHASES[kind]} phase: pod templates in such objects are not evaluated"
                f"{_format_discovery_failure(facts)}",
                *_list_fixes(facts, kind, configuration, [kind.resource for kind in served if kind.resource]),
            )


def _is_registered(configuration: WebhookConfiguration, served: ServedKind) -> bool:
    """Return whether creates and updates are sent in one of the served versions, and so in all of them."""
    return all(
        any(
            has_webhook_for(
                configuration,
                RequestKind(
                    served.kind.group,
                    served.kind.resource,
                    operation,
                    "Namespaced" if is_namespaced else "Cluster",
                    version,
                ),
            )
            for version, is_namespaced in served.versions.items()
        )
        for operation in (CREATE, UPDATE)
    )


def _format_discovery_failure(facts: GateFacts) -> str:
    """Return why the gate does not know what is served, by the readiness of the replica that leads."""
    replicas = () if isinstance(facts.replicas, Unavailable) else facts.replicas
    details = (replica.find_check("registration") or {} for replica in replicas)
    failures = [str(detail["discovery"]) for detail in details if detail.get("discovery")]
    return f": the gate cannot read what is served: {failures[0]}" if failures else ""


def _list_fixes(
    facts: GateFacts, kind: str, configuration: WebhookConfiguration, resources: Sequence[WorkloadResource]
) -> Iterator[str]:
    """Yield a command that adds the rules, or shows what the gate, which would add them, can read.

    A gate without access to the API server has no readiness check of its registration: it adds nothing.
    """
    location = facts.location
    replicas = () if isinstance(facts.replicas, Unavailable) else facts.replicas
    writes = not replicas or any(
        isinstance(replica.readiness, Unavailable) or replica.find_check("registration") is not None
        for replica in replicas
    )
    if configuration.is_left_to_gate and writes:
        yield format_kubectl(location, "get", "--raw=/apis", location.impersonation)
        return
    phase = _PHASES[kind]
    name = get_workload_webhook_name(phase)
    expected = ExpectedConfigurations(location, workload_resources=resources)
    fields = {each: expected.get_field(kind, name, each) for each in ("matchConditions", "rules")}
    present = next((webhook for webhook in configuration.webhooks if webhook.name == name), None)
    if present is not None:
        for field, value in fields.items():
            yield format_webhook_patch(location, kind, configuration, present, field, value)
        return
    creations = next((webhook for webhook in configuration.webhooks if webhook.name == f"{phase}.tallygate.dev"), None)
    if creations is not None:
        yield format_webhook_copy(location, kind, configuration, creations, {"name": name, **fields})


def _check_definitions(facts: GateFacts) -> Iterator[CheckResult]:
    if isinstance(facts.workloads.unread, Unavailable):
        yield create_unknown(f"the CustomResourceDefinitions cannot be listed: {facts.workloads.unread.reason}")


def _check_policies(facts: GateFacts) -> Iterator[CheckResult]:
    if not isinstance(facts.policies, Unavailable):
        return
    text = f"the kinds that policies define are unknown: {facts.policies.reason}; name the policy files by --policies"
    if names := _format_unread(facts):
        text += f"; not read, unless policies define them: {names}"
    yield create_unknown(text)


def _format_served(facts: GateFacts) -> str:
    served = () if isinstance(facts.workloads.served, Unavailable) else facts.workloads.served
    text = "no known kind of another project is served"
    if served:
        text = f"the served kinds of other projects are registered: {format_names([str(each) for each in served])}"
    names = _format_unread(facts)
    return f"{text}; not read, so that their pods are evaluated only when they are created: {names}" if names else text


def _format_unread(facts: GateFacts) -> str:
    unread = () if isinstance(facts.workloads.unread, Unavailable) else facts.workloads.unread
    return format_names([f"{each.kind} of {each.group} ({each.field})" for each in unread])


CHECKS = (
    Check(
        "workload-kinds",
        "Pod templates in objects of other projects are evaluated",
        "WARN: a kind that is known or defined by policies is served and not registered, or served in other versions "
        "than those that are read; UNKNOWN: the served kinds, the CustomResourceDefinitions or the policies cannot be "
        "read",
        _check_workload_kinds,
    ),
)
