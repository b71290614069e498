"""The conditions that messages report: of ledgers and overrides, as usage has them, and of checks of this gate.

Nothing is decided here about caps: `cluster.resource_usage` tells full from not full, and an override has its end. The
checks are those of readiness, with the failures that it shows of parts without which the gate still answers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from tallygate.accounting.amounts import format_amount
from tallygate.admission.cap_index import ActiveCap, CapIndex
from tallygate.cluster.resource_usage import ResourceUsage
from tallygate.gate.ledger_usages import CountedLedger, LedgerUsages
from tallygate.gate.notifications import Condition, NotificationEvent, ObservedConditions, create_condition_key
from tallygate.policy.limit_annotations import read_overrides
from tallygate.policy.model import LimitOverride
from tallygate.policy.times import format_time

MIN_CERTIFICATE_SECONDS: Final = 7 * 86400
"""The least time before the end of the serving certificate, as in the alert TallygateCertificateExpires."""

_FAILURES: Final = ("failure", "broken", "crash", "error", "problem", "stale")
"""The keys of what fails, in the details of readiness checks."""


class CapConditions:
    """The conditions of all caps, for one thread.

    `caps` returns the active caps. An override is a condition from `horizon` before its end on.
    """

    def __init__(self, ledger_usages: LedgerUsages, caps: Callable[[], CapIndex], horizon: timedelta) -> None:
        self._ledger_usages = ledger_usages
        self._caps = caps
        self._horizon = horizon

    def list_conditions(self, now: datetime) -> ObservedConditions:
        """Return the conditions at a time; what depends on a ledger that is not known is unknown."""
        conditions: dict[str, Condition] = {}
        unknown: set[str] = set()
        members: dict[str, set[str]] = {}
        for counted in self._ledger_usages.list_usages():
            unknown.update(_list_unknown(counted))
            for usage in counted.usages or ():
                conditions.update(_list_usage_conditions(counted, usage))
            members.setdefault(counted.cap.definition.name, set()).update(counted.members)
        caps = self._caps()
        for cap in caps.list_caps():
            counted_names = members.get(cap.definition.name, set())
            conditions.update(self._list_overrides(caps, cap, counted_names, now))
        return ObservedConditions(conditions, unknown)

    def _list_overrides(
        self, caps: CapIndex, cap: ActiveCap, members: set[str], now: datetime
    ) -> Iterator[tuple[str, Condition]]:
        """Yield the overrides of a cap that end soon: those of its policy, and those by annotations of its members."""
        definition = cap.definition
        for override in definition.overrides:
            if self._ends_soon(override, now):
                yield _create_override(definition.name, override, ", ".join(override.namespaces))
        if definition.annotation is not None:
            for namespace, override in read_overrides(definition, caps.sources.annotations).items():
                if namespace in members and self._ends_soon(override, now):
                    yield _create_override(definition.name, override, namespace)

    def _ends_soon(self, override: LimitOverride, now: datetime) -> bool:
        return override.until is not None and not override.has_ended(now) and override.until <= now + self._horizon


def _identify(cap: ActiveCap, namespace: str, event: NotificationEvent, name: str) -> str:
    """Return the key of a condition of a ledger: it stays when the counting rules of the cap change."""
    return create_condition_key(event, cap.definition.name, cap.group_value or "", namespace, name)


def _list_unknown(counted: CountedLedger) -> Iterator[str]:
    """Yield the keys of the conditions of a ledger that may be there, and are not known: all, or by their limits."""
    cap, is_unknown = counted.cap, counted.usages is None
    for event, names in (
        (NotificationEvent.SOFT_LIMIT_CROSSED, cap.resources if is_unknown else cap.unknown_soft),
        (NotificationEvent.CAP_FULL, cap.resources if is_unknown else cap.limits.unknown),
    ):
        for name in names:
            yield _identify(cap, counted.key.namespace, event, name)


def _list_usage_conditions(counted: CountedLedger, usage: ResourceUsage) -> Iterator[tuple[str, Condition]]:
    cap, namespace, name = counted.cap, counted.key.namespace, usage.name
    found = [
        (NotificationEvent.SOFT_LIMIT_CROSSED, usage.soft) if usage.is_above_soft else None,
        (NotificationEvent.CAP_FULL, usage.hard) if usage.is_full else None,
    ]
    for event, limit in filter(None, found):
        fields = {
            "cap": cap.definition.name,
            "namespace": namespace,
            "group": cap.group,
            "resource": name,
            "used": format_amount(name, usage.charged or 0),
            "limit": format_amount(name, limit or 0),
        }
        yield _identify(cap, namespace, event, name), Condition(event=event, fields=fields)


def _create_override(cap: str, override: LimitOverride, namespace: str) -> tuple[str, Condition]:
    """Return the condition of an override with an end; another end or other limits make another override."""
    assert override.until is not None  # noqa: S101  # `_ends_soon` has checked it
    groups, until = ", ".join(override.groups), format_time(override.until)
    limits = ", ".join(f"{name}={quantity}" for name, quantity in sorted(override.hard.items()))
    fields = {"cap": cap, "namespace": namespace, "group": groups, "limit": limits, "until": until}
    event = NotificationEvent.OVERRIDE_ENDS
    key = create_condition_key(event, cap, groups, namespace, limits, until)
    return key, Condition(event=event, fields=fields, ends_at=override.until.timestamp())


def list_gate_conditions(checks: Iterable[tuple[str, bool, Mapping[str, Any]]], now: datetime) -> ObservedConditions:
    """Return the checks of a gate that fail: each has a name, whether it is ready, and the details that it shows."""
    conditions: dict[str, Condition] = {}
    for name, is_ready, detail in checks:
        reasons = [*_list_failures(detail), *_list_ending_certificates(detail, now)]
        if reasons or not is_ready:
            fields = {"check": name, "reason": ", ".join(reasons) or "not ready"}
            key = create_condition_key(NotificationEvent.GATE_DEGRADED, name)
            conditions[key] = Condition(event=NotificationEvent.GATE_DEGRADED, fields=fields)
    return ObservedConditions(conditions)


def _list_failures(detail: Mapping[str, Any]) -> Iterator[str]:
    """Yield what fails, also in the details one level below: those of a watch, by its resource."""
    for name, value in detail.items():
        if name in _FAILURES and value:
            yield _format_failure(value)
        elif isinstance(value, Mapping):
            yield from (f"{name} {_format_failure(value[key])}" for key in _FAILURES if value.get(key))


def _format_failure(value: Any) -> str:
    return str(value[0]) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def _list_ending_certificates(detail: Mapping[str, Any], now: datetime) -> Iterator[str]:
    end = detail.get("notAfter")
    if isinstance(end, str) and (datetime.fromisoformat(end) - now).total_seconds() < MIN_CERTIFICATE_SECONDS:
        yield f"the certificate ends at {format_time(datetime.fromisoformat(end))}"
