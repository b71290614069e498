"""Cases of ConfigMaps with policies: their labels, their findings, and replicas that have others."""

from datetime import timedelta
from typing import Any

from tallygate.cli.doctor.facts import MountedConfigMap, StoredPolicies
from tallygate.policy.load import load_policies
from tests.cli.doctor.fact_changes import FAIL, UNAVAILABLE, UNKNOWN, WARN, Cases
from tests.cli.doctor.healthy_gate import NOW, create_registration, webhook
from tests.policy.files import rule_text

NAME = "tallygate-policies"
_GPUS = rule_text("gpus")


def store_policies(text: str = _GPUS, age_seconds: float = 0.0, *, is_labelled: bool = True) -> StoredPolicies:
    """Return one mounted ConfigMap with a file, which was changed `age_seconds` ago."""
    parsed = load_policies((), extra_files=[(f"configmap/{NAME}/a.yaml", text.encode())], are_extra_named=False)
    return StoredPolicies((MountedConfigMap(NAME, is_labelled, NOW - timedelta(seconds=age_seconds)),), parsed)


def remove_webhook() -> dict[str, Any]:
    """Return the registration of an earlier version, without the webhook of ConfigMaps."""
    name = "policies.validate.tallygate.dev"
    return create_registration(lambda _, validating: validating["webhooks"].remove(webhook(validating, name)))


CASES: Cases = {
    "the stored policies have an error": (
        {"stored_policies": store_policies(_GPUS.replace("resources", "resourses"), 1000)},
        {"stored-policies": FAIL},
    ),
    "the mounted ConfigMap has no label": (
        {"stored_policies": store_policies(is_labelled=False)},
        {"stored-policies": WARN},
    ),
    "a ConfigMap with the label is not mounted": (
        {"stored_policies": store_policies(), "labelled_config_maps": (NAME, "more-policies")},
        {"stored-policies": WARN},
    ),
    "the API server does not ask about ConfigMaps": (remove_webhook(), {"stored-policies": WARN}),
    "a volume is older than it may be": (
        {"stored_policies": store_policies(age_seconds=181)},
        {"stored-policies": WARN},
    ),
    "the stored policies cannot be read": ({"stored_policies": UNAVAILABLE}, {"stored-policies": UNKNOWN}),
}

VALID: tuple[dict[str, Any], ...] = (
    {"stored_policies": store_policies(age_seconds=179), "labelled_config_maps": (NAME,)},
    {"stored_policies": store_policies(), "labelled_config_maps": UNAVAILABLE},
    {"stored_policies": StoredPolicies((MountedConfigMap(NAME),), store_policies().parsed)},
)
"""A change that volumes may not have yet, no right to list, and a ConfigMap whose times are unknown."""
