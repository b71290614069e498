"""Admission policies, evaluated as an API server does, by this project's own CEL.

All variables are evaluated, also those that no expression reads for an object.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from tallygate.accounting.cel import cel_types
from tallygate.accounting.cel.evaluator import plan_program
from tallygate.accounting.cel.expression_parser import parse_expression
from tallygate.accounting.cel.loops import Run, Step
from tallygate.accounting.cel.runtime_values import CelMap
from tallygate.accounting.cel.type_checker import check_types

MAX_COST = 1_000_000
"""The cost of one expression (PerCallLimit in k8s.io/apiserver pkg/apis/cel, v1.36)."""

_VARIABLES = ("object", "oldObject", "request", "namespaceObject", "variables")


@lru_cache(maxsize=4096)
def _compile(expression: str) -> tuple[Step, int]:
    root = parse_expression(expression)
    check_types(root, dict.fromkeys(_VARIABLES, cel_types.DYN), {})
    return plan_program(root, _VARIABLES)


def evaluate_policies(
    objects: Sequence[Mapping[str, Any]],
    namespace_labels: Mapping[str, str],
    request: Mapping[str, Any],
    costs: dict[str, int] | None = None,
) -> dict[str, str]:
    """Return the messages of the violated policies by name; an expression that fails is an error of the test.

    `costs` gets the cost of the variables of each policy.
    """
    messages: dict[str, str] = {}
    bindings = [content for content in objects if content["kind"] == "ValidatingAdmissionPolicyBinding"]
    if any(_excludes(binding["spec"], request["namespace"]) for binding in bindings):
        return messages
    for policy in objects:
        if policy["kind"] == "ValidatingAdmissionPolicy" and _matches(policy["spec"], request):
            run = _PolicyRun(namespace_labels, request)
            message = run.evaluate(policy["spec"])
            (costs if costs is not None else {})[policy["metadata"]["name"]] = run.cost
            if message:
                messages[policy["metadata"]["name"]] = message
    return messages


def list_sentences(messages: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the sentences of each message, sorted, since names of a list have no order; none of one that is cut."""
    return {name: [] if text.endswith("…") else sorted(text.split("; ")) for name, text in messages.items()}


def _matches(spec: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    resource = "/".join(filter(None, (request["resource"], request.get("subResource"))))
    return any(
        request["kind"]["group"] in rule["apiGroups"]
        and request["operation"] in rule["operations"]
        and resource in rule["resources"]
        for rule in spec["matchConstraints"]["resourceRules"]
    )


def _excludes(spec: Mapping[str, Any], namespace: str) -> bool:
    expressions = spec["matchResources"]["namespaceSelector"].get("matchExpressions", ())
    return any(namespace in each["values"] for each in expressions)


class _PolicyRun:
    """The evaluation of one policy for one request."""

    def __init__(self, namespace_labels: Mapping[str, str], request: Mapping[str, Any]) -> None:
        namespace = {"metadata": {"labels": dict(namespace_labels)}}
        objects = (request["object"], request.get("oldObject"), request, namespace)
        self._values = [*map(_convert, objects)]
        self._variables: dict[object, object] = {}
        self.cost = 0

    def evaluate(self, spec: Mapping[str, Any]) -> str:
        """Return the message of a policy, empty if it is not violated."""
        if not all(self._run(condition["expression"]) for condition in spec["matchConditions"]):
            return ""
        self.cost = 0
        for variable in spec["variables"]:
            self._variables[variable["name"]] = self._run(variable["expression"])
        (validation,) = spec["validations"]
        cost, is_valid = self.cost, self._run(validation["expression"])
        message = self._run(validation["messageExpression"])
        assert isinstance(message, str)
        assert is_valid is (message == "")
        self.cost = cost
        return message

    def _run(self, expression: str) -> object:
        step, places = _compile(expression)
        run = Run([*self._values, CelMap({**self._variables}, is_published=True)], places - len(_VARIABLES), MAX_COST)
        value = step(run)
        run.check()
        self.cost += run.cost
        return value


def _convert(content: object) -> object:
    """Return plain JSON as values of expressions."""
    if isinstance(content, dict):
        return CelMap({key: _convert(value) for key, value in content.items()}, is_published=True)
    return [_convert(item) for item in content] if isinstance(content, list) else content
