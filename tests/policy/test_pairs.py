"""Lint of pairs of rules: redundant rules and contradictory rules."""

import pytest

from tallygate.policy.lint_policies import lint_policies
from tallygate.policy.parse import parse

HEAD = "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\n"


def _codes(one: str, other: str) -> list[tuple[str, str, str]]:
    """Return rule, code and severity of the findings of lint on two rules."""
    specs = {"one": one, "other": other}
    text = "---\n".join(f"{HEAD}metadata: {{name: {name}}}\nspec: {{{spec}}}\n" for name, spec in specs.items())
    parsed = parse([("a.yaml", text.encode())])
    assert parsed.findings == ()
    found = [
        (finding.message.split('"')[1], finding.code, str(finding.severity))
        for finding in lint_policies(parsed.policies)
    ]
    return [each for each in found if each[1] in {"TG332", "TG333"}]


GPU = "resources: [v.example/gpu]"

# The first rule requires everything that the second requires, and more: the second is redundant.
REDUNDANT: dict[str, tuple[str, str]] = {
    "more resources": ('resources: ["v.example/*"]', GPU),
    "a family over a vendor": ("resources: [extended]", 'resources: ["v.example/*"]'),
    "everything over a family": ('resources: ["*"]', "resources: [opaque]"),
    "without a hole": ('resources: ["v.example/*"]', 'resources: ["v.example/*", "!v.example/gpu"]'),
    "a hole that does not matter": ('resources: ["v.example/*", "!v.example/x"]', GPU),
    "every namespace over some": (GPU, f"{GPU}, match: {{namespaces: {{include: [a]}}}}"),
    "a wider glob of namespaces": (
        f'{GPU}, match: {{namespaces: {{include: ["team-*"]}}}}',
        f"{GPU}, match: {{namespaces: {{include: [team-a, team-b]}}}}",
    ),
    "an exclusion that does not matter": (
        f"{GPU}, match: {{namespaces: {{exclude: [x]}}}}",
        f'{GPU}, match: {{namespaces: {{include: ["team-*"]}}}}',
    ),
    "fewer labels required": (
        f"{GPU}, match: {{objectSelector: {{matchLabels: {{a: b}}}}}}",
        f"{GPU}, match: {{objectSelector: {{matchLabels: {{a: b, c: d}}}}}}",
    ),
    "a requirement that is implied": (
        f"{GPU}, match: {{objectSelector: {{matchExpressions: [{{key: a, operator: NotIn, values: [x]}}]}}}}",
        f"{GPU}, match: {{objectSelector: {{matchLabels: {{a: b}}}}}}",
    ),
    "more kinds": (f"{GPU}, match: {{kinds: [Pod, Job]}}", f"{GPU}, match: {{kinds: [Pod]}}"),
    "all kinds": (GPU, f"{GPU}, match: {{kinds: [Pod]}}"),
    "fewer exempt": (
        f"{GPU}, match: {{exempt: {{users: [a]}}}}",
        f'{GPU}, match: {{exempt: {{users: ["*"], groups: [b]}}}}',
    ),
    "deny over warn": (GPU, f"{GPU}, enforcement: warn"),
    "warn over audit": (f"{GPU}, enforcement: warn", f"{GPU}, enforcement: audit"),
    "names checked": (GPU, f"{GPU}, checks: {{wellFormedName: false}}"),
    "wholeness of all over countable": (f"{GPU}, checks: {{wholeQuantity: true}}", GPU),
    "wholeness of countable over none": (GPU, f"{GPU}, checks: {{wholeQuantity: false}}"),
    "equality of all over countable": (f"{GPU}, checks: {{requestsEqualLimits: true}}", GPU),
    "equality of countable over none": (GPU, f"{GPU}, checks: {{requestsEqualLimits: false}}"),
    "filling over nothing": (
        f"{GPU}, checks: {{requestsEqualLimits: fill}}",
        f"{GPU}, checks: {{requestsEqualLimits: false}}",
    ),
    "a bound over none": (f"{GPU}, checks: {{perPod: {{max: 8}}}}", GPU),
    "a tighter maximum": (f"{GPU}, checks: {{perPod: {{max: 4}}}}", f"{GPU}, checks: {{perPod: {{max: 8}}}}"),
    "a tighter minimum": (f"{GPU}, checks: {{perPod: {{min: 2}}}}", f"{GPU}, checks: {{perPod: {{min: 1}}}}"),
    "fewer choices": (
        f"{GPU}, checks: {{perContainer: {{oneOf: [1, 2]}}}}",
        f"{GPU}, checks: {{perContainer: {{oneOf: [1, 2, 4]}}}}",
    ),
    "a multiple beside a bound": (
        f"{GPU}, checks: {{perPod: {{max: 8, multipleOf: 2}}}}",
        f"{GPU}, checks: {{perPod: {{max: 8}}}}",
    ),
    "advertised": (f"{GPU}, checks: {{advertised: true}}", GPU),
    "schedulable": (f"{GPU}, checks: {{schedulable: never}}", GPU),
    "a deadline over none": (f"{GPU}, checks: {{activeDeadlineSeconds: {{max: 1h}}}}", GPU),
    "a shorter deadline": (
        f"{GPU}, checks: {{activeDeadlineSeconds: {{max: 1h}}}}",
        f"{GPU}, checks: {{activeDeadlineSeconds: {{max: 2h, required: false}}}}",
    ),
    "a shortest deadline over any": (
        f"{GPU}, checks: {{activeDeadlineSeconds: {{max: 1h}}}}",
        f"{GPU}, checks: {{activeDeadlineSeconds: {{required: true}}}}",
    ),
}


@pytest.mark.parametrize(("wide", "narrow"), REDUNDANT.values(), ids=REDUNDANT)
def test_the_narrower_rule_is_redundant_in_either_order(wide: str, narrow: str) -> None:
    assert _codes(wide, narrow) == [("other", "TG332", "warning")]
    assert _codes(narrow, wide) == [("one", "TG332", "warning")]


# Neither rule requires everything that the other requires.
INDEPENDENT: dict[str, tuple[str, str]] = {
    "other resources": (GPU, "resources: [v.example/tpu]"),
    "a family and an exclusion of it": ("resources: [extended]", 'resources: ["*", "!extended"]'),
    "other namespaces": (
        f"{GPU}, match: {{namespaces: {{include: [a]}}}}",
        f"{GPU}, match: {{namespaces: {{include: [b]}}}}",
    ),
    "other kinds": (f"{GPU}, match: {{kinds: [Pod]}}", f"{GPU}, match: {{kinds: [Job]}}"),
    "other labels": (
        f"{GPU}, match: {{objectSelector: {{matchLabels: {{a: b}}}}}}",
        f"{GPU}, match: {{objectSelector: {{matchLabels: {{a: c}}}}}}",
    ),
    "wider but milder": ('resources: ["v.example/*"], enforcement: warn', GPU),
    "wider but without a check": ('resources: ["v.example/*"], checks: {wellFormedName: false}', GPU),
    "wider but exempts a user": ('resources: ["v.example/*"], match: {exempt: {users: [a]}}', GPU),
    "filling and requiring": (
        f"{GPU}, checks: {{requestsEqualLimits: fill}}",
        f"{GPU}, checks: {{requestsEqualLimits: true}}",
    ),
    "a minimum and a maximum": (f"{GPU}, checks: {{perPod: {{min: 1}}}}", f"{GPU}, checks: {{perPod: {{max: 8}}}}"),
    "a container's and a pod's": (
        f"{GPU}, checks: {{perContainer: {{max: 8}}}}",
        f"{GPU}, checks: {{perPod: {{max: 8}}}}",
    ),
    "other multiples": (
        f"{GPU}, checks: {{perPod: {{multipleOf: 2}}}}",
        f"{GPU}, checks: {{perPod: {{multipleOf: 3}}}}",
    ),
    "a deadline that is required and a shorter one": (
        f"{GPU}, checks: {{activeDeadlineSeconds: {{max: 2h}}}}",
        f"{GPU}, checks: {{activeDeadlineSeconds: {{max: 1h, required: false}}}}",
    ),
    "deadlines of Jobs and of pods alone": (
        f"{GPU}, checks: {{activeDeadlineSeconds: {{max: 2h}}}}",
        f"{GPU}, match: {{kinds: [Pod]}}, checks: {{activeDeadlineSeconds: {{max: 2h}}}}",
    ),
    "other predictions": (f"{GPU}, checks: {{schedulable: never}}", f"{GPU}, checks: {{schedulable: not-now}}"),
}


@pytest.mark.parametrize(("one", "other"), INDEPENDENT.values(), ids=INDEPENDENT)
def test_independent_rules_are_not_redundant(one: str, other: str) -> None:
    assert _codes(one, other) == []
    assert _codes(other, one) == []


CONTRADICTIONS: dict[str, tuple[str, str, str]] = {
    "a minimum above the other's maximum": ("perPod: {min: 4}", "perPod: {max: 3}", "TG333"),
    "choices without one in common": ("perContainer: {oneOf: [1, 2]}", "perContainer: {oneOf: [4, 8]}", "TG333"),
    "choices below a minimum": ("perContainer: {oneOf: [1, 2]}", "perContainer: {min: 3}", "TG333"),
    "choices that are no multiple": ("perContainer: {oneOf: [1, 3]}", "perContainer: {multipleOf: 2, min: 1}", "TG333"),
    "multiples with none in range": ("perPod: {multipleOf: 3, min: 1}", "perPod: {multipleOf: 4, max: 11}", "TG333"),
    "multiples with one in range": ("perPod: {multipleOf: 3, min: 1}", "perPod: {multipleOf: 4, max: 12}", ""),
    "a container that outgrows the pod": ("perContainer: {min: 4}", "perPod: {max: 3}", "TG333"),
    "a container that just fits": ("perContainer: {min: 4}", "perPod: {max: 4}", ""),
    "choices that meet": ("perContainer: {oneOf: [1, 2]}", "perContainer: {oneOf: [2000m, 4]}", ""),
    "none at all is a prohibition": ("perPod: {min: 4}", "perPod: {max: 0}", ""),
    "none per pod is a prohibition": ("perContainer: {min: 4}", "perPod: {max: 0}", ""),
}


@pytest.mark.parametrize(("one", "other", "code"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_bounds_that_no_amount_satisfies_are_reported(one: str, other: str, code: str) -> None:
    expected = [("other", code, "error")] if code else []
    assert _codes(f"{GPU}, checks: {{{one}}}", f"{GPU}, checks: {{{other}}}") == expected
    assert _codes(f"{GPU}, checks: {{{other}}}", f"{GPU}, checks: {{{one}}}") == expected


LOW, HIGH = "checks: {perPod: {max: 2}}", "checks: {perPod: {min: 4}}"
SEVERITIES: dict[str, tuple[str, str, str]] = {
    "everywhere": (f"{GPU}, {LOW}", f"{GPU}, {HIGH}", "error"),
    "in a part of the other's namespaces": (
        f"{GPU}, {LOW}",
        f"{GPU}, match: {{namespaces: {{include: [a]}}}}, {HIGH}",
        "error",
    ),
    "in some resources only": (f'resources: ["v.example/*"], {LOW}', f"{GPU}, {HIGH}", "error"),
    "in namespaces that may never be the same": (
        f"{GPU}, match: {{namespaces: {{selector: {{matchLabels: {{a: x}}}}}}}}, {LOW}",
        f"{GPU}, match: {{namespaces: {{selector: {{matchLabels: {{b: x}}}}}}}}, {HIGH}",
        "warning",
    ),
    "when one only warns": (f"{GPU}, enforcement: warn, {LOW}", f"{GPU}, {HIGH}", "warning"),
    "never, when one only audits": (f"{GPU}, enforcement: audit, {LOW}", f"{GPU}, {HIGH}", ""),
    "never in other namespaces": (
        f"{GPU}, match: {{namespaces: {{include: [a]}}}}, {LOW}",
        f"{GPU}, match: {{namespaces: {{include: [b]}}}}, {HIGH}",
        "",
    ),
    "never for other kinds": (
        f"{GPU}, match: {{kinds: [Pod]}}, {LOW}",
        f"{GPU}, match: {{kinds: [Job]}}, {HIGH}",
        "",
    ),
    "never for other labels": (
        f"{GPU}, match: {{objectSelector: {{matchLabels: {{a: x}}}}}}, {LOW}",
        f"{GPU}, match: {{objectSelector: {{matchLabels: {{a: y}}}}}}, {HIGH}",
        "",
    ),
    "never for other resources": (f"{GPU}, {LOW}", f"resources: [v.example/tpu], {HIGH}", ""),
    "never where the other excludes it": (
        f'resources: ["v.example/*", "!v.example/gpu"], {LOW}',
        f"{GPU}, {HIGH}",
        "",
    ),
}


@pytest.mark.parametrize(("one", "other", "severity"), SEVERITIES.values(), ids=SEVERITIES)
def test_only_a_certain_contradiction_is_an_error(one: str, other: str, severity: str) -> None:
    assert _codes(one, other) == ([("other", "TG333", severity)] if severity else [])
