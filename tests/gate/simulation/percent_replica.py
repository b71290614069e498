"""A replica whose limits are percentages of the capacity of nodes, which it sees late and settles (rule 8)."""

import json

from tallygate.admission.cap_sources import CapSources
from tallygate.cluster.capacities import CapacityReader
from tallygate.gate.settled_capacities import SettledCapacities
from tallygate.kube.resource_codec import Changed, Deleted, Replaced
from tallygate.state.informers.device_store import DeviceStore
from tallygate.state.informers.named_stores import NODE_CODEC, DeviceClassStore, NodeStore, ObjectRecord
from tests.gate.simulation.attempts import Attempts
from tests.gate.simulation.counts import CountRecorder
from tests.gate.simulation.device_policies import PolicyVersion
from tests.gate.simulation.gate_replica import GateReplica
from tests.gate.simulation.ground_truth import GroundTruth
from tests.gate.simulation.node_views import NodeView
from tests.gate.simulation.percent_policies import compute_share
from tests.gate.simulation.store import Store
from tests.schedules import ViolationError
from tests.state.informers.pods import GPU


class PercentReplica(GateReplica):
    """A replica that watches nodes. It lists them some time after its start."""

    def __init__(  # noqa: PLR0913, PLR0917  # those of a replica with a gate
        self,
        number: int,
        truth: GroundTruth,
        recorder: CountRecorder,
        store: Store,
        policy: PolicyVersion,
        attempts: Attempts,
    ) -> None:
        self.number, self._truth = number, truth
        self._clock_offset = 0.0
        record, view = truth.node_record or (None, None)
        self._nodes = NodeStore()
        classes = DeviceClassStore()
        classes.apply(Replaced([], 1))
        self._capacities = CapacityReader(self._nodes, DeviceStore(), classes, lambda _: "")
        self._node_position: int | None = None
        self._view = NodeView(lambda: truth.now, view)
        self._record = record
        self._settled: SettledCapacities | None = None
        super().__init__(number, truth, recorder, store, policy, attempts)
        self._settled = SettledCapacities(self.clock, self.read_unix_time, record)

    def _get_cap_sources(self) -> CapSources:
        sources = super()._get_cap_sources()
        return sources if self._settled is None else sources._replace(capacities=self._settled.capacities)

    def watch_nodes(self) -> bool:
        """List the nodes, or see their next version; return whether there was one."""
        versions = self._truth.nodes
        if self._node_position is None:
            self._node_position = len(versions) - 1
            records = [_decode(name, gpus, self._node_position) for name, gpus in versions[-1].items()]
            self._nodes.apply(Replaced(records, len(versions)))
        elif self._node_position + 1 < len(versions):
            before, after = versions[self._node_position], versions[self._node_position + 1]
            self._node_position += 1
            for name in before.keys() | after.keys():
                if before.get(name) != after.get(name):
                    event = Changed if name in after else Deleted
                    record = _decode(name, after.get(name, 0), self._node_position)
                    self._nodes.apply(event(record, self._node_position + 1))
        else:
            return False
        self.measure()
        return True

    def measure(self) -> None:
        """Measure the capacity of the nodes that it sees, as at a change of nodes and when a fall is due."""
        if self._settled is None:
            return
        found = self._capacities.compute(self.policy.documents, None)
        self._settled.measure(self.policy.documents, found.capacities)
        if self._node_position is not None:
            self._view.measure(sum(self._truth.nodes[self._node_position].values()))

    def record_capacities(self) -> bool:
        """Record what it has measured, as the leader does; return whether there is anything."""
        if self._settled is None or self._view.find_bounds() is None:
            return False
        self._truth.node_record = self._settled.create_record(), self._view.record()
        return True

    def load(self, policy: PolicyVersion) -> None:
        """Load a version of the policies, and measure the capacities of its caps."""
        super().load(policy)
        self.measure()

    def find_most_capacity(self) -> int:
        """Return the most that its settled capacity may be."""
        bounds = self._view.find_bounds()
        return 0 if bounds is None else bounds[1]

    def check_limits(self) -> None:
        """Check that each of its limits is that of the largest capacity that it has seen in the time of `settle`.

        Raises:
            ViolationError: if one is smaller or larger, or is known before it has seen the nodes.
        """
        bounds = self._view.find_bounds()
        self._truth.limits |= {(cap.key, cap.hard[GPU]) for cap in self.get_caps().list_caps() if GPU in cap.hard}
        for cap in self.get_caps().list_caps():
            name, hard = cap.definition.name, cap.hard.get(GPU)
            if bounds is None or hard is None:
                if bounds is not None or hard is not None:
                    raise ViolationError(f"unknown: replica {self.number} limits {name} to {hard}, and sees {bounds}")
                continue
            least, most = (compute_share(name, capacity) for capacity in bounds)
            if hard < least:
                raise ViolationError(f"early: replica {self.number} limits {name} to {hard} instead of {least}")
            if hard > most:
                raise ViolationError(f"limit: replica {self.number} limits {name} to {hard} instead of {most}")

    def catch_up(self) -> None:
        """Receive every event, and settle the capacity."""
        super().catch_up()
        while self.watch_nodes():
            pass
        self.measure()


def _decode(name: str, gpus: int, revision: int) -> ObjectRecord[bytes]:
    metadata = {"name": name, "uid": f"{name}-{revision}", "resourceVersion": str(revision + 1)}
    node = {"metadata": metadata, "status": {"allocatable": {GPU: str(gpus)}, "capacity": {GPU: str(gpus)}}}
    event = NODE_CODEC.decode_event(json.dumps({"type": "ADDED", "object": node}).encode())
    assert isinstance(event, Changed)
    record: ObjectRecord[bytes] = event.item
    return record
