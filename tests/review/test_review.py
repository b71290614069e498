"""Outcomes of reviews as values: what is decided, what is to be reserved, and what cannot be decided."""

import itertools
import json
from typing import Any

from tallygate.admission.request import CREATE, AdmissionRequest, Phase
from tallygate.review.active_policies import ActivePolicySet
from tallygate.review.cap_charge import CapChargeResult, ChargeResult
from tallygate.review.outcome import Outcome, describe_unlabelled
from tallygate.review.review import conclude, review
from tallygate.review.view import ClusterView
from tallygate.state.in_memory import UnknownNamespaces
from tallygate.state.ledger.ledger import Ledger
from tests.admission.case import parse_policies
from tests.gate.gate_fixture import BY_LABEL, CAP, GPU, pod

RULE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: few}
spec:
  resources: ["nvidia.com/gpu"]
  checks: {perContainer: {max: 2}}
"""
FILL = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: fill}
spec:
  resources: ["nvidia.com/gpu"]
  checks: {requestsEqualLimits: fill}
"""


def review_object(policies: str, object_: dict[str, Any], **terms: Any) -> Outcome:
    """Return the outcome of the creation of an object in namespace team-a, whose labels are unknown."""
    policy_set = ActivePolicySet(parse_policies(policies), None)
    view = ClusterView(namespaces=UnknownNamespaces())
    group, _, _ = object_.get("apiVersion", "v1").rpartition("/")
    request = AdmissionRequest(
        object_["kind"], CREATE, json.dumps(object_).encode(), group=group, namespace="team-a", name="p", uid="r"
    )
    nonces = itertools.count(1)
    return review(request, policy_set, view, nonce=lambda: f"n{next(nonces)}", **terms)


def create_deployment(gpus: int, replicas: int) -> dict[str, Any]:
    """Return a Deployment whose pods have GPUs."""
    template = {"spec": pod("u", gpus)["spec"]}
    metadata = {"name": "p", "uid": "u"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": replicas, "template": template},
    }


def test_a_pod_under_a_cap_has_charges_and_is_not_final() -> None:
    outcome = review_object(CAP, pod("u", 2))
    assert outcome.is_allowed
    assert outcome.charges is not None
    (charge,) = outcome.charges.charges
    assert (charge.cap.definition.name, dict(charge.current), dict(charge.requested)) == ("gpus", {}, {GPU: 2})
    assert outcome.charges.consumer.attempt == "n1"


def test_a_conclusion_denies_what_a_cap_has_no_room_for() -> None:
    outcome = review_object(CAP, pod("u", 2))
    assert outcome.charges is not None
    (charge,) = outcome.charges.charges
    full = Ledger(charge.cap.hard, charge.cap.hard)
    exceeded = CapChargeResult(charge, full, full, charge.requested)
    concluded = conclude(outcome, ClusterView(namespaces=UnknownNamespaces()), ChargeResult(exceeded=(exceeded,)))
    assert [problem.code for problem in concluded.rejections] == ["TG201"]
    assert concluded.charges is None
    assert not concluded.is_allowed


def test_unknown_labels_are_a_reason_without_a_decision() -> None:
    outcome = review_object(BY_LABEL, pod("u", 2))
    assert outcome.undecided is not None
    assert outcome.undecided.fails
    assert "the labels of namespace team-a are unknown here" in outcome.undecided.reason
    assert outcome.charges is None


def test_what_a_rule_denies_is_not_charged() -> None:
    outcome = review_object(f"{CAP}---{RULE}", pod("u", 3))
    assert [problem.code for problem in outcome.problems] == ["TG105"]
    assert outcome.charges is None


def test_the_mutating_phase_only_fills_requests_in() -> None:
    unfilled = pod("u", 2)
    del unfilled["spec"]["containers"][0]["resources"]["requests"]
    outcome = review_object(f"{CAP}---{FILL}", unfilled, phase=Phase.MUTATING)
    assert [operation["op"] for operation in outcome.verdict.patch] == ["add"]
    assert outcome.charges is None


def test_a_stored_object_has_the_problems_of_rules_and_of_caps() -> None:
    """Review pods of which none can ever run under the cap."""
    policies = f"{CAP.replace('hard:', 'workloads: deny' + chr(10) + '  hard:')}---{RULE}"
    codes = {
        problem.code for _, problem in review_object(policies, create_deployment(5, 1), is_stored=True).list_findings()
    }
    assert codes == {"TG105", "TG204"}


def test_a_stored_pod_is_not_charged_and_lacks_nothing_that_a_rule_fills_in() -> None:
    unfilled = pod("u", 2)
    del unfilled["spec"]["containers"][0]["resources"]["requests"]
    outcome = review_object(f"{CAP}---{FILL}", unfilled, is_stored=True)
    assert list(outcome.list_findings()) == []
    assert outcome.charges is None


def test_a_cap_by_unknown_labels_is_not_evaluated_for_a_stored_object() -> None:
    outcome = review_object(BY_LABEL, pod("u", 2), is_stored=True)
    assert outcome.undecided is None
    (unknown,) = outcome.verdict.unknown
    assert unknown == describe_unlabelled("gpus", "team-a")
    assert unknown.endswith("the labels of namespace team-a are unknown here")
