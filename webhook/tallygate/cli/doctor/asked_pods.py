"""The share of a cluster's pods about which a registration would ask the gate if they were created again.

The match conditions of the webhooks decide, evaluated as an API server does (k8s.io/apiserver
pkg/admission/plugin/webhook/matchconditions, v1.36): so the answer is that of the stored registration, of
whatever author. Each policy alone is asked about what it has by the registration that the gate would make for it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tallygate.accounting.cel import cel_types
from tallygate.accounting.cel.evaluator import plan_program
from tallygate.accounting.cel.expression_parser import parse_expression
from tallygate.accounting.cel.loops import Run, Step
from tallygate.accounting.cel.runtime_values import CelMap, EvaluationError
from tallygate.accounting.cel.type_checker import check_types
from tallygate.admission.match_conditions import AskingPolicy, MatchConditions, list_policies
from tallygate.cli.doctor import facts, webhook_match
from tallygate.cli.doctor.api_types import LabelledNamespace
from tallygate.errors import TallygateError
from tallygate.objects.admission_registration import Webhook, WebhookConfiguration
from tallygate.policy.model import ImpliedRequest, NamespaceCap, PolicySet, ResourceRule

MAX_COST: Final = 1_000_000
"""The cost of one expression (PerCallLimit in k8s.io/apiserver pkg/apis/cel, v1.36)."""

_MAX_QUESTIONS: Final = 10_000  # about policies alone: five seconds
_VARIABLES: Final = ("object", "oldObject", "request")
_POD_REQUEST: Final = {"kind": {"group": "", "version": "v1", "kind": "Pod"}, "operation": "CREATE"}


@lru_cache(maxsize=1024)
def _compile(expression: str) -> tuple[Step, int]:
    root = parse_expression(expression)
    check_types(root, dict.fromkeys(_VARIABLES, cel_types.DYN), {})
    return plan_program(root, _VARIABLES)


def evaluate_condition(expression: str, request: Mapping[str, Any]) -> tuple[bool, int]:
    """Return whether a match condition is true for a request with its objects, and the cost of that.

    Raises:
        TallygateError: if the condition cannot be evaluated.
    """
    step, places = _compile(expression)
    variables = map(_convert, (request["object"], request.get("oldObject"), request))
    run = Run([*variables], places - len(_VARIABLES), MAX_COST)
    value = step(run)
    run.check()
    if not isinstance(value, bool):
        raise EvaluationError("a match condition is true or false")
    return value, run.cost


def _convert(content: object) -> object:
    """Return plain JSON as values of expressions."""
    if isinstance(content, dict):
        return CelMap({key: _convert(value) for key, value in content.items()}, is_published=True)
    return [_convert(item) for item in content] if isinstance(content, list) else content


class AskedShare(NamedTuple):
    """The number of `pods`, of those that would be `asked` about, and of these by each policy alone.

    `policies` has those that concern a pod, most first. They are counted in a part of the pods if `is_sampled`: there
    are very many policies and pods.
    """

    pods: int
    asked: int
    policies: Mapping[str, int]
    is_sampled: bool


def compute_share(
    gate: facts.GateFacts,
    configuration: WebhookConfiguration,
    groups: Sequence[facts.PodGroup],
    policies: PolicySet,
) -> AskedShare:
    """Return the share of the pods about which a validating configuration would ask, and the policies for it.

    A condition that cannot be evaluated is taken for true.
    """
    namespaces = () if isinstance(gate.namespaces, facts.Unavailable) else gate.namespaces
    by_name = {namespace.name: namespace for namespace in namespaces}

    def select(webhooks: Sequence[Webhook], candidates: Sequence[facts.PodGroup]) -> Iterator[facts.PodGroup]:
        for group in candidates:
            namespace = by_name.get(group.namespace) or LabelledNamespace(group.namespace, {})
            if any(_is_asked(webhook, namespace, group.content) for webhook in webhooks):
                yield group

    asked = list(select(_list_creating(configuration), groups))
    candidates = sorted(asked, key=lambda group: group.pods, reverse=True)
    asking = list_policies(policies)
    sample = candidates[: _MAX_QUESTIONS // len(asking)] if asking else []
    counts = Counter[str]()
    for policy in asking:
        expected = webhook_match.ExpectedConfigurations(
            gate.location, conditions=MatchConditions(_isolate(policies, policy))
        )
        webhooks = _list_creating(expected.get_configuration(facts.VALIDATING))
        counts[policy.name] += sum(group.pods for group in select(webhooks, sample))
    return AskedShare(
        sum(group.pods for group in groups),
        sum(group.pods for group in asked),
        {name: count for name, count in counts.most_common() if count},
        len(sample) < len(candidates),
    )


def _list_creating(configuration: WebhookConfiguration) -> list[Webhook]:
    return [
        webhook for webhook in configuration.webhooks if webhook_match.is_called_for(webhook, webhook_match.CREATE_POD)
    ]


def _is_asked(webhook: Webhook, namespace: LabelledNamespace, content: Mapping[str, Any]) -> bool:
    request = {**_POD_REQUEST, "namespace": namespace.name, "object": content}
    return webhook_match.is_namespace_selected(webhook, namespace) and all(
        _is_true(condition.expression, request) for condition in webhook.match_conditions
    )


def _is_true(expression: str, request: Mapping[str, Any]) -> bool:
    try:
        return evaluate_condition(expression, request)[0]
    except TallygateError:
        return True


def _isolate(policies: PolicySet, policy: AskingPolicy) -> PolicySet:
    """Return the set with one policy alone of those for which the gate is asked."""
    match policy:
        case ResourceRule():
            return replace(policies, rules=(policy,), caps=(), implied_requests=())
        case NamespaceCap():
            return replace(policies, rules=(), caps=(policy,), implied_requests=())
        case ImpliedRequest():
            return replace(policies, rules=(), caps=(), implied_requests=(policy,))
