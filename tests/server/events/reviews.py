"""Reviews of pods with owners, and decisions on them."""

import json
from typing import Any

from tallygate.admission.request import Phase
from tallygate.gate.decisions import Decision, DecisionRecord

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u-web", "controller": True}


def create_review(*owners: dict[str, Any]) -> bytes:
    """Return the review of a new pod with these owners."""
    pod = {"metadata": {"name": "p", "ownerReferences": list(owners)}, "spec": {"containers": []}}
    return json.dumps({"request": {"uid": "r", "object": pod}}).encode()


def create_decision(verdict: str = "deny", text: str = "the sentence", **record: Any) -> Decision:
    """Return a decision with one code; by default a denial in the validating phase."""
    is_denied = verdict == "deny"
    result = {"status": {"message": text}} if is_denied else {"warnings": [text]}
    body = json.dumps({"response": {"uid": "r", "allowed": not is_denied, **result}}).encode()
    facts: dict[str, Any] = {
        "uid": "r",
        "user": "system:serviceaccount:kube-system:replicaset-controller",
        "operation": "CREATE",
        "kind": "Pod",
        "namespace": "team-a",
        "name": "web-1-x",
        "phase": Phase.VALIDATING,
        "dry_run": False,
        "verdict": verdict,
        "codes" if is_denied else "warnings": ("TG201",),
    }
    return Decision(body, DecisionRecord(**facts | record))
