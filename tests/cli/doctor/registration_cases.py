"""What may be wrong with the registration, and with the way to the gate."""

import msgspec

from tests.cli.doctor.changes import CHANGES, FAIL, MUTATE, UNKNOWN, UNSEEN, VALIDATE, WARN, Cases, changed, later
from tests.cli.doctor.world import registered, webhook
from webhook.cli.doctor.facts import DryRun

_OF_THE_REGISTRATION = (
    "rules",
    "conditions",
    "timeouts",
    "reinvocation",
    "reachable",
    "trusted",
    "failure-policy",
    "exempt",
    "lockout",
    "excluded-namespaces",
)

CASES: Cases = {
    "the validating configuration is missing": (
        {"validating": None},
        {"registered": FAIL, "excluded-namespaces": UNKNOWN},
    ),
    "it was taken out of the way": (
        {"mutating": None, "validating": None},
        {"registered": FAIL} | dict.fromkeys(_OF_THE_REGISTRATION, UNKNOWN),
    ),
    "the mutating configuration is missing": ({"mutating": None}, {"registered": FAIL, "reinvocation": UNKNOWN}),
    "a configuration speaks of no pods": (
        changed("validate", VALIDATE, rules=[]),
        {"registered": FAIL, "rules": FAIL, "excluded-namespaces": WARN},
    ),
    "resize is not sent": (
        changed(
            "validate",
            CHANGES,
            rules=[
                rule | {"resources": [each for each in rule["resources"] if each != "pods/resize"]}
                for rule in webhook({"webhooks": msgspec.to_builtins(registered()["validating"].webhooks)}, CHANGES)[
                    "rules"
                ]
            ],
        ),
        {"rules": FAIL},
    ),
    "it was registered by a version that knew no webhook for updates": (
        registered(lambda _, validating: validating["webhooks"].remove(webhook(validating, CHANGES))),
        {"rules": FAIL, "excluded-namespaces": WARN},
    ),
    "labels of an object decide": (
        changed("mutate", MUTATE, objectSelector={"matchLabels": {"judge": "me"}}),
        {"conditions": FAIL},
    ),
    "an exact version only": (changed("validate", VALIDATE, matchPolicy="Exact"), {"conditions": WARN}),
    "a strange condition": (
        changed("validate", VALIDATE, matchConditions=[{"name": "mine", "expression": "false"}]),
        {"conditions": WARN},
    ),
    "a timeout of a second": (changed("validate", VALIDATE, timeoutSeconds=1), {"timeouts": WARN}),
    "a timeout of half a minute": (changed("mutate", MUTATE, timeoutSeconds=30), {"timeouts": WARN}),
    "somebody mutates after us and we never look again": (
        changed("mutate", MUTATE, reinvocationPolicy="Never") | {"other_configurations": (later("zz"),)},
        {"reinvocation": WARN},
    ),
    "other configurations cannot be read": ({"other_configurations": UNSEEN}, {"reinvocation": UNKNOWN}),
    "the API server cannot call": (
        {"dry_runs": (DryRun("p", "default", 500, f'failed calling webhook "{VALIDATE}": no endpoints'),)},
        {"reachable": FAIL},
    ),
    "somebody else refuses": (
        {"dry_runs": (DryRun("p", "default", 403, 'admission webhook "other.example.com" denied the request'),)},
        {"reachable": UNKNOWN},
    ),
    "we may not create pods": ({"dry_runs": UNSEEN}, {"reachable": UNKNOWN}),
}
