"""A namespace that changes its labels may bring its pods under a cap. That is told at once, since nothing refuses it.

Pods that are there stay, whatever cap they come under: it then holds more than it allows, and admits nothing more.
"""

from collections.abc import Callable, Iterator

import msgspec

from webhook.accounting.amounts import Amounts, format_amount
from webhook.accounting.problem import Problem, Reason
from webhook.admission.capping import CapIndex, Counted
from webhook.admission.change import UPDATE, Change
from webhook.admission.codes import NAMESPACE_OVER_CAP
from webhook.admission.review import ReviewError
from webhook.gate.sight import Sight
from webhook.objects.core import Namespace
from webhook.policy.resolve import matches_namespace
from webhook.state.ledger import Ledger
from webhook.state.ports import LedgerKey

_NAMESPACE = msgspec.json.Decoder(Namespace)
_NOTHING = Amounts()


def is_move(change: Change) -> bool:
    """Whether a namespace is changed itself."""
    return (change.group, change.kind, change.subresource, change.operation) == ("", "Namespace", "", UPDATE)


def moved(
    change: Change, caps: CapIndex, sight: Sight, kept: Callable[[LedgerKey], Ledger | None]
) -> Iterator[Problem]:
    """What each cap that the namespace comes under would hold with its pods, where that is more than it allows.

    Raises:
        ReviewError: the object is no namespace.
    """
    old, new = _labels(change.old), _labels(change.object)
    for counted in caps.all():
        selector = counted.cap.namespaces
        enters = matches_namespace(selector, change.name, new) and not matches_namespace(selector, change.name, old)
        held = sight.held(counted, change.name) if enters else None
        if held:
            yield from _overfilled(counted, held, kept(_key(counted, change.name)))


def _overfilled(counted: Counted, held: Amounts, ledger: Ledger | None) -> Iterator[Problem]:
    before = ledger.charged() if ledger is not None and counted.cap.shared else _NOTHING
    after = before + held
    cap, where = counted.cap.name, "shared by its namespaces" if counted.cap.shared else "of this namespace"
    for name in sorted(after.find_excess(counted.hard).keys() & held.keys()):
        holds, hard = format_amount(name, after[name]), format_amount(name, counted.hard[name])
        text = (
            f"its pods hold {format_amount(name, held[name])} {name}, and with them cap {cap} {where} holds {holds} "
            f"of {hard}: "
            "they stay, and nothing more is let in until enough pods end"
        )
        yield Problem("metadata.labels", NAMESPACE_OVER_CAP.number, Reason.FORBIDDEN, text, rule=cap, policy_kind="cap")


def _key(counted: Counted, namespace: str) -> LedgerKey:
    return LedgerKey(counted.key, "" if counted.cap.shared else namespace)


def _labels(raw: bytes | msgspec.Raw | None) -> dict[str, str]:
    try:
        meta = _NAMESPACE.decode(raw).metadata if raw is not None else None
    except (ValueError, RecursionError) as error:
        raise ReviewError(f"the object is not a Namespace: {error}") from None
    return (meta.labels if meta else None) or {}
