"""The gate's decisions on ConfigMaps with policies, as the API server sends them."""

import json
from threading import Lock
from typing import Any

import pytest

from tallygate.admission.request import Phase, ReviewError
from tallygate.gate.decisions import Decision, UndecidedError
from tallygate.gate.policy_reviews import PolicyReviews
from tests.gate.gate_fixture import GateFixture, response
from tests.policy.files import NOON, rule_text

GPUS = rule_text("gpus")
BROKEN = GPUS.replace("resources: [gpus.example/x]", "resources: [gpus.example/x], checks: {wholeQuantety: true}")
ENDED = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: seats}
spec:
  namespaces: {include: [team-a]}
  hard: {example.com/seat: 4}
  overrides: [{until: 2025-12-01T00:00:00Z, hard: {example.com/seat: 6}}]
"""


def create_config_map(labels: Any = (("tallygate.dev/policies", "true"),), **texts: str) -> dict[str, Any]:
    """Return a ConfigMap with these texts; `_` in a name stands for the dot."""
    metadata = {"name": "tallygate-policies", "labels": dict(labels)}
    return {"kind": "ConfigMap", "metadata": metadata, "data": {k.replace("_", "."): v for k, v in texts.items()}}


def review(new: dict[str, Any], old: dict[str, Any] | None = None, lock: Any = None, **request: Any) -> Decision:
    """Return the decision on a ConfigMap of a gate that has the file `a.yaml`."""
    files = {"/policies/a.yaml": GPUS.encode()}
    reviews = PolicyReviews(lambda: files, lock or Lock(), NOON.timestamp)
    fields = {"name": "tallygate-policies", "namespace": "tallygate-system"} | request
    if old is not None:
        fields["oldObject"] = old
    return GateFixture(policy_reviews=reviews).admit(new, **fields)


def test_a_config_map_that_no_gate_would_load_is_denied_with_file_line_and_a_valid_form() -> None:
    decision = review(create_config_map(a_yaml=BROKEN), create_config_map(a_yaml=GPUS))
    status = response(decision)["status"]
    finding = "spec.checks.wholeQuantety: there is no such field here"
    assert (status["code"], status["reason"]) == (422, "Invalid")
    (first, last) = status["details"]["causes"]
    assert first["field"].startswith("a.yaml:4:")
    assert finding in first["message"]
    assert 'did you mean "wholeQuantity"' in first["message"]
    assert last["field"] == "until then"
    assert last["message"] == "gates keep the policies that they have; `tallygate lint` lists these errors"
    message = f'ConfigMap "tallygate-policies": {first["field"]}: {first["message"]}\nuntil then: {last["message"]}'
    assert status["message"] == message
    assert (decision.record.verdict, decision.record.codes) == ("deny", ("TG307",))
    assert finding in decision.record.message


@pytest.mark.parametrize("request_fields", [{}, {"dryRun": True}], ids=["stored", "a dry run"])
def test_a_valid_config_map_is_allowed_with_the_warnings_of_lint(request_fields: dict[str, Any]) -> None:
    decision = review(create_config_map(a_yaml=ENDED), create_config_map(a_yaml=GPUS), **request_fields)
    answer = response(decision)
    assert answer["allowed"]
    (warning,) = answer["warnings"]
    assert warning.startswith('ConfigMap "tallygate-policies": a.yaml:8:')
    assert decision.record.verdict == "allow"


def test_a_dry_run_is_denied_alike() -> None:
    stored, dry = (review(create_config_map(a_yaml=BROKEN), dryRun=is_dry) for is_dry in (False, True))
    assert response(stored) == response(dry)
    assert not response(dry)["allowed"]


@pytest.mark.parametrize("labels", [{}, {"tallygate.dev/policies": "false"}], ids=["none", "another value"])
def test_a_config_map_without_the_label_is_allowed(labels: dict[str, str]) -> None:
    """Expect no finding about one that loses its label either, which is a way out for its author."""
    decision = review(create_config_map(labels, a_yaml=BROKEN), create_config_map(a_yaml=GPUS))
    assert response(decision) == {"uid": "r", "allowed": True}


def test_a_gate_without_policy_reviews_allows_every_config_map() -> None:
    assert response(GateFixture().admit(create_config_map(a_yaml=BROKEN)))["allowed"]


def test_findings_and_bytes_of_a_response_are_limited() -> None:
    many = GPUS.replace("spec: {", "spec: {" + "".join(f'"{"x" * 240}{number}\\n": 1, ' for number in range(190)))
    warned = "".join(f"\n---\n{ENDED.replace('seats', f'seats-{number}')}" for number in range(100))
    decision = review(create_config_map(a_yaml=many, b_yaml=warned))
    status = response(decision)["status"]
    assert len(status["details"]["causes"]) == 21
    assert "lists these errors, and 1" in status["message"]
    assert all(len(cause["message"]) < 600 and "\n" not in cause["message"] for cause in status["details"]["causes"])
    assert len(decision.body) < 40_000
    assert len(decision.record.message) <= 1024
    allowed = response(review(create_config_map(b_yaml=warned)))
    assert sum(map(len, allowed["warnings"])) <= 4096
    assert allowed["warnings"][-1].endswith("`tallygate lint` lists them all")


def test_one_config_map_is_read_at_a_time() -> None:
    lock = Lock()
    with lock, pytest.raises(UndecidedError, match="another ConfigMap") as raised:
        review(create_config_map(a_yaml=BROKEN), lock=lock)
    assert raised.value.is_transient
    assert not response(review(create_config_map(a_yaml=BROKEN), lock=lock))["allowed"]
    assert not lock.locked()


@pytest.mark.parametrize(
    "content",
    [{"data": {"a.yaml": 1}}, {"data": [1]}, {"binaryData": {"a.yaml": "not base64"}}, {"data": {"a.yaml": None}}],
    ids=json.dumps,
)
def test_an_object_that_is_no_config_map_has_no_decision(content: dict[str, Any]) -> None:
    with pytest.raises(ReviewError, match="the object is no ConfigMap"):
        review({"kind": "ConfigMap"} | content)


def test_the_mutating_phase_gets_no_patch() -> None:
    assert response(review(create_config_map(a_yaml=GPUS), phase=Phase.MUTATING)) == {"uid": "r", "allowed": True}
