"""Matching of requests and webhooks, and the expected webhook configurations.

The matching follows apiserver pkg/admission/plugin/webhook/predicates (rules, namespace), v1.36.

The function that creates the registration also creates the expected configurations, so that both stay equal.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tallygate.accounting.selectors import MATCH_EVERYTHING, Selector, SelectorError, parse_selector
from tallygate.admission.match_conditions import MatchConditions
from tallygate.admission.webhook_configuration import ServiceTarget, create_webhook_configurations, is_for_labels
from tallygate.admission.workload_resources import WorkloadResource, read_registered, select_resources
from tallygate.cli.doctor.api_types import LabelledNamespace
from tallygate.cli.doctor.facts import MUTATING, VALIDATING, GateLocation
from tallygate.objects.admission_registration import Webhook, WebhookConfiguration, WebhookRule, encode_webhook
from tallygate.objects.meta import LabelSelector
from tallygate.policy.workload_kinds import WorkloadKind

NAME_LABEL = "kubernetes.io/metadata.name"
_ANY = "*"


class RequestKind(NamedTuple):
    """A kind of request; `resource` includes the subresource (`pods/resize`), `scope` is Namespaced or Cluster."""

    group: str
    resource: str
    operation: str
    scope: str
    version: str = "v1"

    def __str__(self) -> str:
        """Return the kind as text, for example `CREATE pods`."""
        return f"{self.operation} {self.resource}{f'.{self.group}' if self.group else ''}"


CREATE_POD = RequestKind("", "pods", "CREATE", "Namespaced")
UPDATE_POD = RequestKind("", "pods", "UPDATE", "Namespaced")


def is_called_for(webhook: Webhook, request: RequestKind) -> bool:
    """Return whether a rule of the webhook matches such a request in its version."""
    return any(_is_rule_for(rule, request) for rule in webhook.rules)


def is_called_for_pods(webhook: Webhook) -> bool:
    """Return whether the webhook is called for creates or updates of pods; the gate registers a webhook for each."""
    return is_called_for(webhook, CREATE_POD) or is_called_for(webhook, UPDATE_POD)


def list_pod_webhooks(configuration: WebhookConfiguration) -> tuple[Webhook, ...]:
    """Return the webhooks for pods, but for those beside them that select namespaces by their labels."""
    return tuple(
        webhook for webhook in configuration.webhooks if is_called_for_pods(webhook) and not is_for_labels(webhook)
    )


def has_webhook_for(configuration: WebhookConfiguration, request: RequestKind) -> bool:
    """Return whether a webhook of the configuration is called for such a request, whatever labels its namespace has."""
    return any(is_called_for(webhook, request) and not is_for_labels(webhook) for webhook in configuration.webhooks)


def is_namespace_selected(webhook: Webhook, namespace: LabelledNamespace) -> bool:
    """Return whether the webhook is called for objects of this namespace.

    An invalid selector matches every namespace.
    """
    return _create_selector(webhook.namespace_selector).matches({NAME_LABEL: namespace.name, **namespace.labels})


def is_restrictive(selector: LabelSelector) -> bool:
    """Return whether a selector excludes any object."""
    return not _create_selector(selector).is_empty


def list_request_kinds(rule: WebhookRule) -> tuple[RequestKind, ...]:
    """Return every kind of request that a rule without `*` matches."""
    return tuple(
        RequestKind(group, resource, operation, rule.scope, version)
        for group in rule.api_groups
        for version in rule.api_versions
        for resource in rule.resources
        for operation in rule.operations
    )


def _create_selector(label_selector: LabelSelector) -> Selector:
    try:
        return parse_selector(label_selector)
    except SelectorError:
        return MATCH_EVERYTHING  # an API server stores no invalid selector


def _is_rule_for(rule: WebhookRule, request: RequestKind) -> bool:
    return (
        rule.scope in {_ANY, request.scope}
        and _is_listed(rule.operations, request.operation)
        and _is_listed(rule.api_groups, request.group)
        and _is_listed(rule.api_versions, request.version)
        and any(_is_resource_match(pattern, request.resource) for pattern in rule.resources)
    )


def _is_listed(patterns: tuple[str, ...], value: str) -> bool:
    return _ANY in patterns or value in patterns


def _is_resource_match(pattern: str, requested: str) -> bool:
    """Return whether a rule's pattern matches a resource.

    A `*` before the slash matches any resource. A `*` after it matches any subresource or none.
    """
    resource, _, subresource = pattern.partition("/")
    requested_resource, _, requested_subresource = requested.partition("/")
    return resource in {_ANY, requested_resource} and subresource in {_ANY, requested_subresource}


def list_registered_resources(
    configuration: WebhookConfiguration, kinds: Iterable[WorkloadKind]
) -> tuple[WorkloadResource, ...]:
    """Return the resources of other projects that a configuration names; none if one of them is not of these kinds."""
    registered = read_registered(configuration)
    resources = select_resources(kinds, registered)
    return resources if len(resources) == len({(group, plural) for group, _, plural in registered}) else ()


class ExpectedConfigurations:
    """The two webhook configurations of a gate as `tallygate` registers them."""

    def __init__(
        self,
        location: GateLocation,
        workload_resources: Sequence[WorkloadResource] = (),
        *,
        conditions: MatchConditions | None = None,
    ) -> None:
        configurations = create_webhook_configurations(
            ServiceTarget(),
            own_namespace=location.namespace,
            workload_resources=workload_resources,
            conditions=conditions,
        )
        self._configurations = dict(zip((MUTATING, VALIDATING), configurations, strict=True))

    def get_configuration(self, kind: str) -> WebhookConfiguration:
        """Return the expected configuration of one kind."""
        return self._configurations[kind]

    def find_webhook(self, kind: str, name: str) -> Webhook | None:
        """Return a webhook of a configuration; None if no webhook has this name."""
        return next((webhook for webhook in self.get_configuration(kind).webhooks if webhook.name == name), None)

    def get_field(self, kind: str, name: str, field_name: str) -> Any:
        """Return the JSON value of a field of a webhook; None if it is missing."""
        webhook = self.find_webhook(kind, name)
        return encode_webhook(webhook).get(field_name) if webhook else None
