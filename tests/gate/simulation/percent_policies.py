"""The caps of a world whose limits are percentages of the GPUs of its nodes, and those by plain arithmetic (rule 8)."""

from collections.abc import Mapping

from tallygate.admission.capacity_limits import Capacity
from tests.gate.simulation.device_policies import CAP, Policies, create_version
from tests.gate.simulation.surge_policies import SURGE_SECONDS
from tests.state.informers.pods import GPU

SETTLE_SECONDS = 8
"""The time after which less capacity lowers the limits."""
FIRST_NODES: Mapping[str, int] = {"n1": 4, "n2": 3, "n3": 2}
"""The GPUs of the nodes at the start, by name."""
MAX_NODES, MAX_SIZE = 5, 4
_PERCENTS = {"each": 50, "together": 75}
_SURGES = (2, 3)
"""The surges of both caps, by version of the policies."""


def compute_share(cap: str, capacity: int) -> int:
    """Return the limit of a cap by its name and the capacity."""
    return capacity * _PERCENTS[cap] // 100


def _index() -> Policies:
    settle = f"  capacity: {{settle: {SETTLE_SECONDS}s}}\n"
    capacities = {name: {GPU: Capacity(sum(FIRST_NODES.values()))} for name in _PERCENTS}
    texts = [
        CAP.format(name=name, shared=shared, hard=f"{_PERCENTS[name]}%") + settle
        for name, shared in (("each", "false"), ("together", "true"))
    ]
    surges = [f"  surge: {{amounts: {{nvidia.com/gpu: {each}}}, for: {SURGE_SECONDS}s}}\n" for each in _SURGES]
    versions = [create_version("---".join(text + surge for text in texts), capacities=capacities) for surge in surges]
    return Policies(versions[0], versions[1], has_reviews=True, follow_capacity=True)


PERCENTS = _index()
