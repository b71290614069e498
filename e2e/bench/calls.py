"""The API server's own count of its calls to webhooks (k8s.io/apiserver/pkg/admission/metrics, v1.36)."""

import re
from dataclasses import dataclass

from e2e.bench.variants import Variant

_FAMILY = "apiserver_admission_webhook_admission_duration_seconds"
_SAMPLE = re.compile(rf"{_FAMILY}_(count|sum){{([^}}]*)}} (\S+)")


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls to one server, and the total seconds that the API server waited for them."""

    number: int = 0
    seconds: float = 0.0

    def since(self, before: "Calls") -> "Calls":
        """Return the calls after `before`."""
        return Calls(self.number - before.number, self.seconds - before.seconds)


def parse_calls(metrics: str, variant: Variant) -> Calls:
    """Return the calls to the webhooks of a variant, whose names begin with its name."""
    sums = {"count": 0.0, "sum": 0.0}
    for kind, labels, value in _SAMPLE.findall(metrics):
        if f'name="{variant.name}.' in labels:
            sums[kind] += float(value)
    return Calls(round(sums["count"]), sums["sum"])
