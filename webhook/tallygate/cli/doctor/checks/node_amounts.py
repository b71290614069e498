"""The check of the amounts that policies publish on nodes, by the readiness of the replica that leads."""

from collections.abc import Iterator

from tallygate.cli.doctor.check_result import (
    Check,
    CheckResult,
    combine_results,
    create_pass,
    create_unknown,
    create_warning,
    format_kubectl,
    format_names,
)
from tallygate.cli.doctor.facts import GateFacts, Unavailable

_ENTRY = "node-resources"


def _check_node_resources(facts: GateFacts) -> CheckResult:
    policies = facts.policies
    if isinstance(facts.replicas, Unavailable):
        if isinstance(policies, Unavailable) or policies.node_resources:
            return create_unknown(facts.replicas.reason)
        return create_pass("no policy publishes amounts on nodes")
    entries = [entry for replica in facts.replicas if (entry := replica.find_check(_ENTRY)) is not None]
    if not entries:
        return _check_disabled(facts)
    results = [result for entry in entries for result in _check_entry(facts, entry)]
    leads = any(entry.get("leader") for entry in entries)
    return combine_results(
        results,
        create_pass("all amounts are published as policies define them")
        if leads
        else create_unknown("no replica that publishes amounts leads"),
    )


def _check_disabled(facts: GateFacts) -> CheckResult:
    """Return the result for replicas that publish nothing."""
    names = (
        [] if isinstance(facts.policies, Unavailable) else [resource.name for resource in facts.policies.node_resources]
    )
    if names and facts.replicas:
        return create_warning(
            f"no replica publishes amounts on nodes (publish_nodes is off), and these policies define some: "
            f"{format_names(names)}; add the component publish-nodes, or publishNodes.enabled of the chart"
        )
    return create_pass("no replica publishes amounts on nodes")


def _check_entry(facts: GateFacts, entry: object) -> Iterator[CheckResult]:
    """Yield the problems of a replica, and the amounts that stay since pods use them."""
    details = entry if isinstance(entry, dict) else {}
    for key in ("problems", "retained"):
        texts = details.get(key)
        if isinstance(texts, list) and texts:
            command = format_kubectl(facts.location, "get", "nodes", "-o", "yaml", "--show-managed-fields")
            yield create_warning(format_names([str(text) for text in texts]), command)


CHECKS = (
    Check(
        "node-resources",
        "The amounts that policies publish on nodes are there",
        "WARN: two policies, a device plugin or another client prevent an amount, pods use more than a policy leaves, "
        "or no replica publishes while a policy defines amounts; UNKNOWN: no replica can be reached, or none of those "
        "that publish leads",
        _check_node_resources,
    ),
)
