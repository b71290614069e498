"""The registration by the gate itself: it completes the webhook configurations that an administrator has left to it.

An installation creates both configurations without webhooks, so that the API server calls no gate yet, and with the
annotation `REGISTRATION_ANNOTATION`. Further annotations are the administrator's choices. The functions are pure: from
a stored configuration they return the one to store.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from tallygate.admission.webhook_configuration import (
    ServiceTarget,
    UrlTarget,
    WebhookTarget,
    create_webhook_configurations,
)
from tallygate.admission.workload_resources import WorkloadResource
from tallygate.errors import TallygateError

REGISTRATION_ANNOTATION: Final = "tallygate.dev/registration"
"""The annotation that leaves a configuration to the gate; its value is `BY_GATE`."""

BY_GATE: Final = "gate"

FAILURE_POLICY_ANNOTATION: Final = "tallygate.dev/failure-policy"
"""The annotation with the failure policy: `Fail` (the default) or `Ignore`."""

EXEMPT_ANNOTATION: Final = "tallygate.dev/exempt-namespaces"
"""The annotation with namespaces to exclude besides kube-system and the gate's own, with commas or spaces between."""

URL_ANNOTATION: Final = "tallygate.dev/url"
"""The annotation with the address of a gate outside the cluster, `https://HOST:PORT`, in place of its Service."""

_POLICIES = ("Fail", "Ignore")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_BASE_URL = re.compile(r"https://(?P<host>[-A-Za-z0-9.]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[1-9][0-9]{0,4})?")
_STORED_DEFAULTS: Final[Mapping[str, Any]] = {"namespaceSelector": {}, "objectSelector": {}, "matchConditions": None}
"""The fields that an API server adds to a webhook that lacks them (k8s.io/kubernetes, pkg/apis/admissionregistration/
v1/defaults.go, v1.36); the gate's webhooks have all others. Fields that this version does not know are not compared."""


class RegistrationError(TallygateError):
    """The configuration cannot be completed: an annotation is invalid, or no CA is known for a webhook."""


class RegistrationState(StrEnum):
    """The state of the registration, as the readiness check `registration` shows it."""

    COMPLETE = "complete"
    WAITING = "waiting"
    STANDBY = "standby"
    NOT_OURS = "not ours"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class RegistrationChoices:
    """The administrator's choices for one configuration; `url` is empty for a gate behind its Service."""

    failure_policy: str = "Fail"
    exempt_namespaces: tuple[str, ...] = ()
    url: str = ""

    def get_target(self, namespace: str) -> WebhookTarget:
        """Return the address of the gate, whose own namespace is `namespace`."""
        return UrlTarget(self.url) if self.url else ServiceTarget(namespace)

    def get_host(self, namespace: str) -> str:
        """Return the name for which the API server verifies the serving certificate.

        It calls a Service by `<service>.<namespace>.svc` (k8s.io/apiserver, pkg/util/webhook/client.go, v1.36).
        """
        target = ServiceTarget(namespace)
        parts = _BASE_URL.fullmatch(self.url)
        return parts["host"].strip("[]") if parts else f"{target.name}.{target.namespace}.svc"


def is_left_to_gate(configuration: Mapping[str, Any]) -> bool:
    """Return whether a configuration has the annotation by which the gate completes it."""
    return _get_annotations(configuration).get(REGISTRATION_ANNOTATION) == BY_GATE


def parse_choices(configuration: Mapping[str, Any]) -> RegistrationChoices:
    """Return the choices in the annotations of a configuration.

    Raises:
        RegistrationError: if an annotation is invalid.
    """
    annotations = _get_annotations(configuration)
    failure_policy = annotations.get(FAILURE_POLICY_ANNOTATION) or _POLICIES[0]
    if failure_policy not in _POLICIES:
        raise _create_error(configuration, FAILURE_POLICY_ANNOTATION, "write Fail or Ignore")
    exempt_namespaces = tuple(re.split(r"[\s,]+", annotations.get(EXEMPT_ANNOTATION, "").strip(", \n\t")))
    if exempt_namespaces == ("",):
        exempt_namespaces = ()
    if not all(map(_NAMESPACE.fullmatch, exempt_namespaces)):
        raise _create_error(configuration, EXEMPT_ANNOTATION, "write names of namespaces with commas between")
    url = annotations.get(URL_ANNOTATION, "")
    if url and not _BASE_URL.fullmatch(url):
        raise _create_error(configuration, URL_ANNOTATION, "write https://HOST:PORT, without a path")
    return RegistrationChoices(failure_policy, exempt_namespaces, url)


def create_webhooks(  # noqa: PLR0913  # each is a part of the registration
    configuration: Mapping[str, Any],
    choices: RegistrationChoices,
    *,
    namespace: str,
    token: str,
    choose_bundle: Callable[[str], str],
    workload_resources: Sequence[WorkloadResource] = (),
    implies_requests: bool = False,
) -> list[dict[str, Any]]:
    """Return the exact webhooks of a configuration.

    `namespace` is the gate's own, and `choose_bundle` returns the `caBundle` (base64) of a webhook from the stored one
    of the same name, "" without one. `workload_resources` are the served ones of other projects. If a policy
    `implies_requests`, the mutating phase has to see each new pod.
    """
    created = create_webhook_configurations(
        choices.get_target(namespace),
        failure_policy=choices.failure_policy,
        own_namespace=namespace,
        exempt_namespaces=choices.exempt_namespaces,
        token=token,
        workload_resources=workload_resources,
        implies_requests=implies_requests,
    )
    (webhooks,) = (each["webhooks"] for each in created if each["kind"] == configuration["kind"])
    stored_bundles = {
        webhook["name"]: webhook.get("clientConfig", {}).get("caBundle") or ""
        for webhook in configuration.get("webhooks") or ()
    }
    return [
        {
            **webhook,
            "clientConfig": {
                **webhook["clientConfig"],
                "caBundle": choose_bundle(stored_bundles.get(webhook["name"], "")),
            },
        }
        for webhook in webhooks
    ]


def are_stored(webhooks: Sequence[Mapping[str, Any]], configuration: Mapping[str, Any]) -> bool:
    """Return whether a stored configuration has exactly these webhooks, in this order."""
    stored = configuration.get("webhooks") or ()
    return len(stored) == len(webhooks) and all(map(_is_stored, webhooks, stored))


def _is_stored(webhook: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    return all(
        stored.get(name, default) == webhook.get(name, default) for name, default in _STORED_DEFAULTS.items()
    ) and (all(stored.get(name) == value for name, value in webhook.items()))


def _get_annotations(configuration: Mapping[str, Any]) -> Mapping[str, str]:
    return configuration.get("metadata", {}).get("annotations") or {}


def _create_error(configuration: Mapping[str, Any], annotation: str, remedy: str) -> RegistrationError:
    text = _get_annotations(configuration)[annotation][:80]
    return RegistrationError(
        f"the annotation {annotation} of the {configuration['kind']} has the value {text!r}: {remedy}"
    )
