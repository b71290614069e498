"""The check of the clients that may send reviews: the gate trusts the content of each review that it gets."""

from collections.abc import Iterator, Mapping
from typing import Final

from tallygate.accounting.selectors import SelectorError, parse_selector
from tallygate.cli.doctor.api_types import GateNetworkPolicy
from tallygate.cli.doctor.check_result import (
    Check,
    CheckResult,
    create_pass,
    create_unknown,
    create_warning,
    format_names,
)
from tallygate.cli.doctor.facts import GateFacts, Unavailable

_ARGUMENTS: Final = {"--client-ca-file": "client certificates", "--token-file": "a token in the path"}
_INGRESS: Final = "Ingress"
_MONITOR_PORTS: Final = frozenset({"monitor", 9090})


def _check_callers(facts: GateFacts) -> CheckResult:
    deployment = facts.deployment
    if isinstance(deployment, Unavailable):
        return create_unknown(f"the Deployment cannot be read: {deployment.reason}")
    if deployment is None:
        return create_unknown("there is no Deployment of the gate, so its arguments are unknown")
    guards = [noun for name, noun in _ARGUMENTS.items() if _has_argument(deployment.arguments, name)]
    policies = list(_list_network_policies(facts, deployment.spec.template.metadata.labels or {}))
    names = format_names([policy.metadata.name or "" for policy in policies])
    if policies and not any(map(_is_open, policies)):
        guards.append(f"the NetworkPolicy {names}")
    if guards:
        return create_pass(f"clients of the port of reviews are limited by {' and '.join(guards)}")
    if isinstance(facts.network_policies, Unavailable):
        return create_unknown(f"NetworkPolicies cannot be listed: {facts.network_policies.reason}")
    remark = f"; the NetworkPolicy {names} accepts it from every address" if policies else ""
    return create_warning(
        "every pod of the cluster can send reviews, and reserve amounts of any cap by them: use client certificates, a "
        f"token in the path or a NetworkPolicy (docs/operate/security.md, Who may call){remark}"
    )


def _is_open(policy: GateNetworkPolicy) -> bool:
    """Return whether a rule accepts every sender at a port that is not the monitor port."""
    return any(
        not rule.senders and (not rule.ports or any(port.port not in _MONITOR_PORTS for port in rule.ports))
        for rule in policy.spec.ingress
    )


def _has_argument(arguments: tuple[str, ...], name: str) -> bool:
    return any(argument.startswith(f"{name}=") and len(argument) > len(name) + 1 for argument in arguments)


def _list_network_policies(facts: GateFacts, labels: Mapping[str, str]) -> Iterator[GateNetworkPolicy]:
    """Yield the NetworkPolicies that limit the ingress of pods with these labels.

    An API server adds `policyTypes` where a manifest has none, always with Ingress (pkg/apis/networking/v1/defaults.go,
    v1.36).
    """
    for policy in () if isinstance(facts.network_policies, Unavailable) else facts.network_policies:
        try:
            is_selected = parse_selector(policy.spec.pod_selector).matches(labels)
        except SelectorError:
            continue
        if is_selected and _INGRESS in policy.spec.policy_types:
            yield policy


CHECKS = (
    Check(
        "callers",
        "Clients that may send reviews are limited",
        "WARN: neither client certificates nor a token nor a NetworkPolicy limits them; UNKNOWN: the Deployment or the "
        "NetworkPolicies cannot be read. Settings in the environment or in a file are not read",
        _check_callers,
    ),
)
