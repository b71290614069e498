"""The hours for which pods and claims had devices, by groups: sums of what `cluster.device_times` knows of a period.

Each sum has a least and a largest amount, since the times of some changes have bounds only. All amounts are whole
devices times whole seconds.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from tallygate.accounting.charge import ConsumerKind
from tallygate.answers.columns import Column, Columns
from tallygate.cluster.device_times import TimedConsumer

_HOUR: Final = 3600
OTHERS: Final = "(others)"
"""The cell of a table for pods and claims whose workload or label is not known any more."""


class HoursKey(NamedTuple):
    """A group of pods and claims, and a name of devices.

    `workload` and `value` of a label are None where they make no groups, and for those of whom they are not known.
    """

    namespace: str | None
    workload: str | None
    value: str | None
    resource: str


class DeviceHours(NamedTuple):
    """The device-seconds of a group, at least and at most, and the numbers of its pods and claims."""

    key: HoursKey
    seconds: int
    most_seconds: int
    pods: int
    claims: int


class Grouping(NamedTuple):
    """The groups of a report: by namespace, by namespace and workload, or by the value of the label `label`."""

    by_workload: bool = False
    label: str = ""

    def create_key(
        self, namespace: str, workload: str | None, labels: Mapping[str, str] | None, resource: str
    ) -> HoursKey:
        """Return the group of a pod or claim; one without the label is in the group with the empty value."""
        if self.label:
            return HoursKey(None, None, None if labels is None else labels.get(self.label, ""), resource)
        return HoursKey(namespace, workload if self.by_workload else None, None, resource)


_BY_LABEL: Final = "label="
GROUPINGS: Final = "namespace, workload or label=KEY"


def parse_grouping(text: str) -> Grouping | None:
    """Return the groups that a text names, as in `GROUPINGS`; None for any other text."""
    if text.startswith(_BY_LABEL) and len(text) > len(_BY_LABEL):
        return Grouping(label=text.removeprefix(_BY_LABEL))
    return Grouping(by_workload=text == "workload") if text in {"namespace", "workload"} else None


class Amounts(NamedTuple):
    """Device-seconds, at least and at most, and the numbers of pods and claims that had them."""

    seconds: int = 0
    most_seconds: int = 0
    pods: int = 0
    claims: int = 0

    def plus(self, other: "Amounts") -> "Amounts":
        return Amounts(*map(int.__add__, self, other))


def measure(consumer: TimedConsumer, begin: int, end: int) -> Iterator[tuple[str, Amounts]]:
    """Yield the names of the devices that a pod or claim had within a period, with their amounts."""
    least, most = consumer.span.measure(begin, end)
    is_pod = consumer.kind is ConsumerKind.POD
    for resource, amount in consumer.amounts.items() if most else ():
        yield resource, Amounts(amount * least, amount * most, int(is_pod), int(not is_pod))


class HoursSums:
    """The sums of a report by its groups."""

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._sums: dict[HoursKey, Amounts] = {}

    def add_consumer(self, consumer: TimedConsumer, begin: int, end: int) -> None:
        """Add what a pod or claim had within a period."""
        for resource, amounts in measure(consumer, begin, end):
            self.add(consumer.namespace, consumer.workload, consumer.labels, resource, amounts)

    def add(  # what a sum is of
        self,
        namespace: str,
        workload: str | None,
        labels: Mapping[str, str] | None,
        resource: str,
        amounts: Amounts,
    ) -> None:
        """Add the amounts of pods and claims that have this in common; None is not known."""
        key = self._grouping.create_key(namespace, workload, labels, resource)
        before = self._sums.get(key)
        self._sums[key] = amounts if before is None else before.plus(amounts)

    def list_hours(self) -> list[DeviceHours]:
        """Return the sums, those with the most hours of a resource first."""
        found = [DeviceHours(key, *amounts) for key, amounts in self._sums.items()]
        return sorted(found, key=lambda hours: (hours.key.resource, -hours.seconds, _list_names(hours.key)))


def _list_names(key: HoursKey) -> tuple[str, ...]:
    return tuple("" if name is None else name for name in key[:3])


def format_hours(seconds: int) -> str:
    """Return hours with two decimals, rounded half up."""
    hundredths = (seconds * 100 + _HOUR // 2) // _HOUR
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def format_duration(seconds: int) -> str:
    """Return a duration for people, as in `6 h 0 min`."""
    hours, rest = divmod(seconds, _HOUR)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"


def create_columns(grouping: Grouping) -> Columns[DeviceHours]:
    """Return the columns of a report with these groups."""
    if grouping.label:
        return Columns[DeviceHours](_VALUE, *_AMOUNTS)
    return Columns[DeviceHours](_NAMESPACE, *([_WORKLOAD] if grouping.by_workload else []), *_AMOUNTS)


def _format_value(hours: DeviceHours) -> str:
    return OTHERS if hours.key.value is None else hours.key.value or "(none)"


_VALUE: Final = Column[Any]("LABEL", "value", lambda hours: hours.key.value, _format_value)
_NAMESPACE: Final = Column[Any]("NAMESPACE", "namespace", lambda hours: hours.key.namespace)
_WORKLOAD: Final = Column[Any](
    "WORKLOAD", "workload", lambda hours: hours.key.workload, lambda hours: hours.key.workload or OTHERS
)
_AMOUNTS: Final = (
    Column[DeviceHours]("RESOURCE", "resource", lambda hours: hours.key.resource),
    Column[DeviceHours]("HOURS", "hours", lambda hours: format_hours(hours.seconds)),
    Column[DeviceHours]("UP TO", "hoursAtMost", lambda hours: format_hours(hours.most_seconds)),
    Column[DeviceHours]("", "seconds"),
    Column[DeviceHours]("", "secondsAtMost", lambda hours: hours.most_seconds),
    Column[DeviceHours]("PODS", "pods"),
    Column[DeviceHours]("CLAIMS", "claims"),
)
ALL_COLUMNS: Final = Columns[DeviceHours](_NAMESPACE, _WORKLOAD, _VALUE, *_AMOUNTS)
"""The columns of a report with any groups: null where they make none."""
