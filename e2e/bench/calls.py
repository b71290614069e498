"""What the API server itself counts of its calls to webhooks (k8s.io/apiserver/pkg/admission/metrics, v1.36)."""

import re
from dataclasses import dataclass

from e2e.bench.variants import Variant

_FAMILY = "apiserver_admission_webhook_admission_duration_seconds"
_SAMPLE = re.compile(rf"{_FAMILY}_(count|sum){{([^}}]*)}} (\S+)")


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls to one server, and the seconds that the API server waited for them in all."""

    number: int = 0
    seconds: float = 0.0

    def since(self, before: "Calls") -> "Calls":
        """What came after `before`."""
        return Calls(self.number - before.number, self.seconds - before.seconds)

    def each(self) -> float:
        """Seconds for a call, on the average."""
        return self.seconds / self.number if self.number else 0.0


def calls_of(metrics: str, variant: Variant) -> Calls:
    """The calls to the server of a variant, whose webhooks' names begin with its own."""
    sums = {"count": 0.0, "sum": 0.0}
    for kind, labels, value in _SAMPLE.findall(metrics):
        if f'name="{variant.name}.' in labels:
            sums[kind] += float(value)
    return Calls(round(sums["count"]), sums["sum"])
