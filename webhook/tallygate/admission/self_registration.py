"""The registration by the gate itself: it completes the webhook configurations that an administrator has left to it.

An installation creates both configurations without webhooks, so that the API server calls no gate yet, and with the
annotation `REGISTRATION_ANNOTATION`. Further annotations are the administrator's choices. The functions are pure: from
a stored configuration they return the one to store.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.webhook_configuration import (
    ServiceTarget,
    UrlTarget,
    WebhookTarget,
    create_webhook_configurations,
    get_base_name,
    widen_webhooks,
)
from tallygate.admission.workload_resources import WorkloadResource
from tallygate.errors import TallygateError
from tallygate.objects.admission_registration import Webhook, WebhookConfiguration
from tallygate.objects.meta import StringMap

REGISTRATION_ANNOTATION: Final = "tallygate.dev/registration"
"""The annotation that leaves a configuration to the gate; its value is `BY_GATE`."""

BY_GATE: Final = "gate"

FAILURE_POLICY_ANNOTATION: Final = "tallygate.dev/failure-policy"
"""The annotation with the failure policy: `Fail` (the default) or `Ignore`."""

EXEMPT_ANNOTATION: Final = "tallygate.dev/exempt-namespaces"
"""The annotation with namespaces to exclude besides kube-system and the gate's own, with commas or spaces between."""

URL_ANNOTATION: Final = "tallygate.dev/url"
"""The annotation with the address of a gate outside the cluster, `https://HOST:PORT`, in place of its Service."""

ASKED_ANNOTATION: Final = "tallygate.dev/asked-policies"
"""The annotation by which the gate lists the policies that its match conditions cover, by their digests."""

EVERYTHING: Final = "*"
"""What stands in place of the digests if a configuration asks about everything."""

_ASKED = re.compile(r"(?<![^,])([0-9a-f]{1,64}):([0-9]{1,18})(?![^,])", re.ASCII)
_POLICIES = ("Fail", "Ignore")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_BASE_URL = re.compile(r"https://(?P<host>[-A-Za-z0-9.]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[1-9][0-9]{0,4})?")


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


def is_left_to_gate(configuration: WebhookConfiguration) -> bool:
    """Return whether a configuration has the annotation by which the gate completes it."""
    return _get_annotations(configuration).get(REGISTRATION_ANNOTATION) == BY_GATE


def parse_choices(configuration: WebhookConfiguration) -> RegistrationChoices:
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
    configuration: WebhookConfiguration,
    choices: RegistrationChoices,
    *,
    namespace: str,
    token: str,
    choose_bundle: Callable[[bytes], bytes],
    workload_resources: Sequence[WorkloadResource] = (),
    conditions: MatchConditions | None = None,
    keeps_stored: bool = False,
) -> tuple[Webhook, ...]:
    """Return the exact webhooks of a configuration; they are stored if they equal those that it has.

    `namespace` is the gate's own, and `choose_bundle` returns the CA bundle of a webhook from the stored one of the
    same name, b"" without one. `workload_resources` are the served ones of other projects, `conditions` those of the
    policies. If it `keeps_stored`, the webhooks are called for all that the stored ones are called for, too.
    """
    created = create_webhook_configurations(
        choices.get_target(namespace),
        failure_policy=choices.failure_policy,
        own_namespace=namespace,
        exempt_namespaces=choices.exempt_namespaces,
        token=token,
        workload_resources=workload_resources,
        conditions=conditions,
    )
    (webhooks,) = (expected.webhooks for expected in created if expected.kind == configuration.kind)
    bundles = {webhook.name: webhook.client_config.ca_bundle for webhook in configuration.webhooks}
    if keeps_stored:
        webhooks = tuple(widen_webhooks(webhooks, configuration.webhooks))
    completed = []
    for webhook in webhooks:
        stored_bundle = bundles.get(webhook.name) or bundles.get(get_base_name(webhook.name)) or b""
        client_config = replace(webhook.client_config, ca_bundle=choose_bundle(stored_bundle))
        completed.append(replace(webhook, client_config=client_config))
    return tuple(completed)


def read_asked(configuration: WebhookConfiguration) -> Mapping[str, int]:
    """Return the digests of the policies that the conditions of a configuration cover, with their numbers (rule 14).

    One without webhooks asks about nothing, whatever its annotation lists: the gate has not registered itself yet, or a
    user has removed the webhooks. Webhooks without the annotation ask about `EVERYTHING`. What is not as the gate
    writes it is left out.
    """
    if not configuration.webhooks:
        return {}
    listed = _get_annotations(configuration).get(ASKED_ANNOTATION)
    return {EVERYTHING: 0} if listed is None else {found[1]: int(found[2]) for found in _ASKED.finditer(listed)}


def combine_asked(configurations: Iterable[WebhookConfiguration]) -> Mapping[str, int]:
    """Return the digests of the policies that all configurations ask about, as `read_asked` does for one.

    Each has the sum of its numbers, which is another one if the number in one of the configurations is another one.
    Without configurations that is `EVERYTHING`.
    """
    listed = [asked for each in configurations if EVERYTHING not in (asked := read_asked(each))]
    if not listed:
        return {EVERYTHING: 0}
    digests = frozenset.intersection(*map(frozenset, listed))
    return {digest: sum(asked[digest] for asked in listed) for digest in digests}


def format_asked(numbers: Mapping[str, int]) -> str:
    """Return the value of the annotation with these digests and their numbers."""
    return ",".join(f"{digest}:{number}" for digest, number in sorted(numbers.items()))


def _get_annotations(configuration: WebhookConfiguration) -> StringMap:
    return configuration.metadata.annotations or {}


def _create_error(configuration: WebhookConfiguration, annotation: str, remedy: str) -> RegistrationError:
    text = _get_annotations(configuration)[annotation][:80]
    return RegistrationError(
        f"the annotation {annotation} of the {configuration.kind} has the value {text!r}: {remedy}"
    )
