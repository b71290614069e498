"""Warnings on a label change of a namespace that brings its pods and claims under a cap: nothing denies such a change.

Existing ones stay under any cap. The cap may then use more than its hard limit, and admits no further ones.
"""

from collections.abc import Callable, Iterator

import msgspec

from tallygate.accounting.amounts import NO_AMOUNTS, Amounts, format_amount
from tallygate.accounting.problem import Problem, Reason
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.admission.request import UPDATE, AdmissionRequest, ReviewError
from tallygate.admission.rule_codes import NAMESPACE_OVER_CAP
from tallygate.cluster.usage_lister import UsageLister, get_ledger_key
from tallygate.objects.core import Namespace
from tallygate.objects.meta import ObjectMeta
from tallygate.review.cap_messages import describe_scope, find_consumer_words
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ports import LedgerKey

_NAMESPACE = msgspec.json.Decoder(Namespace)


def is_namespace_update(request: AdmissionRequest) -> bool:
    """Return whether the request updates a namespace object."""
    return (request.group, request.kind, request.subresource, request.operation) == ("", "Namespace", "", UPDATE)


def check_namespace_move(
    request: AdmissionRequest,
    caps: CapIndex,
    usage_lister: UsageLister,
    read_ledger: Callable[[LedgerKey], Ledger | None],
) -> Iterator[Problem]:
    """Yield a problem for each cap that gets the namespace as a member and would exceed its hard limit by it.

    Raises:
        ReviewError: if the object is not a namespace.
    """
    old, new = _decode_labels(request.old_object), _decode_labels(request.object)
    left = {cap.key for cap in caps.find_matching(request.name, old).caps}
    for cap in caps.find_matching(request.name, new).caps:
        used = usage_lister.sum_usage(cap, request.name) if cap.key not in left else None
        if used:
            yield from _create_problems(cap, used, read_ledger(get_ledger_key(cap, request.name)))


def _create_problems(cap: ActiveCap, used: Amounts, ledger: Ledger | None) -> Iterator[Problem]:
    before = ledger.compute_charged() if ledger is not None and cap.definition.shared else NO_AMOUNTS
    after = before + used
    cap_name, where = cap.definition.name, describe_scope(cap)
    for name in sorted(after.find_excess(cap.hard).keys() & used.keys()):
        total, hard = format_amount(name, after[name]), cap.limits.describe(name)
        words = find_consumer_words(cap, name)
        text = (
            f"its {words.nouns} use {format_amount(name, used[name])} {name}, and cap {cap_name} {where} is exceeded "
            f"with them: charged {total}, hard {hard}. They stay, and no further {words.rejected} until enough "
            f"{words.end}"
        )
        yield Problem("metadata.labels", NAMESPACE_OVER_CAP, Reason.FORBIDDEN, text, rule=cap_name, policy_kind="cap")


def _decode_labels(raw: bytes | msgspec.Raw | None) -> dict[str, str]:
    meta = decode_namespace(raw)
    return (meta.labels if meta else None) or {}


def decode_namespace(raw: bytes | msgspec.Raw | None) -> ObjectMeta | None:
    """Return the metadata of a namespace, None without an object.

    Raises:
        ReviewError: if the object is not a namespace.
    """
    try:
        return _NAMESPACE.decode(raw).metadata if raw is not None else None
    except (ValueError, RecursionError) as error:
        raise ReviewError(f"the object is not a Namespace: {error}") from None
