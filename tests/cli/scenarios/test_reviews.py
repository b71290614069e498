"""What the gate is asked while a scenario is played, beside what a real API server asked it (tests/reviews)."""

import json
from pathlib import Path
from typing import Any

import pytest

from webhook.admission.request import Phase, UserInfo
from webhook.cli.scenarios.api_server import ApiRequest, ApiServer, ApiServerStore, ObjectKey
from webhook.gate.decisions import Decision
from webhook.gate.gate import Gate
from webhook.policy.model import PolicySet
from webhook.state.in_memory import FixedNamespaces, MemoryLedgers

REVIEWS = Path(__file__).parents[2] / "reviews"
DEVELOPER = ApiRequest(UserInfo("admin", ("system:authenticated",)), "default")


class Recording(Gate):
    """The gate, with every review that it is asked."""

    def __init__(self) -> None:
        nothing = PolicySet(rules=(), caps=())
        super().__init__(
            policies=lambda: nothing,
            namespaces=FixedNamespaces({"default": {}}),
            ledgers=MemoryLedgers(),
            monotonic=lambda: 0.0,
            nonce=lambda: "n",
        )
        self.asked: list[tuple[Phase, dict[str, Any]]] = []

    def admit(self, body: bytes, phase: Phase, deadline: float) -> Decision:
        """Note it, then answer."""
        self.asked.append((phase, json.loads(body)["request"]))
        return super().admit(body, phase, deadline)


def recorded(kind: str, operation: str, phase: Phase, subresource: str = "") -> dict[str, Any]:
    """What a real API server asked about the pod or workload of that kind."""
    for path in sorted(REVIEWS.rglob("*.json")):
        request = json.loads(path.read_text()).get("request", {})
        found = (request.get("kind", {}).get("kind"), request.get("operation"), request.get("subResource", ""))
        if found == (kind, operation, subresource) and f"-{phase}-" in path.name:
            return dict(request)
    raise AssertionError((kind, operation, phase))


def played(kind: str, operation: str, subresource: str = "") -> list[tuple[Phase, dict[str, Any]]]:
    """What the gate is asked here, when the same object is sent."""
    gate = Recording()
    store = ApiServerStore(lambda *_: None)
    store.put(ObjectKey("Namespace", "", "default"), {"metadata": {"name": "default", "uid": "u"}})
    api = ApiServer(gate, store, lambda: 0.0)
    theirs = recorded(kind, operation, Phase.VALIDATING, subresource)
    before = theirs["oldObject"] or theirs["object"]
    for body in (before, theirs["object"]):
        named = "generateName" if "generateName" in body["metadata"] else "name"
        body["metadata"] = {named: body["metadata"][named]}
    assert api.create(before, DEVELOPER).allowed
    if operation == "CREATE":
        return gate.asked
    request = ApiRequest(DEVELOPER.user, "default", subresource=subresource)
    assert api.update(theirs["object"], request).allowed
    return gate.asked[2:]


WHAT = [("Pod", "CREATE", ""), ("Deployment", "CREATE", ""), ("Job", "CREATE", ""), ("Pod", "UPDATE", "resize")]


@pytest.mark.parametrize(("kind", "operation", "subresource"), WHAT)
def test_it_is_asked_in_the_same_order_and_form(kind: str, operation: str, subresource: str) -> None:
    """First to mutate, without a uid where the object is new; then to validate, with one."""
    asked = played(kind, operation, subresource)
    assert [phase for phase, _ in asked] == [Phase.MUTATING, Phase.VALIDATING]
    for phase, ours in asked:
        theirs = recorded(kind, operation, phase, subresource)
        assert ours["kind"]["group"] == theirs["kind"]["group"]
        assert ours["subResource"] == theirs.get("subResource", "")
        assert (ours["oldObject"] is None) == (theirs["oldObject"] is None)
        assert ("uid" in ours["object"]["metadata"]) == ("uid" in theirs["object"]["metadata"])
        assert ours["object"]["metadata"]["namespace"] == theirs["object"]["metadata"]["namespace"]
        assert bool(ours["name"]) == bool(theirs.get("name"))
        assert ("name" in ours["object"]["metadata"]) == ("name" in theirs["object"]["metadata"])


def test_requests_are_there_before_any_webhook_looks() -> None:
    """Copied from the limits, as a real one has done in what it asked."""
    pod = recorded("Pod", "CREATE", Phase.MUTATING)["object"]
    sent = json.loads(json.dumps(pod))
    for container in sent["spec"]["containers"]:
        assert container["resources"]["requests"].pop("nvidia.com/gpu") == "1"
    gate = Recording()
    store = ApiServerStore(lambda *_: None)
    store.put(ObjectKey("Namespace", "", "default"), {"metadata": {"name": "default", "uid": "u"}})
    ApiServer(gate, store, lambda: 0.0).create({**sent, "metadata": {"name": "x"}}, DEVELOPER)
    ours = [each["resources"] for each in gate.asked[0][1]["object"]["spec"]["containers"]]
    assert ours == [each["resources"] for each in pod["spec"]["containers"]]
