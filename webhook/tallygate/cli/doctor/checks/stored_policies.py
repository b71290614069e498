"""The check of the ConfigMaps with policies: what is stored is what a gate loads, and is checked when it is applied."""

from collections.abc import Iterator
from typing import Final

from tallygate.admission.webhook_configuration import POLICIES_WEBHOOK
from tallygate.cli.doctor import check_result
from tallygate.cli.doctor.facts import GateFacts, StoredPolicies, Unavailable
from tallygate.objects.admission_registration import WebhookConfiguration
from tallygate.policy.lint_findings import Severity
from tallygate.policy.policy_config_maps import LABEL_VALUE, POLICIES_LABEL

REFRESH_SECONDS: Final = 180.0
"""The seconds after which a volume should have a changed ConfigMap.

The kubelet looks every minute (syncFrequency), and its cache may be a minute old (pkg/kubelet/apis/config/v1beta1,
v1.36).
"""


@check_result.check(
    "stored-policies",
    "The ConfigMaps with policies are valid, and the gate loads them",
    "FAIL: lint finds errors, and the gate keeps an earlier set; WARN: one has the label and is not mounted, or is "
    "mounted without it, the API server does not ask about them, or a replica has others for more than "
    f"{REFRESH_SECONDS / 60:.0f} minutes",
)
def check_stored_policies(facts: GateFacts) -> check_result.CheckResult:
    stored = facts.stored_policies
    if facts.is_called_by_url:
        return check_result.create_pass("the gate is called by URL: its policies are files where it runs")
    if isinstance(stored, Unavailable):
        return check_result.create_unknown(f"the policies cannot be read: {stored.reason}")
    results = [
        *_check_findings(facts, stored),
        *_check_labels(facts, stored),
        *_check_webhook(facts),
        *_check_replicas(facts, stored),
    ]
    names = check_result.format_names([config_map.name for config_map in stored.config_maps])
    return check_result.combine_results(results, check_result.create_pass(f"mounted and valid: {names}"))


def _check_findings(facts: GateFacts, stored: StoredPolicies) -> Iterator[check_result.CheckResult]:
    errors = [finding for finding in stored.parsed.findings if finding.severity is Severity.ERROR]
    if errors:
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        yield check_result.create_failure(
            f"no gate loads what is stored: {errors[0]}{more}",
            *(
                check_result.format_namespaced_kubectl(
                    facts.location, "get", "configmap", config_map.name, "--output=yaml"
                )
                for config_map in stored.config_maps
            ),
        )


def _check_labels(facts: GateFacts, stored: StoredPolicies) -> Iterator[check_result.CheckResult]:
    for config_map in stored.config_maps:
        if not config_map.is_labelled:
            yield check_result.create_warning(
                f"the ConfigMap {config_map.name} is not checked when it is applied: it has no label {POLICIES_LABEL}",
                check_result.format_namespaced_kubectl(
                    facts.location, "label", "configmap", config_map.name, f"{POLICIES_LABEL}={LABEL_VALUE}"
                ),
            )
    mounted = {config_map.name for config_map in stored.config_maps}
    labelled = () if isinstance(facts.labelled_config_maps, Unavailable) else facts.labelled_config_maps
    unmounted = sorted(set(labelled) - mounted)
    if unmounted:
        yield check_result.create_warning(
            f"no gate loads {check_result.format_names(unmounted)}: the Deployment mounts "
            f"{check_result.format_names(sorted(mounted)) or 'no ConfigMap'} at the paths of --policies",
            check_result.format_namespaced_kubectl(facts.location, "get", "deployment/tallygate", "--output=yaml"),
        )


def _check_webhook(facts: GateFacts) -> Iterator[check_result.CheckResult]:
    configuration = facts.validating
    if facts.registration_problem or not isinstance(configuration, WebhookConfiguration):
        return  # the check `registered` reports it
    if all(webhook.name != POLICIES_WEBHOOK for webhook in configuration.webhooks):
        yield check_result.create_warning(
            f"the API server does not ask about ConfigMaps: there is no webhook {POLICIES_WEBHOOK}",
            check_result.format_kubectl(facts.location, "apply", "-k", "deploy/kustomize/mine"),
        )


def _check_replicas(facts: GateFacts, stored: StoredPolicies) -> Iterator[check_result.CheckResult]:
    """Compare the active sets with the stored one, when each volume should have it."""
    times = [config_map.changed_at for config_map in stored.config_maps]
    known = [time for time in times if time is not None]
    if not stored.parsed.is_usable or len(known) < len(times) or isinstance(facts.replicas, Unavailable) or not known:
        return
    age = (facts.now - max(known)).total_seconds()
    if age <= REFRESH_SECONDS:
        return
    digests = {replica.name: (replica.find_check("policies") or {}).get("digest") for replica in facts.replicas}
    old = sorted(name for name, digest in digests.items() if digest and digest != stored.parsed.policies.digest)
    if old:
        yield check_result.create_warning(
            f"{check_result.format_names(old)} has other policies than the ConfigMaps, which are as they are for "
            f"{age / 60:.0f} minutes: the kubelet has not refreshed the volume",
            check_result.format_namespaced_kubectl(facts.location, "describe", "pods", *old[:1]),
        )
