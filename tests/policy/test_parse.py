"""Contents of valid policy files: values, defaults, order, digest."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.accounting.quantity import Quantity
from tallygate.policy.model import (
    AmountBounds,
    Checks,
    Enforcement,
    Equality,
    ForecastEnforcement,
    Match,
    PodFilter,
    ResourceRule,
    Schedulable,
    SourceLocation,
    SurgeDefinition,
)
from tallygate.policy.node_resources import PublishedAmount
from tallygate.policy.parse import ParseResult, parse
from tallygate.policy.periods import Seconds
from tallygate.policy.selectors import LabelRequirement, NamespaceSelector, Operator, PolicyLabelSelector, Subjects
from tests.effort import examples

RULE = "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {name: a}\nspec:\n  resources: [a.b/c]\n"
CAP = "apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\nmetadata: {name: a}\nspec:\n  hard: {pods: 1}\n"


def _parse(text: str, name: str = "a.yaml") -> ParseResult:
    return parse([(name, text.encode())])


def _rule(text: str) -> ResourceRule:
    parsed = _parse(text)
    assert parsed.findings == ()
    (rule,) = parsed.policies.rules
    return rule


def test_missing_fields_of_a_rule_have_careful_defaults() -> None:
    assert msgspec.structs.replace(_rule(RULE), locations={}) == ResourceRule(
        name="a",
        resources=("a.b/c",),
        match=Match(namespaces=None, kinds=None, object_selector=None, exempt=Subjects()),
        enforcement=Enforcement.DENY,
        checks=Checks(well_formed_name=True, whole_quantity=None, requests_equal_limits=None),
        location=SourceLocation("a.yaml", 1, 1),
        reason="",
    )


_EVERYTHING = """apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata:
  name: whole-gpus
  annotations: {tallygate.dev/why: they cannot be split, other: note}
spec:
  resources: ["nvidia.com/*", "!nvidia.com/gpu"]
  match:
    namespaces: {include: ["team-*"], exclude: [team-infra], selector: {matchLabels: {gpu: "yes"}}}
    kinds: [Pod, Deployment]
    objectSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [web, db]}, {key: x, operator: Exists}]}
    exempt: {groups: ["system:nodes"], users: [alice], serviceAccounts: ["ci/deployer"]}
  enforcement: audit
  checks:
    wellFormedName: false
    wholeQuantity: true
    requestsEqualLimits: fill
    perContainer: {min: 1, max: 8, multipleOf: 500m, oneOf: [1, "2", 4]}
    perPod: {max: 8}
    advertised: true
    schedulable: not-now
"""


def test_every_field_of_a_rule_is_read() -> None:
    rule = _rule(_EVERYTHING)
    assert rule.reason == "they cannot be split"
    assert rule.resources == ("nvidia.com/*", "!nvidia.com/gpu")
    assert rule.enforcement is Enforcement.AUDIT
    assert rule.match == Match(
        NamespaceSelector(("team-*",), ("team-infra",), PolicyLabelSelector({"gpu": "yes"})),
        frozenset({"Pod", "Deployment"}),
        PolicyLabelSelector(
            {},
            (
                LabelRequirement("tier", Operator.NOT_IN, frozenset({"web", "db"})),
                LabelRequirement("x", Operator.EXISTS),
            ),
        ),
        Subjects(("alice",), ("system:nodes",), ("ci/deployer",)),
    )
    assert rule.checks == Checks(
        well_formed_name=False,
        whole_quantity=True,
        requests_equal_limits=Equality.FILL,
        per_container=AmountBounds(
            Quantity.from_int(1),
            Quantity.from_int(8),
            Quantity.parse("500m"),
            (Quantity.from_int(1), Quantity.from_int(2), Quantity.from_int(4)),
        ),
        per_pod=AmountBounds(max=Quantity.from_int(8)),
        advertised=True,
        schedulable=Schedulable.NOT_NOW,
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [("true", Equality.REQUIRE), ("false", Equality.IGNORE), ("fill", Equality.FILL), ('"fill"', Equality.FILL)],
)
def test_requests_equal_limits_has_three_values(written: str, meant: Equality) -> None:
    assert _rule(RULE + f"  checks: {{requestsEqualLimits: {written}}}\n").checks.requests_equal_limits is meant


def test_every_field_of_a_cap_is_read() -> None:
    parsed = _parse(
        """apiVersion: tallygate.dev/v1alpha1
kind: NamespaceCap
metadata: {name: gpus, annotations: {tallygate.dev/why: agreed}}
spec:
  namespaces: {selector: {matchLabels: {team: vision}}}
  shared: true
  hard: {nvidia.com/gpu: 8, requests.cpu: "32", limits.memory: 64Gi, pods: 50}
  soft: {requests.nvidia.com/gpu: 6}
  pods: {priorityClasses: [batch], nodeSelector: {gpu: a100}, objectSelector: {matchLabels: {}}}
  workloads: deny
  admit: whole
  surge: {amounts: {requests.nvidia.com/gpu: 2}, for: 1h30m}
  showTopConsumers: false
  exceed: {groups: [admins]}
"""
    )
    assert parsed.findings == ()
    (cap,) = parsed.policies.caps
    assert cap.name == "gpus"
    assert cap.reason == "agreed"
    assert cap.namespaces == NamespaceSelector(selector=PolicyLabelSelector({"team": "vision"}))
    assert cap.shared is True
    assert {name: str(limit) for name, limit in cap.hard.items()} == {
        "nvidia.com/gpu": "8",
        "cpu": "32",
        "limits.memory": "64Gi",
        "pods": "50",
    }
    assert {name: str(limit) for name, limit in cap.soft.items()} == {"nvidia.com/gpu": "6"}
    assert cap.pods == PodFilter(("batch",), {"gpu": "a100"}, PolicyLabelSelector())
    assert cap.exceed == Subjects(groups=("admins",))
    assert cap.workloads is ForecastEnforcement.DENY
    assert cap.admits_whole is True
    assert cap.surge == SurgeDefinition({"nvidia.com/gpu": Quantity.parse("2")}, Seconds(5400))
    assert cap.shows_top_consumers is False


def test_a_minimal_cap_counts_every_pod_of_each_namespace_separately() -> None:
    (cap,) = _parse(CAP).policies.caps
    assert (cap.namespaces, cap.shared, cap.pods, cap.exceed) == (NamespaceSelector(), False, PodFilter(), Subjects())
    assert cap.workloads is ForecastEnforcement.WARN
    assert cap.shows_top_consumers is True
    assert dict(cap.soft) == {}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1e3", "1e3"),
        ("010", "10"),
        ("3.0", "3"),
        ('"3.0"', "3"),
        ("12345678901234567", "12345678901234567"),
        ("0.1", "100m"),
        ("!!str 5", "5"),
        ("64Gi", "64Gi"),
        ("+5", "5"),
        ("1E3", "1000"),
        ("8.", "8"),
    ],
)
def test_a_quantity_is_read_from_the_source_text(written: str, read: str) -> None:
    """Read quantities without floats: 12345678901234567 is odd, and 0.1 is a tenth."""
    (cap,) = _parse(CAP.replace("pods: 1", f"memory: {written}")).policies.caps
    assert cap.hard["memory"] == Quantity.parse(read)


@given(st.integers(0, 2**63 - 1), st.sampled_from(["", "m", "k", "Ki", "e0"]))
@settings(max_examples=examples(50))
def test_every_number_is_read_exactly(number: int, suffix: str) -> None:
    text = f"{number // 10**6}{suffix}"
    (cap,) = _parse(CAP.replace("pods: 1", f"memory: {text}")).policies.caps
    assert cap.hard["memory"] == Quantity.parse(text)


def test_files_and_documents_keep_their_order() -> None:
    def write_rules(*names: str) -> bytes:
        return "---\n".join(RULE.replace("name: a", f"name: {name}") for name in names).encode()

    parsed = parse([("1.yaml", write_rules("c", "a")), ("2.yaml", write_rules("b"))])
    assert [rule.name for rule in parsed.policies.rules] == ["c", "a", "b"]
    assert parsed.policies.files == ("1.yaml", "2.yaml")
    assert [str(rule.location) for rule in parsed.policies.rules] == ["1.yaml:1:1", "1.yaml:7:1", "2.yaml:1:1"]


def test_the_digest_depends_on_contents_and_not_on_paths() -> None:
    assert _parse(RULE, "a.yaml").policies.digest == _parse(RULE, "/mnt/b.yaml").policies.digest
    assert _parse(RULE).policies.digest != _parse(RULE + "# another\n").policies.digest
    two = parse([("a", RULE.encode()), ("b", b"")]).policies.digest
    assert two != _parse(RULE).policies.digest


def test_a_name_collision_between_files_reports_both_positions() -> None:
    (finding,) = parse([("1.yaml", RULE.encode()), ("2.yaml", RULE.encode())]).findings
    assert str(finding).startswith("2.yaml:3:18: error: ")
    assert "1.yaml:1:1" in finding.message


def test_findings_of_several_files_are_sorted_by_position() -> None:
    parsed = parse([("b.yaml", b"x: 1\n"), ("a.yaml", b"---\n- 1\n---\ny: 1\n")])
    positions = [(finding.file, finding.line, finding.column) for finding in parsed.findings]
    assert positions == sorted(positions)
    assert {finding.file for finding in parsed.findings} == {"a.yaml", "b.yaml"}


def test_good_documents_of_an_unusable_set_are_kept_for_lint() -> None:
    parsed = _parse(RULE + "---\nkind: Nothing\n")
    assert [rule.name for rule in parsed.policies.rules] == ["a"]
    assert not parsed.is_usable


def test_warnings_leave_a_set_usable() -> None:
    parsed = _parse(CAP.replace("pods: 1", "pods: 01"))
    assert [str(finding.severity) for finding in parsed.findings] == ["warning"]
    assert parsed.is_usable


def test_no_files_make_an_empty_set() -> None:
    parsed = parse([])
    assert (parsed.policies.rules, parsed.policies.caps, parsed.findings) == ((), (), ())


def test_json_is_read_with_tabs_and_escapes() -> None:
    value = {
        "apiVersion": "tallygate.dev/v1alpha1",
        "kind": "ResourceRule",
        "metadata": {"name": "a"},
        "spec": {"resources": ["a.b/c"], "checks": {"perPod": {"max": 8}}},
    }
    text = json.dumps(value, indent="\t").replace("a.b", "\\u0061.b")
    parsed = _parse(text, "a.json")
    assert parsed.findings == ()
    assert parsed.policies.rules[0].resources == ("a.b/c",)


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    assert parse([("a.yaml", b"\xef\xbb\xbf" + RULE.replace("\n", "\r\n").encode())]).findings == ()


@given(st.binary(max_size=200))
@settings(max_examples=examples(150))
def test_no_bytes_crash_the_parser(content: bytes) -> None:
    parse([("a.yaml", content)])


@given(st.text("{}[]:,-?&*!|>'\"%@` \n#ab0.~", max_size=80))
@settings(max_examples=examples(150))
def test_no_yaml_crashes_the_parser(text: str) -> None:
    parse([("a.yaml", (RULE + text).encode())])
    parse([("a.yaml", text.encode())])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    "resources",
    "match",
    "enforcement",
    "checks",
    "namespaces",
    "shared",
    "hard",
    "soft",
    "pods",
    "workloads",
    "showTopConsumers",
    "exceed",
]


@given(st.sampled_from(["ResourceRule", "NamespaceCap"]), st.dictionaries(st.sampled_from(FIELDS), VALUES))
@settings(max_examples=examples(200))
def test_no_value_of_any_field_crashes_the_parser(kind: str, spec: dict[str, object]) -> None:
    value = {"apiVersion": "tallygate.dev/v1alpha1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    parsed = parse([("a.json", json.dumps(value).encode())])
    policy_count = len(parsed.policies.rules) + len(parsed.policies.caps)
    assert policy_count == (1 if parsed.is_usable else 0)


_NUMBERS = ("8", "08", "8.0", "+4", "-0", "1e0", "1e3", "2k", "'8'", "0x10", "1" + "0" * 30, "9" * 90)
_NUMBERED_FIELDS = {
    "a check": ("ResourceRule", "{resources: [a.b/c], checks: {perPod: {min: %s, oneOf: [%s]}}}"),
    "a limit": ("NamespaceCap", "{hard: {cpu: %s}, surge: {amounts: {cpu: %s}, for: 5m}}"),
    "a weight and a factor": (
        "NamespaceCap",
        (
            "{soft: {x: 1, y: 1}, counts: "
            "{x: {weights: {a.b/c: %s}}, y: {product: [a.b/c, {resource: d.e/f, default: %s}]}}}"
        ),
    ),
    "an implied request": ("ImpliedRequest", "{resource: a.b/c, perPod: %s}"),
    "a published amount": ("NodeResource", "{resources: {a.b/c: %s, a.b/d: {from: podCIDR, minus: %s, unit: %s}}}"),
    "a shape": ("NodeShape", "{allocatable: {cpu: %s}, most: %s}"),
    "a number of pods": (
        "WorkloadKind",
        (
            "{group: a.b, kind: C, resource: cs, versions: [v1], pods: "
            "[{template: spec.t, count: [{field: spec.r, default: %s, minus: %s}]}]}"
        ),
    ),
}


@pytest.mark.parametrize("number", _NUMBERS)
@pytest.mark.parametrize("field", _NUMBERED_FIELDS)
def test_a_number_in_any_form_is_a_value_or_a_finding(field: str, number: str) -> None:
    """Check that what the schema accepts has a value: msgspec reads no number that YAML writes in another form."""
    kind, spec = _NUMBERED_FIELDS[field]
    written = spec.replace("%s", number)
    parsed = _parse(f"apiVersion: tallygate.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {written}\n")
    assert parsed.is_usable is bool(parsed.policies.count_documents())


def test_whole_numbers_and_quantities_are_exact() -> None:
    spec = "{resources: {a.b/c: 1e3, a.b/d: '2k', a.b/e: {fromLabel: x, minus: 08, unit: 1e1}}}"
    parsed = _parse(f"apiVersion: tallygate.dev/v1alpha1\nkind: NodeResource\nmetadata: {{name: a}}\nspec: {spec}\n")
    (definition,) = parsed.policies.node_resources
    amounts = definition.resources
    assert (amounts["a.b/c"], amounts["a.b/d"]) == (1000, 2000)
    published = amounts["a.b/e"]
    assert isinstance(published, PublishedAmount)
    assert (published.minus, published.unit) == (Quantity.from_int(8), Quantity.from_int(10))
