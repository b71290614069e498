"""ValidatingAdmissionPolicies that enforce a part of the rules: one for each enforcement, and a binding of each.

An API server converts an object for every policy, so all rules of one enforcement are variables of one policy. Its
only validation has all findings in one message, as the gate's answer has.

`failurePolicy` is `Ignore`: none of the expressions fails for an object that an API server accepts (the limits of
`object_variables` keep the cost within the budget), and if one did, an object would be denied that the gate allows.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from tallygate.admission.cel_texts import FALSE, TRUE, join_any
from tallygate.admission.request import CREATE, UPDATE
from tallygate.backstop import object_variables
from tallygate.backstop.claim_expressions import REQUESTS, REQUESTS_EXPRESSION
from tallygate.backstop.compiled_objects import MAX_PARTS, CompiledObject, create_metadata, list_part_names
from tallygate.backstop.gaps import Gap
from tallygate.backstop.rule_expressions import (
    MAX_TEXT_LENGTH,
    TOTALS,
    RuleFindings,
    format_broad_scope,
    format_findings,
    format_total_condition,
    has_claim_checks,
)
from tallygate.backstop.rule_gaps import (
    create_cost_gap,
    create_size_gap,
    list_implied_gaps,
    list_name_gaps,
    list_rule_gaps,
)
from tallygate.objects import admission_registration
from tallygate.objects.meta import LabelSelector, SelectorRequirement
from tallygate.policy.model import Enforcement, PolicySet, ResourceRule

API_VERSION: Final = "admissionregistration.k8s.io/v1"
POLICY_KIND: Final = "ValidatingAdmissionPolicy"
BINDING_KIND: Final = "ValidatingAdmissionPolicyBinding"

_ACTIONS: Mapping[Enforcement, str] = {
    Enforcement.DENY: "Deny",
    Enforcement.WARN: "Warn",
    Enforcement.AUDIT: "Audit",
}
_FINDINGS = "findings"
_MAX_RULE_COST = 800_000  # of the 1,000,000 of one expression (PerCallLimit in k8s.io/apiserver pkg/apis/cel, v1.36)
_MAX_POLICY_COST = 3_000_000  # of the 10,000,000 of a policy, whose variables are evaluated for the message again
_NO_WORD = re.compile(r"[^A-Za-z0-9_]")


class _CompiledRule(NamedTuple):
    """A rule, the name of its variable, and its findings."""

    rule: ResourceRule
    variable: str
    findings: RuleFindings


def create_admission_policies(
    policies: PolicySet, excluded_namespaces: Sequence[str]
) -> tuple[tuple[CompiledObject, ...], tuple[Gap, ...]]:
    """Return the policies and bindings of all rules, and the gaps, ordered by policy and subject.

    The bindings are about no object of the excluded namespaces.
    """
    objects: list[CompiledObject] = []
    gaps = [*list_implied_gaps(policies)]
    for enforcement in Enforcement:
        compiled: list[_CompiledRule] = []
        for rule in policies.rules:
            if rule.enforcement is not enforcement:
                continue
            findings = format_findings(rule)
            if findings.cost > _MAX_RULE_COST:
                gaps.append(create_cost_gap(rule))
                continue
            gaps += list_rule_gaps(rule, policies)
            if not findings.text:
                gaps += list_name_gaps(rule)
            else:
                variable = f"rule{len(compiled)}_{_NO_WORD.sub('_', rule.name)}"
                compiled.append(_CompiledRule(rule, variable, findings))
        parts = list(_split_by_cost(compiled))
        for name, part in zip(list_part_names(enforcement), parts, strict=False):  # fewer parts or more
            objects += _create_objects(name, _ACTIONS[enforcement], part, policies.digest, excluded_namespaces)
        gaps += (create_size_gap(left.rule) for part in parts[MAX_PARTS:] for left in part)
    return tuple(objects), tuple(sorted(set(gaps)))


def _split_by_cost(rules: Iterable[_CompiledRule]) -> Iterator[list[_CompiledRule]]:
    """Yield the rules of each policy: as many as are within the budget of one."""
    part: list[_CompiledRule] = []
    cost = 0
    for compiled in rules:
        if part and cost + compiled.findings.cost > _MAX_POLICY_COST:
            yield part
            part, cost = [], 0
        part.append(compiled)
        cost += compiled.findings.cost
    if part:
        yield part


def _create_objects(
    name: str, action: str, rules: Sequence[_CompiledRule], digest: str, excluded_namespaces: Sequence[str]
) -> Iterator[CompiledObject]:
    """Yield the policy of some rules, and its binding."""
    namespaces = SelectorRequirement("kubernetes.io/metadata.name", "NotIn", sorted(excluded_namespaces))
    selector = LabelSelector(match_expressions=[namespaces]) if excluded_namespaces else LabelSelector()
    binding = admission_registration.BindingSpec(
        name,
        (action,),
        admission_registration.MatchResources(namespace_selector=selector),
    )
    for kind, spec in ((POLICY_KIND, _create_spec(rules)), (BINDING_KIND, binding)):
        yield {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": create_metadata(name, "ResourceRule", "", digest),
            "spec": msgspec.json.decode(msgspec.json.encode(spec)),
        }


def _create_spec(rules: Sequence[_CompiledRule]) -> admission_registration.PolicySpec:
    findings = f"variables.{_FINDINGS}"
    message = (
        f"{findings}.size() > {MAX_TEXT_LENGTH} ? {findings}.substring(0, {MAX_TEXT_LENGTH}) + '…'"
        f" : {findings} == '' ? '' : {findings}.substring(0, {findings}.size() - 2)"
    )
    validation = admission_registration.Validation(
        f"{findings} == ''", "the object breaks a rule of tallygate", message
    )
    scope = join_any(format_broad_scope(compiled.rule) for compiled in rules)
    return admission_registration.PolicySpec(
        admission_registration.MatchResources(resource_rules=tuple(_list_resource_rules(rules))),
        tuple(_list_variables(rules)),
        (validation,),
        () if scope == TRUE else (admission_registration.NamedExpression("a-rule-may-decide", scope),),
        failure_policy="Ignore",
    )


def _list_variables(rules: Sequence[_CompiledRule]) -> Iterator[admission_registration.NamedExpression]:
    """Yield the variables of all rules and those of each, and the one with all findings."""
    variables = dict(object_variables.VARIABLES)
    totals = join_any(format_total_condition(compiled.rule) for compiled in rules)
    if totals != FALSE:
        variables[TOTALS] = object_variables.format_totals(totals)
    if any(has_claim_checks(compiled.rule) for compiled in rules):
        variables[REQUESTS] = REQUESTS_EXPRESSION
    variables |= {compiled.variable: compiled.findings.text for compiled in rules}
    listed = ", ".join(f"variables.{compiled.variable}" for compiled in rules)
    variables[_FINDINGS] = f"[{listed}].join('')"
    return (admission_registration.NamedExpression(name, expression) for name, expression in variables.items())


def _list_resource_rules(rules: Sequence[_CompiledRule]) -> Iterator[admission_registration.WebhookRule]:
    """Yield the requests that rules are about; stored pods and claims change only in their labels.

    Of other kinds an update is checked as well.
    """
    updated = CREATE, UPDATE
    has_selector = any(compiled.rule.match.object_selector is not None for compiled in rules)
    of_fixed = updated if has_selector else (CREATE,)
    yield _create_rule("", ("pods",), of_fixed)
    yield _create_rule("", ("pods/resize",), (UPDATE,))
    yield _create_rule("", ("limitranges", "podtemplates", "replicationcontrollers", "resourcequotas"), updated)
    yield _create_rule("apps", ("daemonsets", "deployments", "replicasets", "statefulsets"), updated)
    yield _create_rule("batch", ("cronjobs", "jobs"), updated)
    if any(has_claim_checks(compiled.rule) for compiled in rules):
        yield _create_rule("resource.k8s.io", ("resourceclaims", "resourceclaimtemplates"), of_fixed)


def _create_rule(
    group: str, resources: tuple[str, ...], operations: Iterable[str]
) -> admission_registration.WebhookRule:
    return admission_registration.WebhookRule((group,), ("v1",), resources, tuple(operations), "Namespaced")
