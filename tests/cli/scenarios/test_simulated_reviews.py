"""Admission reviews of a scenario, compared with those of a real API server (tests/reviews)."""

import json
from pathlib import Path
from typing import Any

import pytest

from tallygate.accounting.pod_defaults import NO_POD_DEFAULTS
from tallygate.admission.kinds import REVIEW_TARGETS
from tallygate.admission.request import AdmissionRequest, Phase, UserInfo
from tallygate.cli.scenarios.api_server import ApiRequest, ApiServer, ApiServerStore, ObjectKey
from tallygate.gate.gate import Gate
from tallygate.policy.model import PolicySet
from tallygate.review.outcome import Outcome
from tallygate.review.view import ClusterView
from tallygate.state.in_memory import MemoryLedgers
from tests.state.fixed_namespaces import FixedNamespaces

REVIEWS = Path(__file__).parents[2] / "reviews"
DEVELOPER = ApiRequest(UserInfo("admin", ("system:authenticated",)), "default")


class RecordingGate(Gate):
    """A gate that records every review."""

    def __init__(self) -> None:
        nothing = PolicySet(rules=(), caps=())
        super().__init__(
            policies=lambda: nothing,
            view=ClusterView(namespaces=FixedNamespaces({"default": {}})),
            ledgers=MemoryLedgers(),
            monotonic=lambda: 0.0,
            nonce=lambda: "n",
            unix_time=lambda: 0.0,
        )
        self.reviews: list[tuple[Phase, AdmissionRequest]] = []

    def decide(self, request: AdmissionRequest, phase: Phase, deadline: float) -> Outcome:
        """Record the request, then decide it."""
        self.reviews.append((phase, request))
        return super().decide(request, phase, deadline)


def load_recorded_request(kind: str, operation: str, phase: Phase, subresource: str = "") -> dict[str, Any]:
    """Return the request of a real API server for an object of this kind."""
    for path in sorted(REVIEWS.rglob("*.json")):
        request = json.loads(path.read_text()).get("request", {})
        found = (request.get("kind", {}).get("kind"), request.get("operation"), request.get("subResource", ""))
        if found == (kind, operation, subresource) and f"-{phase}-" in path.name:
            return dict(request)
    raise AssertionError((kind, operation, phase))


def simulate(kind: str, operation: str, subresource: str = "") -> list[tuple[Phase, AdmissionRequest]]:
    """Return the reviews that the simulated API server sends for the same object."""
    gate = RecordingGate()
    store = ApiServerStore(lambda *_: None)
    store.put(ObjectKey("Namespace", "", "default"), {"metadata": {"name": "default", "uid": "u"}})
    api = ApiServer(gate, store, lambda: 0.0, REVIEW_TARGETS, lambda _: NO_POD_DEFAULTS)
    recorded = load_recorded_request(kind, operation, Phase.VALIDATING, subresource)
    before = recorded["oldObject"] or recorded["object"]
    for body in (before, recorded["object"]):
        name_field = "generateName" if "generateName" in body["metadata"] else "name"
        body["metadata"] = {name_field: body["metadata"][name_field]}
    assert api.create(before, DEVELOPER).allowed
    if operation == "CREATE":
        return gate.reviews
    request = ApiRequest(DEVELOPER.user, "default", subresource=subresource)
    assert api.update(recorded["object"], request).allowed
    return gate.reviews[2:]


REQUESTS = [("Pod", "CREATE", ""), ("Deployment", "CREATE", ""), ("Job", "CREATE", ""), ("Pod", "UPDATE", "resize")]


@pytest.mark.parametrize(("kind", "operation", "subresource"), REQUESTS)
def test_reviews_have_the_order_and_the_form_of_real_ones(kind: str, operation: str, subresource: str) -> None:
    """Send a mutating review without a uid for a new object, then a validating one with a uid."""
    reviews = simulate(kind, operation, subresource)
    assert [phase for phase, _ in reviews] == [Phase.MUTATING, Phase.VALIDATING]
    for phase, simulated in reviews:
        recorded = load_recorded_request(kind, operation, phase, subresource)
        metadata, recorded_metadata = json.loads(simulated.object)["metadata"], recorded["object"]["metadata"]
        assert simulated.group == recorded["kind"]["group"]
        assert simulated.subresource == recorded.get("subResource", "")
        assert (simulated.old_object is None) == (recorded["oldObject"] is None)
        assert ("uid" in metadata) == ("uid" in recorded_metadata)
        assert metadata["namespace"] == recorded_metadata["namespace"]
        assert bool(simulated.name) == bool(recorded.get("name"))
        assert ("name" in metadata) == ("name" in recorded_metadata)


def test_requests_are_defaulted_before_the_first_review() -> None:
    """Copy the requests from the limits, as a real API server does."""
    pod = load_recorded_request("Pod", "CREATE", Phase.MUTATING)["object"]
    manifest = json.loads(json.dumps(pod))
    for container in manifest["spec"]["containers"]:
        assert container["resources"]["requests"].pop("nvidia.com/gpu") == "1"
    gate = RecordingGate()
    store = ApiServerStore(lambda *_: None)
    store.put(ObjectKey("Namespace", "", "default"), {"metadata": {"name": "default", "uid": "u"}})
    api = ApiServer(gate, store, lambda: 0.0, REVIEW_TARGETS, lambda _: NO_POD_DEFAULTS)
    api.create({**manifest, "metadata": {"name": "x"}}, DEVELOPER)
    simulated = [each["resources"] for each in json.loads(gate.reviews[0][1].object)["spec"]["containers"]]
    assert simulated == [each["resources"] for each in pod["spec"]["containers"]]
