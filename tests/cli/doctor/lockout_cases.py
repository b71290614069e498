"""Cases of gates that block the cluster or are bypassed."""

from tests.cli.doctor.fact_changes import (
    CHANGES,
    FAIL,
    MUTATE,
    UNAVAILABLE,
    UNKNOWN,
    VALIDATE,
    WARN,
    Cases,
    change_webhook,
)
from tests.cli.doctor.healthy_gate import ARGUMENTS, budget, create_network_policy, deployment

LIMITS = "limits.validate.tallygate.dev"
NODES = "nodes.validate.tallygate.dev"

CASES: Cases = {
    "pods pass while the gate is unavailable": (
        change_webhook("mutate", MUTATE, failurePolicy="Ignore"),
        {"failure-policy": WARN},
    ),
    "changes of pods pass while the gate is unavailable": (
        change_webhook("validate", CHANGES, failurePolicy="Ignore"),
        {"failure-policy": WARN},
    ),
    "annotations that set limits pass while the gate is unavailable": (
        change_webhook("validate", LIMITS, failurePolicy="Ignore"),
        {"failure-policy": WARN},
    ),
    "every write of a namespace waits for the gate": (
        change_webhook("validate", LIMITS, matchConditions=[{"name": "all", "expression": "true"}]),
        {"lockout": FAIL, "conditions": WARN},
    ),
    "one replica": ({"deployment": deployment(1, 1)}, {"failure-policy": WARN}),
    "no replica is ready": ({"deployment": deployment(2, 0)}, {"failure-policy": FAIL, "replicas": WARN}),
    "the Deployment is missing": ({"deployment": None}, {"failure-policy": FAIL, "callers": UNKNOWN}),
    "the Deployment cannot be read": ({"deployment": UNAVAILABLE}, {"failure-policy": UNKNOWN, "callers": UNKNOWN}),
    "no client of the port of reviews is kept out": ({"network_policies": ()}, {"callers": WARN}),
    "NetworkPolicies cannot be listed": ({"network_policies": UNAVAILABLE}, {"callers": UNKNOWN}),
    "a NetworkPolicy limits other pods": (
        {"network_policies": (create_network_policy({"app": "other"}),)},
        {"callers": WARN},
    ),
    "a NetworkPolicy limits what the gate may call": (
        {"network_policies": (create_network_policy(types=("Egress",)),)},
        {"callers": WARN},
    ),
    "a NetworkPolicy accepts the port of reviews from every address": (
        {"network_policies": (create_network_policy(rule={"from": []}),)},
        {"callers": WARN},
    ),
    "one of two NetworkPolicies accepts every port from every address": (
        {"network_policies": (create_network_policy(), create_network_policy(rule={"from": [], "ports": []}))},
        {"callers": WARN},
    ),
    "an argument for client certificates is empty": (
        {"network_policies": (), "deployment": deployment(arguments=(*ARGUMENTS, "--client-ca-file="))},
        {"callers": WARN},
    ),
    "client certificates are verified": (
        {"network_policies": (), "deployment": deployment(arguments=(*ARGUMENTS, "--client-ca-file=/ca.crt"))},
        {},
    ),
    "reviews need a token, and NetworkPolicies cannot be listed": (
        {"network_policies": UNAVAILABLE, "deployment": deployment(arguments=(*ARGUMENTS, "--token-file=/token"))},
        {},
    ),
    "no budget": ({"disruption_budgets": ()}, {"failure-policy": WARN}),
    "a budget for other pods": ({"disruption_budgets": (budget(labels={"app": "other"}),)}, {"failure-policy": WARN}),
    "a budget that allows no disruption": ({"disruption_budgets": (budget(0),)}, {"failure-policy": WARN}),
    "budgets cannot be read": ({"disruption_budgets": UNAVAILABLE}, {"failure-policy": UNKNOWN}),
    "kube-system waits for the gate": (change_webhook("validate", VALIDATE, namespaceSelector={}), {"exempt": FAIL}),
    "changes in kube-system wait for the gate": (
        change_webhook("validate", CHANGES, namespaceSelector={}),
        {"exempt": FAIL},
    ),
    "the gate's own namespace waits for it": (
        change_webhook(
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
    "nodes wait for the gate": (change_webhook("validate", NODES, failurePolicy="Fail"), {"lockout": FAIL}),
    "every request waits for the gate": (
        change_webhook(
            "validate",
            VALIDATE,
            rules=[{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
        ),
        {"lockout": FAIL},
    ),
    "a namespace is excluded": (
        change_webhook(
            "validate", VALIDATE, namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}
        ),
        {"excluded-namespaces": WARN},
    ),
    "changes in a namespace are excluded": (
        change_webhook(
            "validate", CHANGES, namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}
        ),
        {"excluded-namespaces": WARN},
    ),
    "namespaces cannot be listed": (
        {"namespaces": UNAVAILABLE},
        {"excluded-namespaces": UNKNOWN, "limit-annotations": UNKNOWN},
    ),
}
