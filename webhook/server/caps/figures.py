"""What ledgers hold, for Prometheus: sums by cap, and the fullest namespaces by name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from webhook.accounting.amounts import is_milli
from webhook.admission.capping import CapIndex
from webhook.server.caps.names import OTHER, CapLabels
from webhook.server.caps.seen import ObservedLedgers
from webhook.server.caps.sums import LedgerState, CapSum, LabelledLedger, sum_by_cap, find_fullest

MAX_FULLEST_EACH: Final = 3
"""Namespaces of one cap and resource that are told by name."""

MAX_FULLEST_TOTAL: Final = 300
"""Namespaces that are told by name, of all caps together."""

_AMOUNT_HELP: Final[Mapping[str, str]] = {
    "hard": "What the cap's ledgers allow together; cpu in cores.",
    "held": "What the pods under them hold; cpu in cores.",
    "promised": "What is promised to pods that are not counted yet; cpu in cores.",
}

LabelValues = tuple[str, ...]


class LedgerMetrics(Collector):
    """Tells of the ledgers that are `seen` of the caps in force, whenever metrics are read.

    `expect` is told each cap's name, for what is counted by cap. `visited` says whether every ledger is looked at now
    and then, so that it matters how long ago that was.
    """

    def __init__(
        self,
        observed_ledgers: ObservedLedgers,
        caps: Callable[[], CapIndex],
        register_cap: Callable[[str], None],
        *,
        has_age: bool,
    ) -> None:
        self._observed_ledgers = observed_ledgers
        self._caps = caps
        self._register_cap = register_cap
        self._has_age = has_age

    def collect(self) -> Iterator[Metric]:
        """Sums by cap, and who is fullest."""
        ledgers = self._label_ledgers()
        sums = sum_by_cap(ledgers)
        for amount_name, help_text in _AMOUNT_HELP.items():
            yield _create_family(amount_name, help_text, ("cap", "resource"), _list_amounts(sums, amount_name))
        states: dict[LabelValues, float] = {
            (cap, state): sum_.states[state] for cap, sum_ in sums.items() for state in LedgerState
        }
        yield _create_family("ledgers", "Ledgers by whether they have room.", ("cap", "state"), states)
        for name, help_text, count in self._list_counts():
            yield _create_family(name, help_text, ("cap",), {(cap,): count(sum_) for cap, sum_ in sums.items()})
        utilizations = find_fullest(
            (each for each in ledgers if each.cap != OTHER), MAX_FULLEST_EACH, MAX_FULLEST_TOTAL
        )
        ratios: dict[LabelValues, float] = {
            (each.cap, each.resource, each.namespace): each.ratio for each in utilizations
        }
        help_text = "How much of what they allow the fullest ledgers have charged: 1 is full."
        yield _create_family("fullest_ratio", help_text, ("cap", "resource", "cap_namespace"), ratios)

    def _label_ledgers(self) -> list[LabelledLedger]:
        """Every ledger of a cap in force, by the name that the cap goes by."""
        caps = {active_cap.key: active_cap.cap.name for active_cap in self._caps().all()}
        self._observed_ledgers.retain_caps(caps)
        for cap in sorted(caps.values()):
            self._register_cap(cap)
        cap_labels, now = CapLabels(), self._observed_ledgers.read_clock()
        labels = {key: cap_labels.get_label(caps[key]) for key in sorted(caps)}
        return [
            LabelledLedger(labels[key.cap], key.namespace, seen.ledger, now - seen.observed_at)
            for key, seen in self._observed_ledgers.list_all().items()
            if key.cap in labels
        ]

    def _list_counts(self) -> Iterator[tuple[str, str, Callable[[CapSum], float]]]:
        yield "rows", "Promises in the cap's ledgers.", lambda sum_: sum_.reservations
        yield "rows_most", "Promises in the ledger that has the most.", lambda sum_: sum_.max_reservations
        if self._has_age:
            help_text = "Time since the ledger was looked at that was not looked at for the longest."
            yield "age_seconds", help_text, lambda sum_: sum_.max_age


def _list_amounts(sums: Mapping[str, CapSum], amount_name: str) -> Mapping[LabelValues, float]:
    return {
        (cap, resource): amount / 1000 if is_milli(resource) else amount
        for cap, sum_ in sums.items()
        for resource, amount in sum_.amounts[amount_name].items()
    }


def _create_family(name: str, help_text: str, labels: Sequence[str], values: Mapping[LabelValues, float]) -> Metric:
    family = GaugeMetricFamily(f"tallygate_cap_{name}", help_text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family
