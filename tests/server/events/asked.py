"""Reviews of pods with owners, and what the gate would answer to them."""

import json
from typing import Any

from webhook.admission.request import Phase
from webhook.gate.decisions import Decision, DecisionRecord

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u-web", "controller": True}


def review(*owners: dict[str, Any]) -> bytes:
    """The review of a new pod with these owners."""
    pod = {"metadata": {"name": "p", "ownerReferences": list(owners)}, "spec": {"containers": []}}
    return json.dumps({"request": {"uid": "r", "object": pod}}).encode()


def answer(verdict: str = "deny", text: str = "the sentence", **record: Any) -> Decision:
    """An answer with one code; a refusal in the validating phase unless something else is said."""
    refused = verdict == "deny"
    said = {"status": {"message": text}} if refused else {"warnings": [text]}
    body = json.dumps({"response": {"uid": "r", "allowed": not refused, **said}}).encode()
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
        "codes" if refused else "warnings": ("TG201",),
    }
    return Decision(body, DecisionRecord(**facts | record))
