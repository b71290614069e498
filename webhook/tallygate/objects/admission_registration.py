"""Typed records of webhook configurations, as they are read from an API server and written to one.

The types follow k8s.io/api admissionregistration/v1, v1.36. A field that is missing has the value that an API server
fills in (k8s.io/kubernetes pkg/apis/admissionregistration/v1/defaults.go), so that what is written equals what is
stored. Fields that this version does not know are not read.
"""

from typing import Any, Final

import msgspec

from tallygate.objects.meta import LabelSelector, ObjectMeta


class WebhookRule(msgspec.Struct, rename="camel", frozen=True):
    """The requests that a webhook is called for (RuleWithOperations)."""

    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    scope: str = "*"


class ServiceReference(msgspec.Struct, rename="camel", frozen=True):
    """A reference to a Service of the cluster, with the URL path."""

    namespace: str
    name: str
    port: int = 443
    path: str = ""


class WebhookClientConfig(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """The address of a webhook and the CA bundle (PEM) for its certificate; an empty bundle means the system's CAs."""

    url: str | None = None
    service: ServiceReference | None = None
    ca_bundle: bytes = b""


class MatchCondition(msgspec.Struct, rename="camel", frozen=True):
    """A CEL expression; the webhook is called only if it is true."""

    name: str = ""
    expression: str = ""


class Webhook(msgspec.Struct, rename="camel", frozen=True):
    """One webhook of a mutating or validating configuration; only a mutating one has a `reinvocation_policy`."""

    name: str
    client_config: WebhookClientConfig = WebhookClientConfig()
    failure_policy: str = "Fail"
    namespace_selector: LabelSelector = LabelSelector()
    object_selector: LabelSelector = LabelSelector()
    match_conditions: tuple[MatchCondition, ...] = ()
    rules: tuple[WebhookRule, ...] = ()
    match_policy: str = "Equivalent"
    side_effects: str = ""
    timeout_seconds: int = 10
    admission_review_versions: tuple[str, ...] = ()
    reinvocation_policy: str = "Never"


class WebhookConfiguration(msgspec.Struct, rename="camel", frozen=True):
    """A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration; in a list its `kind` is empty."""

    metadata: ObjectMeta
    webhooks: tuple[Webhook, ...] = ()
    kind: str = ""

    @property
    def name(self) -> str:
        return self.metadata.name or ""


_OMITTED: Final = {"namespaceSelector": {}, "objectSelector": {}, "matchConditions": [], "reinvocationPolicy": "Never"}


def encode_webhook(webhook: Webhook) -> dict[str, Any]:
    """Return a webhook as JSON values, without selectors and conditions that exclude nothing."""
    content = msgspec.json.decode(msgspec.json.encode(webhook))
    return {name: value for name, value in content.items() if name not in _OMITTED or value != _OMITTED[name]}


class NamedExpression(msgspec.Struct, rename="camel", frozen=True):
    """A variable or match condition of a ValidatingAdmissionPolicy: a CEL expression with a name."""

    name: str
    expression: str


class Validation(msgspec.Struct, rename="camel", frozen=True):
    """One validation: a request is denied if the `expression` is false, with the text of the message expression."""

    expression: str
    message: str = ""
    message_expression: str = ""
    reason: str = "Invalid"


class MatchResources(msgspec.Struct, rename="camel", frozen=True):
    """The requests that a policy or binding is about."""

    namespace_selector: LabelSelector = LabelSelector()
    object_selector: LabelSelector = LabelSelector()
    resource_rules: tuple[WebhookRule, ...] = ()
    match_policy: str = "Equivalent"


class PolicySpec(msgspec.Struct, rename="camel", frozen=True):
    """`spec` of a ValidatingAdmissionPolicy."""

    match_constraints: MatchResources
    variables: tuple[NamedExpression, ...]
    validations: tuple[Validation, ...]
    match_conditions: tuple[NamedExpression, ...] = ()
    failure_policy: str = "Fail"


class BindingSpec(msgspec.Struct, rename="camel", frozen=True):
    """`spec` of a ValidatingAdmissionPolicyBinding."""

    policy_name: str
    validation_actions: tuple[str, ...]
    match_resources: MatchResources = MatchResources()
