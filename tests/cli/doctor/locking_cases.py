"""How a gate may stand in the cluster's way, or be passed by."""

from tests.cli.doctor.changes import CHANGES, FAIL, MUTATE, UNKNOWN, UNSEEN, VALIDATE, WARN, Cases, changed
from tests.cli.doctor.world import budget, deployment

NODES = "nodes.validate.tallygate.dev"

CASES: Cases = {
    "pods pass while the gate is away": (changed("mutate", MUTATE, failurePolicy="Ignore"), {"failure-policy": WARN}),
    "changes of pods pass while the gate is away": (
        changed("validate", CHANGES, failurePolicy="Ignore"),
        {"failure-policy": WARN},
    ),
    "one replica": ({"deployment": deployment(1, 1)}, {"failure-policy": WARN}),
    "nobody is ready": ({"deployment": deployment(2, 0)}, {"failure-policy": FAIL, "replicas": WARN}),
    "there is no Deployment": ({"deployment": None}, {"failure-policy": FAIL}),
    "the Deployment cannot be read": ({"deployment": UNSEEN}, {"failure-policy": UNKNOWN}),
    "no budget": ({"disruption_budgets": ()}, {"failure-policy": WARN}),
    "a budget over others": ({"disruption_budgets": (budget(labels={"app": "other"}),)}, {"failure-policy": WARN}),
    "a budget that lets nobody go": ({"disruption_budgets": (budget(0),)}, {"failure-policy": WARN}),
    "budgets cannot be read": ({"disruption_budgets": UNSEEN}, {"failure-policy": UNKNOWN}),
    "kube-system waits for the gate": (changed("validate", VALIDATE, namespaceSelector={}), {"exempt": FAIL}),
    "what changes in kube-system waits for the gate": (
        changed("validate", CHANGES, namespaceSelector={}),
        {"exempt": FAIL},
    ),
    "the gate's own namespace waits for it": (
        changed(
            "mutate",
            MUTATE,
            namespaceSelector={
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
                ]
            },
        ),
        {"exempt": FAIL},
    ),
    "nodes wait for the gate": (changed("validate", NODES, failurePolicy="Fail"), {"lockout": FAIL}),
    "all waits for the gate": (
        changed(
            "validate",
            VALIDATE,
            rules=[{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
        ),
        {"lockout": FAIL},
    ),
    "a namespace is passed over": (
        changed("validate", VALIDATE, namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}),
        {"excluded-namespaces": WARN},
    ),
    "changes are passed over in a namespace": (
        changed("validate", CHANGES, namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}),
        {"excluded-namespaces": WARN},
    ),
    "namespaces cannot be listed": ({"namespaces": UNSEEN}, {"excluded-namespaces": UNKNOWN}),
}
