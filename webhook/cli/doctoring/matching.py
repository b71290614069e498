"""Which requests an API server asks a webhook about.

As in apiserver pkg/admission/plugin/webhook/predicates (rules, namespace), v1.36.
"""

from typing import NamedTuple

from webhook.accounting.selectors import MATCH_EVERYTHING, Selector, SelectorError, parse_selector
from webhook.cli.doctoring.records import Configuration, Rule, Space, Webhook
from webhook.objects.meta import LabelSelector

NAME_LABEL = "kubernetes.io/metadata.name"
_ANY = "*"


class Request(NamedTuple):
    """A kind of request: `resource` with its subresource, as `pods/resize`; `scope` is Namespaced or Cluster."""

    group: str
    resource: str
    operation: str
    scope: str

    def __str__(self) -> str:
        """As somebody would say it."""
        return f"{self.operation} {self.resource}{f'.{self.group}' if self.group else ''}"


NEW_POD = Request("", "pods", "CREATE", "Namespaced")
CHANGED_POD = Request("", "pods", "UPDATE", "Namespaced")


def asks(webhook: Webhook, request: Request) -> bool:
    """Whether one of its rules speaks of such a request, in version v1."""
    return any(_speaks(rule, request) for rule in webhook.rules)


def judges_pods(webhook: Webhook) -> bool:
    """Whether it is asked about new pods or changed ones; the gate registers a webhook for each."""
    return asks(webhook, NEW_POD) or asks(webhook, CHANGED_POD)


def covers(configuration: Configuration, request: Request) -> bool:
    """Whether one of its webhooks is asked."""
    return any(asks(webhook, request) for webhook in configuration.webhooks)


def selects(webhook: Webhook, space: Space) -> bool:
    """Whether it is asked about objects of this namespace. A selector that is none selects all: so it is stored."""
    return _selector(webhook.namespace_selector).matches({NAME_LABEL: space.name, **space.labels})


def restricts(selector: LabelSelector | None) -> bool:
    """Whether a selector leaves anything out."""
    return not _selector(selector).is_empty


def requests(rule: Rule) -> tuple[Request, ...]:
    """Every kind of request that a rule names, which has no `*`."""
    return tuple(
        Request(group, resource, operation, rule.scope)
        for group in rule.api_groups
        for resource in rule.resources
        for operation in rule.operations
    )


def _selector(written: LabelSelector | None) -> Selector:
    if written is None:
        return MATCH_EVERYTHING
    try:
        return parse_selector(written)
    except SelectorError:
        return MATCH_EVERYTHING  # no API server stores one


def _speaks(rule: Rule, request: Request) -> bool:
    return (
        rule.scope in {_ANY, request.scope}
        and _has(rule.operations, request.operation)
        and _has(rule.api_groups, request.group)
        and _has(rule.api_versions, "v1")
        and any(_is(named, request.resource) for named in rule.resources)
    )


def _has(named: tuple[str, ...], wanted: str) -> bool:
    return _ANY in named or wanted in named


def _is(named: str, wanted: str) -> bool:
    """A `*` in front of the slash is any resource, one behind it any subresource, or none."""
    resource, _, part = named.partition("/")
    wanted_resource, _, wanted_part = wanted.partition("/")
    return resource in {_ANY, wanted_resource} and part in {_ANY, wanted_part}
