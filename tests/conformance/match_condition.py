"""Match conditions of webhooks: whether an API server calls the webhook."""

from tests.admission.conditions import MAX_COST, evaluate_condition
from tests.conformance.case import Case, Outcome


def compare(case: Case) -> Outcome:
    """Compare the result; no condition of the gate may fail, or come near the limit of its cost."""
    answer = case["answer"]
    if "error" in answer:
        return Outcome((f"Kubernetes says {answer['error']}",))
    is_called, _ = evaluate_condition(case["condition"], case["request"])
    if is_called != answer["isCalled"]:
        return Outcome((f"Kubernetes {answer['isCalled']}, tallygate {is_called}",))
    return Outcome() if answer["cost"] < MAX_COST else Outcome((f"it costs {answer['cost']}",))
