"""What ledgers hold, for Prometheus: sums by cap, and the fullest namespaces by name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from webhook.accounting.amounts import is_milli
from webhook.admission.capping import CapIndex
from webhook.server.caps.names import OTHER, CapNames
from webhook.server.caps.seen import SeenLedgers
from webhook.server.caps.sums import State, Sum, Told, added, fullest

FULLEST: Final = 3
"""Namespaces of one cap and resource that are told by name."""

MOST_FULLEST: Final = 300
"""Namespaces that are told by name, of all caps together."""

_AMOUNTS: Final[Mapping[str, str]] = {
    "hard": "What the cap's ledgers allow together; cpu in cores.",
    "held": "What the pods under them hold; cpu in cores.",
    "promised": "What is promised to pods that are not counted yet; cpu in cores.",
}

Labels = tuple[str, ...]


class LedgerFigures(Collector):
    """Tells of the ledgers that are `seen` of the caps in force, whenever metrics are read.

    `expect` is told each cap's name, for what is counted by cap. `visited` says whether every ledger is looked at now
    and then, so that it matters how long ago that was.
    """

    def __init__(
        self, seen: SeenLedgers, caps: Callable[[], CapIndex], expect: Callable[[str], None], *, visited: bool
    ) -> None:
        self._seen = seen
        self._caps = caps
        self._expect = expect
        self._visited = visited

    def collect(self) -> Iterator[Metric]:
        """Sums by cap, and who is fullest."""
        told = self._told()
        sums = added(told)
        for kind, meaning in _AMOUNTS.items():
            yield _family(kind, meaning, ("cap", "resource"), _amounts(sums, kind))
        states: dict[Labels, float] = {
            (cap, state): sum_.states[state] for cap, sum_ in sums.items() for state in State
        }
        yield _family("ledgers", "Ledgers by whether they have room.", ("cap", "state"), states)
        for name, meaning, count in self._counts():
            yield _family(name, meaning, ("cap",), {(cap,): count(sum_) for cap, sum_ in sums.items()})
        full = fullest((each for each in told if each.cap != OTHER), FULLEST, MOST_FULLEST)
        ratios: dict[Labels, float] = {(each.cap, each.resource, each.namespace): each.ratio for each in full}
        meaning = "How much of what they allow the fullest ledgers have charged: 1 is full."
        yield _family("fullest_ratio", meaning, ("cap", "resource", "cap_namespace"), ratios)

    def _told(self) -> list[Told]:
        """Every ledger of a cap in force, by the name that the cap goes by."""
        caps = {counted.key: counted.cap.name for counted in self._caps().all()}
        self._seen.keep_only(caps)
        for cap in sorted(caps.values()):
            self._expect(cap)
        names, now = CapNames(), self._seen.now()
        labels = {key: names.label(caps[key]) for key in sorted(caps)}
        return [
            Told(labels[key.cap], key.namespace, seen.ledger, now - seen.at)
            for key, seen in self._seen.all().items()
            if key.cap in labels
        ]

    def _counts(self) -> Iterator[tuple[str, str, Callable[[Sum], float]]]:
        yield "rows", "Promises in the cap's ledgers.", lambda sum_: sum_.rows
        yield "rows_most", "Promises in the ledger that has the most.", lambda sum_: sum_.most_rows
        if self._visited:
            meaning = "Time since the ledger was looked at that was not looked at for the longest."
            yield "age_seconds", meaning, lambda sum_: sum_.age


def _amounts(sums: Mapping[str, Sum], kind: str) -> Mapping[Labels, float]:
    return {
        (cap, resource): amount / 1000 if is_milli(resource) else amount
        for cap, sum_ in sums.items()
        for resource, amount in sum_.amounts[kind].items()
    }


def _family(name: str, meaning: str, labels: Sequence[str], values: Mapping[Labels, float]) -> Metric:
    family = GaugeMetricFamily(f"tallygate_cap_{name}", meaning, labels=labels)
    for found, value in values.items():
        family.add_metric(found, value)
    return family
