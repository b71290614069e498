"""What rules say of newcomers by a cluster's nodes, and by the pods on them."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from webhook.accounting.fit.effort import effort, walks
from webhook.accounting.fit.incoming import Incoming
from webhook.accounting.fit.never import ranked
from webhook.accounting.quantity_parser import QuantityError
from webhook.accounting.selectors import SelectorError
from webhook.admission.change import Change
from webhook.admission.decide import sorted_out
from webhook.admission.selection import Selection
from webhook.admission.verdict import ALLOWED, Verdict
from webhook.gate.newcomers import Newcomers, TooMuchError, newcomers
from webhook.gate.placing import Placing
from webhook.gate.prospect import Prospect
from webhook.policy.model import ResourceRule, Schedulable
from webhook.policy.resolve import matches_resource

_PODS = "pods"
_MOST_EFFORT = 1000  # of words about nodes
_MOST_WALKS = 30_000  # over pods that are alike; together a tenth of a second, where there are 100,000 pods


def fitting(change: Change, selection: Selection, placing: Placing) -> Verdict:
    """What those of the selected rules say that ask for nodes, of the pods which a change brings.

    Raises:
        ReviewError: an object is not of the kind it says it is.
    """
    try:
        coming = newcomers(change)
    except TooMuchError:
        return Verdict(unknown=tuple(map(_too_much, selection.places)))
    if coming is None:
        return ALLOWED
    carried = (coming.pod.metadata.labels if coming.pod.metadata else None) or {}
    rules = selection.narrowed(change.user, carried).places
    words = effort(coming.pod, _MOST_EFFORT) if rules else 0
    if words is None:
        return Verdict(unknown=tuple(map(_too_much, rules)))
    try:
        return _judged(rules, coming, placing, words)
    except (QuantityError, SelectorError):
        return ALLOWED  # the API server refuses it


def _judged(rules: Sequence[ResourceRule], coming: Newcomers, placing: Placing, words: int) -> Verdict:
    """What these rules say of newcomers; the cluster is as before afterwards.

    Raises:
        QuantityError: a quantity that they ask for is none.
        SelectorError: a selector of theirs is none.
    """
    incoming = Incoming.of(ranked(coming.pod))
    concerned = _concerned(rules, incoming.requests)
    if not concerned:
        return ALLOWED
    asks_now = not coming.wait and any(map(_is_about_now, concerned))
    with placing.seen(pods=asks_now) as seen:
        if seen is None:
            return ALLOWED
        prospect = Prospect(coming, incoming, seen.cluster, words)
        if not seen.has_devices and prospect.strange:
            return ALLOWED
        now = asks_now and seen.has_pods
        unjudged = now and walks(incoming, seen.cluster) > _MOST_WALKS
        found = list(prospect.found(concerned, now=now and not unjudged))
    unknown = tuple(_too_much(rule) for rule in concerned if _is_about_now(rule)) if unjudged else ()
    return replace(sorted_out(found, unknown), age=seen.age) if found or unknown else ALLOWED


def _concerned(rules: Sequence[ResourceRule], asked: Collection[str]) -> Sequence[ResourceRule]:
    """Those of the rules that are about something that is asked for; every pod asks for room for a pod."""
    return [rule for rule in rules if any(matches_resource(rule.resources, name) for name in (_PODS, *asked))]


def _is_about_now(rule: ResourceRule) -> bool:
    return rule.checks.schedulable is Schedulable.NOT_NOW


def _too_much(rule: ResourceRule) -> str:
    return f"rule {rule.name} was not judged: what the pod says of nodes and other pods is too much to go through"
