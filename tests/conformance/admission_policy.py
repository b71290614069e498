"""Admission policies that are compiled from rules: the messages of the violated ones."""

from tests.backstop.comparison import compare as compare_with_gate
from tests.backstop.drawn_questions import compile_documents
from tests.backstop.evaluation import MAX_COST, evaluate_policies, list_sentences
from tests.conformance.case import Case, Outcome

_MAX_POLICY_COST = 5 * MAX_COST  # the variables are evaluated for the message again, within 10,000,000


def compare(case: Case) -> Outcome:
    """Compare the messages with those of this project's CEL, and with the rules of the gate, apart from the gaps."""
    answer = case["answer"]
    if "errors" in answer:
        return Outcome(tuple(f"Kubernetes says {error}" for error in answer["errors"]))
    compiled = compile_documents(case["policies"])
    if compiled is None:
        return Outcome(("the policies have mistakes",))
    policies, objects, gaps = compiled
    labels, request, messages = case["namespaceLabels"] or {}, case["request"], answer["messages"]
    differences = [*compare_with_gate(policies, gaps, labels, request, messages)]
    own = evaluate_policies(objects, labels, request)
    if list_sentences(own) != list_sentences(messages):
        differences.append(f"Kubernetes {messages}, tallygate {own}")
    if answer["cost"] > _MAX_POLICY_COST:
        differences.append(f"it costs {answer['cost']}")
    return Outcome(tuple(differences))
