"""Cases of invalid webhook configurations, and of a gate that the API server cannot call."""

import msgspec

from tallygate.cli.doctor.facts import DryRun
from tallygate.policy.model import PolicySet
from tests.admission.case import parse_policies
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
    create_other_configuration,
    create_unregistered,
)
from tests.cli.doctor.healthy_gate import create_conditioned, create_registration, webhook

_REGISTRATION_CHECKS = (
    "rules",
    "conditions",
    "asked",
    "timeouts",
    "reinvocation",
    "reachable",
    "trusted",
    "failure-policy",
    "exempt",
    "lockout",
    "excluded-namespaces",
    "workload-kinds",
)

_IMPLIED = """
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {name: one-address-each}
spec: {resource: example.com/ip}
"""

_LABELLED = """
apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gold}
spec: {namespaces: {selector: {matchLabels: {tier: gold}}}, hard: {pods: 4}}
"""

CASES: Cases = {
    "the validating configuration is missing": (
        {"validating": None},
        {"registered": FAIL, "excluded-namespaces": UNKNOWN},
    ),
    "both configurations are missing": (
        {"mutating": None, "validating": None},
        {"registered": FAIL} | dict.fromkeys(_REGISTRATION_CHECKS, UNKNOWN),
    ),
    "the gate has not registered itself yet": (
        {kind: create_unregistered() for kind in ("mutating", "validating")},
        {"registered": FAIL} | dict.fromkeys(_REGISTRATION_CHECKS, UNKNOWN),
    ),
    "the mutating configuration is missing": ({"mutating": None}, {"registered": FAIL, "reinvocation": UNKNOWN}),
    "a configuration has no rule for pods": (
        change_webhook("validate", VALIDATE, rules=[]),
        {"registered": FAIL, "rules": FAIL, "excluded-namespaces": WARN},
    ),
    "resize is not sent": (
        change_webhook(
            "validate",
            CHANGES,
            rules=[
                rule | {"resources": [each for each in rule["resources"] if each != "pods/resize"]}
                for rule in webhook(
                    {"webhooks": msgspec.to_builtins(create_registration()["validating"].webhooks)}, CHANGES
                )["rules"]
            ],
        ),
        {"rules": FAIL},
    ),
    "an older version without a webhook for updates created it": (
        create_registration(lambda _, validating: validating["webhooks"].remove(webhook(validating, CHANGES))),
        {"rules": FAIL, "excluded-namespaces": WARN},
    ),
    "an object selector decides": (
        change_webhook("mutate", MUTATE, objectSelector={"matchLabels": {"judge": "me"}}),
        {"conditions": FAIL},
    ),
    "an exact version only": (
        change_webhook("validate", VALIDATE, matchPolicy="Exact"),
        {"conditions": WARN},
    ),
    "a policy implies requests, and the mutating phase does not see every new pod": (
        {"policies": parse_policies(_IMPLIED)},
        {"conditions": WARN},
    ),
    "a policy implies requests, and the mutating phase sees every new pod": (
        {
            "policies": parse_policies(_IMPLIED),
            **create_registration(lambda mutating, _: webhook(mutating, MUTATE).pop("matchConditions")),
        },
        {},
    ),
    "the gate is asked about its policies": (
        {"policies": parse_policies(_IMPLIED), **create_conditioned(parse_policies(_IMPLIED))},
        {},
    ),
    "the gate is asked about caps in namespaces with some labels": (
        {"policies": parse_policies(_LABELLED), **create_conditioned(parse_policies(_LABELLED))},
        {},
    ),
    "the gate is not asked about a policy yet": (
        {"policies": parse_policies(_IMPLIED), **create_conditioned(PolicySet())},
        {"asked": WARN},
    ),
    "the policies of a conditioned registration cannot be read": (
        {"policies": UNAVAILABLE, **create_conditioned(PolicySet())},
        {"asked": UNKNOWN, "workload-kinds": UNKNOWN},
    ),
    "a condition of a policy in a registration that the gate does not write": (
        change_webhook("validate", VALIDATE, matchConditions=[{"name": "a-policy-may-decide", "expression": "1 == 2"}]),
        {"conditions": WARN},
    ),
    "an unknown match condition": (
        change_webhook("validate", VALIDATE, matchConditions=[{"name": "mine", "expression": "false"}]),
        {"conditions": WARN},
    ),
    "a timeout of a second": (change_webhook("validate", VALIDATE, timeoutSeconds=1), {"timeouts": WARN}),
    "a timeout of half a minute": (change_webhook("mutate", MUTATE, timeoutSeconds=30), {"timeouts": WARN}),
    "another webhook mutates later and reinvocation is off": (
        change_webhook("mutate", MUTATE, reinvocationPolicy="Never")
        | {"other_configurations": (create_other_configuration("zz"),)},
        {"reinvocation": WARN},
    ),
    "other configurations cannot be read": ({"other_configurations": UNAVAILABLE}, {"reinvocation": UNKNOWN}),
    "the API server cannot call": (
        {"dry_runs": (DryRun("p", "default", 500, f'failed calling webhook "{VALIDATE}": no endpoints'),)},
        {"reachable": FAIL},
    ),
    "another webhook rejects": (
        {"dry_runs": (DryRun("p", "default", 403, 'admission webhook "other.example.com" denied the request'),)},
        {"reachable": UNKNOWN},
    ),
    "a pod that no policy concerns is accepted": (
        {
            "policies": parse_policies(_IMPLIED),
            **create_conditioned(parse_policies(_IMPLIED)),
            "dry_runs": (DryRun("p", "default", 201, ""),),
        },
        {"reachable": UNKNOWN},
    ),
    "the user may not create pods": ({"dry_runs": UNAVAILABLE}, {"reachable": UNKNOWN}),
}
