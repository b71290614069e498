"""Match conditions and namespace selectors of webhooks: which of them an API server calls."""

from tests.admission.conditions import MAX_COST, AskedWebhook
from tests.conformance.case import Case, Outcome


def compare(case: Case) -> Outcome:
    """Compare the calls; no condition of the gate may fail, or come near the limit of its cost, and one is called."""
    calls = case["answer"]
    errors = [f"Kubernetes says {call['error']}" for call in calls if "error" in call]
    if errors:
        return Outcome(tuple(errors))
    expected = [call["isCalled"] for call in calls]
    called = [
        AskedWebhook(webhook["namespaceSelector"], webhook["conditions"]).is_called(case["request"], case["labels"])
        for webhook in case["webhooks"]
    ]
    if called != expected:
        return Outcome((f"Kubernetes {expected}, tallygate {called}",))
    if sum(called) > 1:
        return Outcome((f"{sum(called)} webhooks are called for one request",))
    cost = max(call["cost"] for call in calls)
    return Outcome() if cost < MAX_COST else Outcome((f"it costs {cost}",))
