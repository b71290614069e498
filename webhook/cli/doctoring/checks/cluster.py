"""What else in the cluster counts the same things, or counts them by names of long ago."""

import json
from collections import Counter
from collections.abc import Iterator

from webhook.accounting.amounts import format_amount, round_down_to_unit
from webhook.accounting.names import OPAQUE_PREFIX, REQUESTS_PREFIX
from webhook.accounting.quantity import Quantity
from webhook.accounting.quantity_parser import QuantityError
from webhook.cli.doctoring.facts import Bound, Facts, Unseen, User
from webhook.cli.doctoring.mending import kubectl
from webhook.cli.doctoring.verdict import Check, Said, named, passed, together, unknown, warned
from webhook.objects.core import ResourceQuota


def _quotas(facts: Facts) -> Said:
    if isinstance(facts.quotas, Unseen):
        return unknown(f"ResourceQuotas cannot be listed: {facts.quotas.why}")
    if isinstance(facts.bounds, Unseen):
        return unknown(f"what caps allow cannot be seen: {facts.bounds.why}")
    plain = [each for each in facts.quotas if _counts_all(each)]
    said = [each for quota in plain for each in _against(facts, quota, facts.bounds)]
    return together(said, passed(f"{len(facts.quotas)} ResourceQuotas, and none bounds what a cap bounds otherwise"))


def _counts_all(quota: ResourceQuota) -> bool:
    """With scopes it counts some pods only, and cannot be compared."""
    return bool(quota.spec and not quota.spec.scopes and not quota.spec.scope_selector)


def _against(facts: Facts, quota: ResourceQuota, bounds: tuple[Bound, ...]) -> Iterator[Said]:
    where, name = _of(quota)
    hard = {counted: (key, amount) for key, counted, amount in _hard(quota)}
    for each in bounds:
        if each.namespace != where:
            continue
        for counted, allowed in each.hard.items():
            key, amount = hard.get(counted, ("", allowed))
            told = f"quota {name} of {where} allows {format_amount(counted, amount)} of {counted}, "
            told += f"cap {each.cap} {format_amount(counted, allowed)}"
            if amount < allowed:
                why = f"{told}: the cap never speaks, and what the quota refuses holds its promise for 40 s and more"
                yield warned(why, _without(facts, where, name, key))
            elif amount > allowed and each.whole:
                yield warned(f"{told}: the quota never speaks", _without(facts, where, name, key))


def _without(facts: Facts, where: str, name: str, key: str) -> str:
    operations = [{"op": "remove", "path": f"/spec/hard/{_escaped(key)}"}]
    arguments = ("patch", "resourcequota", name, f"--namespace={where}", "--type=json")
    return kubectl(facts.here, *arguments, f"--patch={json.dumps(operations)}")


def _escaped(text: str) -> str:
    """As a step of a JSON pointer (RFC 6901)."""
    return text.replace("~", "~0").replace("/", "~1")


def _of(quota: ResourceQuota) -> tuple[str, str]:
    meta = quota.metadata
    return (meta.namespace or "", meta.name or "") if meta else ("", "")


def _hard(quota: ResourceQuota) -> Iterator[tuple[str, str, int]]:
    """What it bounds: as it is written, in a cap's words, and how much."""
    for key, raw in ((quota.spec.hard if quota.spec else None) or {}).items():
        counted = key.removeprefix(REQUESTS_PREFIX)
        if key == "count/pods":
            counted = "pods"
        try:
            yield key, counted, round_down_to_unit(counted, Quantity.from_json(raw))
        except QuantityError:
            continue  # no API server stores it


def _opaque(facts: Facts) -> Said:
    if isinstance(facts.users, Unseen):
        return unknown(f"nodes and pods cannot be listed: {facts.users.why}")
    if not facts.users:
        return passed(f"nothing is called {OPAQUE_PREFIX}…")
    return together([each for kind in ("Node", "Pod") for each in _used(facts, kind, facts.users)], passed(""))


def _used(facts: Facts, kind: str, users: tuple[User, ...]) -> Iterator[Said]:
    found = [each for each in users if each.kind == kind]
    if not found:
        return
    by_name = Counter(each.resource.removeprefix(OPAQUE_PREFIX) for each in found)
    who = sorted({f"{each.namespace}/{each.name}" if each.namespace else each.name for each in found})
    several = named([f"{name} ({count})" for name, count in sorted(by_name.items())])
    doing = "advertise" if kind == "Node" else "ask for"
    why = (
        f"{len(who)} {kind.lower()}s {doing} opaque resources, which Kubernetes no longer checks since 1.9: {several}; "
        f"{named(who)}; name them as extended resources, example.com/…"
    )
    yield warned(why, *(_unadvertised(facts, each) for each in found if kind == "Node"))


def _unadvertised(facts: Facts, user: User) -> str:
    key = _escaped(user.resource)
    operations = [{"op": "remove", "path": f"/status/{part}/{key}"} for part in ("capacity", "allocatable")]
    arguments = ("patch", "node", user.name, "--subresource=status", "--type=json")
    return kubectl(facts.here, *arguments, f"--patch={json.dumps(operations)}")


CHECKS = (
    Check(
        "quotas",
        "No ResourceQuota bounds what a cap bounds otherwise",
        "WARN: for the same resource in a namespace one of them never speaks",
        _quotas,
    ),
    Check(
        "opaque-names",
        f"Nobody uses {OPAQUE_PREFIX}… any more",
        "WARN: nodes advertise such names, or pods ask for them",
        _opaque,
    ),
)
