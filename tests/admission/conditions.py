"""Match conditions and namespace selectors of webhooks, evaluated as an API server does.

The conditions are evaluated by this project's own CEL, which has no `format`: the text of an object is written here.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from tallygate.accounting.cel import cel_types
from tallygate.accounting.cel.evaluator import plan_program
from tallygate.accounting.cel.expression_parser import parse_expression
from tallygate.accounting.cel.loops import Run, Step
from tallygate.accounting.cel.runtime_values import CelMap
from tallygate.accounting.cel.type_checker import check_types
from tallygate.accounting.selectors import parse_selector
from tallygate.admission.webhook_configuration import is_policy_condition
from tallygate.objects.admission_registration import WebhookConfiguration, WebhookRule
from tallygate.objects.meta import LabelSelector

MAX_COST = 1_000_000
"""The cost of one expression (PerCallLimit in k8s.io/apiserver pkg/apis/cel, v1.36)."""

_VARIABLES = ("object", "oldObject", "request", "text")
_TEXT = re.compile(r"'%s'\.format\(\[\[(?P<fields>.*?)\]\]\)")
_FIELD = re.compile(r"(?P<object>object|oldObject)(?:\.\?(?P<name>\w+)|\[\?\"(?P<key>[^\"]+)\"\])\.orValue\(null\)")


@lru_cache(maxsize=1024)
def _compile(expression: str) -> tuple[Step, int]:
    root = parse_expression(expression)
    kind = check_types(root, dict.fromkeys(_VARIABLES, cel_types.DYN), {})
    assert kind in {cel_types.BOOL, cel_types.DYN}
    return plan_program(root, _VARIABLES)


def evaluate_condition(expression: str, request: Mapping[str, Any]) -> tuple[bool, int]:
    """Return whether a condition is true for a request, and its cost; a failure is an error of the test."""
    step, places = _compile(_TEXT.sub("text", expression))
    found = _TEXT.search(expression)
    text = _write_text(found["fields"], request) if found is not None else ""
    variables = map(_convert, (request["object"], request.get("oldObject"), request, text))
    run = Run([*variables], places - len(_VARIABLES), MAX_COST)
    value = step(run)
    run.check()
    assert type(value) is bool, value
    return value, run.cost


def _write_text(fields: str, request: Mapping[str, Any]) -> str:
    """Return the text of the fields of objects, as `format` of cel-go writes them in a list."""
    values = [
        (request.get(field["object"]) or {}).get(field["name"] or field["key"]) for field in _FIELD.finditer(fields)
    ]
    return _format_value(values)


def _format_value(value: object) -> str:
    if isinstance(value, dict):
        entries = sorted(f"{json.dumps(key, ensure_ascii=False)}:{_format_value(item)}" for key, item in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    return f"{value:.6f}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


class AskedWebhook(NamedTuple):
    """The selector of namespaces and the conditions of the policies of one webhook."""

    selector: Mapping[str, Any]
    conditions: Sequence[str]

    def is_called(self, request: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
        """Return whether an API server sends a request, whose namespace has these labels, if a rule matches it."""
        is_selected = parse_selector(msgspec.convert(self.selector, LabelSelector)).matches(labels)
        return (is_selected or not request.get("namespace")) and all(
            evaluate_condition(expression, request)[0] for expression in self.conditions
        )


def list_asked(configuration: WebhookConfiguration, request: Mapping[str, Any]) -> Iterator[AskedWebhook]:
    """Yield the webhooks with a rule for the kind and operation of a request, in a namespace or outside."""
    for webhook in configuration.webhooks:
        if any(_is_rule_for(rule, request) for rule in webhook.rules):
            conditions = msgspec.to_builtins(webhook.match_conditions)
            yield AskedWebhook(msgspec.to_builtins(webhook.namespace_selector), list_policy_conditions(conditions))


def list_policy_conditions(conditions: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the match conditions of the policies, without the webhook's own that is joined to one of them."""
    found = [condition["expression"] for condition in conditions if is_policy_condition(condition["name"])]
    return [expression.rpartition(" &&\n")[2] for expression in found]


def _is_rule_for(rule: WebhookRule, request: Mapping[str, Any]) -> bool:
    plural = "/".join(filter(None, (request["resource"], request.get("subResource", ""))))
    return (
        request["kind"]["group"] in rule.api_groups
        and plural in rule.resources
        and request["operation"] in rule.operations
        and (rule.scope == "Namespaced") == bool(request.get("namespace"))
    )


def _convert(content: object) -> object:
    """Return plain JSON as values of expressions."""
    if isinstance(content, dict):
        return CelMap({key: _convert(value) for key, value in content.items()}, is_published=True)
    return [_convert(item) for item in content] if isinstance(content, list) else content
