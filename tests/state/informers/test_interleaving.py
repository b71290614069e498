"""Watch events in any order, with drops, repetitions and new lists: the pod store equals a dict."""

import json
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tallygate.accounting.amounts import Amounts
from tallygate.kube.resource_codec import Bookmark
from tallygate.objects.core import Pod
from tallygate.state.informers.pod_store import PodStore
from tests.effort import examples
from tests.state.informers.pods import BATCH, GPUS, line, page, pod

NAMESPACES = ("team-a", "team-b", "team-c")


class Interleaving(RuleBasedStateMachine):
    """A cluster, and a pod store that gets its events with drops, repetitions and new lists."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.states: dict[int, dict[str, dict[str, Any]]] = {1: {}}
        self.revision = 1
        self.delivered = 0
        self.store = PodStore()
        self.deleted: set[str] = set()
        self.created = 0

    @initialize()
    def first_list(self) -> None:
        """Start with a list."""
        self.list()

    def _write(self, kind: str, item: dict[str, Any]) -> None:
        self.revision += 1
        item["metadata"]["resourceVersion"] = str(self.revision)
        self.history.append((self.revision, kind, json.loads(json.dumps(item))))
        self.states[self.revision] = json.loads(json.dumps(self.stored))

    @rule(
        gpus=st.sampled_from(["1", "2", "500m", "0"]),
        namespace=st.sampled_from(NAMESPACES),
        labels=st.sampled_from([None, {"tier": "batch"}, {"tier": "web"}]),
    )
    def create(self, gpus: str, namespace: str, labels: dict[str, str] | None) -> None:
        """Create a pod."""
        self.created += 1
        uid = f"u{self.created}"
        self.stored[uid] = pod(uid, 0, gpus, namespace, metadata={"labels": labels})
        self._write("ADDED", self.stored[uid])

    @precondition(lambda self: self.stored)
    @rule(data=st.data(), phase=st.sampled_from(["Running", "Failed"]), gpus=st.sampled_from(["3", "1"]))
    def change(self, data: st.DataObject, phase: str, gpus: str) -> None:
        """Change a pod."""
        uid = data.draw(st.sampled_from(sorted(self.stored)))
        old = self.stored[uid]
        self.stored[uid] = pod(uid, 0, gpus, old["metadata"]["namespace"], status={"phase": phase})
        self._write("MODIFIED", self.stored[uid])

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Delete a pod."""
        self._write("DELETED", self.stored.pop(data.draw(st.sampled_from(sorted(self.stored)))))

    @rule(count=st.integers(1, 5))
    def deliver(self, count: int) -> None:
        """Deliver the next events."""
        for revision, kind, item in [each for each in self.history if each[0] > self.delivered][:count]:
            self.store.apply(line(kind, item))
            self.delivered = revision
            if kind == "DELETED":
                self.deleted.add(item["metadata"]["uid"])

    @rule(data=st.data())
    def deliver_again(self, data: st.DataObject) -> None:
        """Deliver old events again, in any order."""
        old = [each for each in self.history if each[0] <= self.delivered]
        for _, kind, item in data.draw(st.permutations(old))[:4]:
            self.store.apply(line(kind, item))

    @rule()
    def list(self) -> None:
        """Deliver a list and drop the undelivered events."""
        self.store.apply(page(self.revision, *self.stored.values()))
        self.delivered = self.revision

    @rule()
    def bookmark(self) -> None:
        """Deliver a bookmark if all earlier events are delivered."""
        if all(revision <= self.delivered for revision, _, _ in self.history):
            self.revision += 1
            self.states[self.revision] = json.loads(json.dumps(self.stored))
            self.store.apply(Bookmark(self.revision))
            self.delivered = self.revision

    @invariant()
    def store_equals_a_dict(self) -> None:
        """Compare each field of each pod with its state at the delivered revision."""
        expected = self.states[max(self.delivered, 1)]
        if self.store.revision is None:
            return
        assert self.store.revision == self.delivered
        found = {
            pod_record.uid: pod_record for namespace in NAMESPACES for pod_record in self.store.list_all(namespace)
        }
        assert len(self.store) == len(found)
        assert {
            uid: (
                pod_record.namespace,
                pod_record.name,
                str(pod_record.revision),
                pod_record.node,
                pod_record.has_ended,
            )
            for uid, pod_record in found.items()
        } == {
            uid: (
                item["metadata"]["namespace"],
                item["metadata"]["name"],
                item["metadata"]["resourceVersion"],
                item["spec"]["nodeName"],
                item["status"]["phase"] == "Failed",
            )
            for uid, item in expected.items()
        }

    @invariant()
    def charges_equal_those_of_the_whole_pod(self) -> None:
        """Check that charge groups lose no field that a cap needs."""
        if self.store.revision is None:
            return
        for cap in (GPUS, BATCH):
            for namespaces in (["team-a"], NAMESPACES):
                charges = {
                    uid: cap.compute_charge(_decode(item)).amounts
                    for uid, item in self.states[self.delivered].items()
                    if item["metadata"]["namespace"] in namespaces
                }
                charges = {uid: amounts for uid, amounts in charges.items() if amounts}
                assert self.store.compute_used_by_consumer(cap, namespaces) == charges
                total = Amounts()
                for amounts in charges.values():
                    total = total + amounts
                assert self.store.compute_usage(cap, namespaces).used == total

    @invariant()
    def tombstones_are_the_delivered_deletions(self) -> None:
        """Check that a pod which is missing in a list has no tombstone."""
        every = {f"u{n}" for n in range(1, self.created + 1)}
        assert {uid for uid in every if self.store.get_deletion_revision(uid) is not None} == self.deleted


def _decode(item: dict[str, Any]) -> Pod:
    return msgspec.json.decode(json.dumps(item).encode(), type=Pod)


TestInterleaving = Interleaving.TestCase
TestInterleaving.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
