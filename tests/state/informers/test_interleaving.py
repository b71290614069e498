"""Whatever is told, in whatever order, with drops, repetitions and new lists: the columns are what a dict would be."""

import json
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.effort import examples
from tests.state.informers.pods import BATCH, GPUS, line, page, pod
from webhook.accounting.amounts import Amounts
from webhook.kube.resource_codec import Bookmark
from webhook.objects.core import Pod
from webhook.state.informers.pod_store import PodStore

NAMESPACES = ("team-a", "team-b", "team-c")


class Interleaving(RuleBasedStateMachine):
    """A cluster that goes its way, and a view that hears of it with drops, repetitions and new lists."""

    def __init__(self) -> None:
        super().__init__()
        self.truth: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.states: dict[int, dict[str, dict[str, Any]]] = {1: {}}
        self.revision = 1
        self.heard = 0
        self.view = PodStore()
        self.deleted: set[str] = set()
        self.lives = 0

    @initialize()
    def first_list(self) -> None:
        """It begins with a list."""
        self.list()

    def _write(self, kind: str, item: dict[str, Any]) -> None:
        self.revision += 1
        item["metadata"]["resourceVersion"] = str(self.revision)
        self.history.append((self.revision, kind, json.loads(json.dumps(item))))
        self.states[self.revision] = json.loads(json.dumps(self.truth))

    @rule(
        gpus=st.sampled_from(["1", "2", "500m", "0"]),
        namespace=st.sampled_from(NAMESPACES),
        labels=st.sampled_from([None, {"tier": "batch"}, {"tier": "web"}]),
    )
    def create(self, gpus: str, namespace: str, labels: dict[str, str] | None) -> None:
        """A pod comes."""
        self.lives += 1
        uid = f"u{self.lives}"
        self.truth[uid] = pod(uid, 0, gpus, namespace, metadata={"labels": labels})
        self._write("ADDED", self.truth[uid])

    @precondition(lambda self: self.truth)
    @rule(data=st.data(), phase=st.sampled_from(["Running", "Failed"]), gpus=st.sampled_from(["3", "1"]))
    def change(self, data: st.DataObject, phase: str, gpus: str) -> None:
        """A pod changes."""
        uid = data.draw(st.sampled_from(sorted(self.truth)))
        old = self.truth[uid]
        self.truth[uid] = pod(uid, 0, gpus, old["metadata"]["namespace"], status={"phase": phase})
        self._write("MODIFIED", self.truth[uid])

    @precondition(lambda self: self.truth)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """A pod goes."""
        self._write("DELETED", self.truth.pop(data.draw(st.sampled_from(sorted(self.truth)))))

    @rule(count=st.integers(1, 5))
    def hear(self, count: int) -> None:
        """The watch tells the next events."""
        for revision, kind, item in [each for each in self.history if each[0] > self.heard][:count]:
            self.view.apply(line(kind, item))
            self.heard = revision
            if kind == "DELETED":
                self.deleted.add(item["metadata"]["uid"])

    @rule(data=st.data())
    def hear_again(self, data: st.DataObject) -> None:
        """Old events come again, in any order."""
        old = [each for each in self.history if each[0] <= self.heard]
        for _, kind, item in data.draw(st.permutations(old))[:4]:
            self.view.apply(line(kind, item))

    @rule()
    def list(self) -> None:
        """Whatever was not heard is dropped."""
        self.view.apply(page(self.revision, *self.truth.values()))
        self.heard = self.revision

    @rule()
    def bookmark(self) -> None:
        """It comes when all before it was told."""
        if all(revision <= self.heard for revision, _, _ in self.history):
            self.revision += 1
            self.states[self.revision] = json.loads(json.dumps(self.truth))
            self.view.apply(Bookmark(self.revision))
            self.heard = self.revision

    @invariant()
    def is_what_a_dict_would_be(self) -> None:
        """Each field of each pod is as it was at the revision heard."""
        expected = self.states[max(self.heard, 1)]
        if self.view.revision is None:
            return
        assert self.view.revision == self.heard
        found = {place.uid: place for namespace in NAMESPACES for place in self.view.list_pods(namespace)}
        assert len(self.view) == len(found)
        assert {
            uid: (place.namespace, place.name, str(place.revision), place.node, place.has_ended)
            for uid, place in found.items()
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
    def costs_what_the_cap_says_of_the_whole_pod(self) -> None:
        """Shapes lose nothing that a cap asks for."""
        if self.view.revision is None:
            return
        for counted in (GPUS, BATCH):
            for namespaces in (["team-a"], NAMESPACES):
                costs = {
                    uid: counted.compute_charge(_decoded(item)).amounts
                    for uid, item in self.states[self.heard].items()
                    if item["metadata"]["namespace"] in namespaces
                }
                costs = {uid: amounts for uid, amounts in costs.items() if amounts}
                assert self.view.compute_used_by_pod(counted, namespaces) == costs
                total = Amounts()
                for amounts in costs.values():
                    total = total + amounts
                assert self.view.compute_usage(counted, namespaces).used == total

    @invariant()
    def knows_the_deletions_that_it_heard_of_and_no_others(self) -> None:
        """A pod that a list lacks was not seen to be deleted."""
        every = {f"u{n}" for n in range(1, self.lives + 1)}
        assert {uid for uid in every if self.view.get_deletion_revision(uid) is not None} == self.deleted


def _decoded(item: dict[str, Any]) -> Pod:
    return msgspec.json.decode(json.dumps(item).encode(), type=Pod)


TestInterleaving = Interleaving.TestCase
TestInterleaving.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
