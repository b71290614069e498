"""Checks for ResourceQuotas that limit the same resources as caps, and for uses of opaque resource names."""

import json
from collections import Counter
from collections.abc import Iterator

from tallygate.accounting.amounts import format_amount, round_down_to_unit
from tallygate.accounting.names import OPAQUE_PREFIX, REQUESTS_PREFIX
from tallygate.accounting.quantity import Quantity
from tallygate.accounting.quantity_parser import QuantityError
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
from tallygate.cli.doctor.facts import CapLimits, GateFacts, OpaqueNameUser, Unavailable
from tallygate.objects.core import ResourceQuota


def _check_quotas(facts: GateFacts) -> CheckResult:
    if isinstance(facts.quotas, Unavailable):
        return create_unknown(f"ResourceQuotas cannot be listed: {facts.quotas.reason}")
    if isinstance(facts.cap_limits, Unavailable):
        return create_unknown(f"what caps allow cannot be seen: {facts.cap_limits.reason}")
    unscoped = [candidate for candidate in facts.quotas if _is_unscoped(candidate)]
    results = [result for quota in unscoped for result in _compare_quota(facts, quota, facts.cap_limits)]
    return combine_results(
        results, create_pass(f"{len(facts.quotas)} ResourceQuotas, and none bounds what a cap bounds otherwise")
    )


def _is_unscoped(quota: ResourceQuota) -> bool:
    """Return whether a quota has no scopes; with scopes it counts only some pods and cannot be compared."""
    return bool(quota.spec and not quota.spec.scopes and not quota.spec.scope_selector)


def _compare_quota(facts: GateFacts, quota: ResourceQuota, cap_limits: tuple[CapLimits, ...]) -> Iterator[CheckResult]:
    namespace, name = _get_namespace_and_name(quota)
    hard = {counted: (key, amount) for key, counted, amount in _list_hard_limits(quota)}
    for limits in cap_limits:
        if limits.namespace != namespace:
            continue
        for counted, allowed in limits.hard.items():
            key, amount = hard.get(counted, ("", allowed))
            comparison = f"quota {name} of {namespace} allows {format_amount(counted, amount)} of {counted}, "
            comparison += f"cap {limits.cap} {format_amount(counted, allowed)}"
            if amount < allowed:
                reason = (
                    f"{comparison}: the cap never rejects a pod, and a pod that the quota rejects keeps its "
                    "reservation for 40 s and more"
                )
                yield create_warning(reason, _format_quota_patch(facts, namespace, name, key))
            elif amount > allowed and limits.counts_all_pods:
                yield create_warning(
                    f"{comparison}: the quota never rejects a pod", _format_quota_patch(facts, namespace, name, key)
                )


def _format_quota_patch(facts: GateFacts, namespace: str, name: str, key: str) -> str:
    operations = [{"op": "remove", "path": f"/spec/hard/{_escape_pointer(key)}"}]
    arguments = ("patch", "resourcequota", name, f"--namespace={namespace}", "--type=json")
    return format_kubectl(facts.location, *arguments, f"--patch={json.dumps(operations)}")


def _escape_pointer(text: str) -> str:
    """Escape text for a JSON pointer (RFC 6901)."""
    return text.replace("~", "~0").replace("/", "~1")


def _get_namespace_and_name(quota: ResourceQuota) -> tuple[str, str]:
    meta = quota.metadata
    return (meta.namespace or "", meta.name or "") if meta else ("", "")


def _list_hard_limits(quota: ResourceQuota) -> Iterator[tuple[str, str, int]]:
    """Yield each hard limit: the name as written, the name in a cap, and the amount."""
    for key, raw in ((quota.spec.hard if quota.spec else None) or {}).items():
        counted = key.removeprefix(REQUESTS_PREFIX)
        if key == "count/pods":
            counted = "pods"
        try:
            yield key, counted, round_down_to_unit(counted, Quantity.from_json(raw))
        except QuantityError:
            continue  # an API server stores no invalid quantity


def _check_opaque_names(facts: GateFacts) -> CheckResult:
    if isinstance(facts.opaque_name_users, Unavailable):
        return create_unknown(f"nodes and pods cannot be listed: {facts.opaque_name_users.reason}")
    if not facts.opaque_name_users:
        return create_pass(f"nothing is called {OPAQUE_PREFIX}…")
    return combine_results(
        [user for kind in ("Node", "Pod") for user in _report_users(facts, kind, facts.opaque_name_users)],
        create_pass(""),
    )


def _report_users(facts: GateFacts, kind: str, users: tuple[OpaqueNameUser, ...]) -> Iterator[CheckResult]:
    users_of_kind = [user for user in users if user.kind == kind]
    if not users_of_kind:
        return
    counts_by_name = Counter(user.resource.removeprefix(OPAQUE_PREFIX) for user in users_of_kind)
    user_names = sorted({f"{user.namespace}/{user.name}" if user.namespace else user.name for user in users_of_kind})
    names_text = format_names([f"{name} ({count})" for name, count in sorted(counts_by_name.items())])
    verb = "advertise" if kind == "Node" else "ask for"
    reason = (
        f"{len(user_names)} {kind.lower()}s {verb} opaque resources, which Kubernetes no longer checks since 1.9: "
        f"{names_text}; "
        f"{format_names(user_names)}; `tallygate audit` lists them with the new names"
    )
    # A name that pods request stays: without it, their successors would find no node.
    requested = {user.resource for user in users if user.kind == "Pod"}
    patched = [user for user in users_of_kind if kind == "Node" and user.resource not in requested]
    yield create_warning(reason, *(_format_node_patch(facts, user) for user in patched))


def _format_node_patch(facts: GateFacts, user: OpaqueNameUser) -> str:
    key = _escape_pointer(user.resource)
    operations = [{"op": "remove", "path": f"/status/{part}/{key}"} for part in ("capacity", "allocatable")]
    arguments = ("patch", "node", user.name, "--subresource=status", "--type=json")
    return format_kubectl(facts.location, *arguments, f"--patch={json.dumps(operations)}")


CHECKS = (
    Check(
        "quotas",
        "No ResourceQuota bounds what a cap bounds otherwise",
        "WARN: both limit the same resource in a namespace, so that one of them never rejects",
        _check_quotas,
    ),
    Check(
        "opaque-names",
        f"No node or pod still uses {OPAQUE_PREFIX}…",
        "WARN: nodes advertise such names, or pods request them",
        _check_opaque_names,
    ),
)
