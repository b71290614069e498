"""The amounts that a node gets by NodeResources: exact, whole, and certain or a problem."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import pytest

from tallygate.objects.owned_nodes import OwnedNode
from tallygate.policy.node_resources import NodeAmounts, compute_node_amounts
from tallygate.policy.parse import parse

_HEAD = "apiVersion: tallygate.dev/v1alpha1\nkind: NodeResource\nmetadata: {name: %s}\nspec:\n  nodes: {selector: %s}\n"
_NAME = "example.com/x"
_EMPTY: Mapping[str, object] = MappingProxyType({})


def _compute(
    *amounts: str, selectors: tuple[str, ...] = ("{}", "{}"), node: Mapping[str, object] = _EMPTY
) -> NodeAmounts:
    documents = [
        f"{_HEAD % (f'p{number}', selector)}  resources: {{{_NAME}: {amount}}}\n"
        for number, (amount, selector) in enumerate(zip(amounts, selectors, strict=False))
    ]
    parsed = parse([("a.yaml", "---\n".join(documents).encode())])
    assert parsed.is_usable, parsed.findings
    given = dict(node)
    metadata = {"name": "n", "uid": "u", "labels": given.pop("labels", {}), "annotations": given.pop("notes", {})}
    content = {"metadata": metadata, **given}
    stored = msgspec.json.decode(msgspec.json.encode(content), type=OwnedNode)
    return compute_node_amounts(stored, parsed.policies.node_resources)


def _give(*cidrs: str) -> dict[str, object]:
    return {"spec": {"podCIDRs": list(cidrs)}}


def _label(text: str) -> dict[str, object]:
    return {"labels": {"l": text}}


@pytest.mark.parametrize(
    ("amount", "node", "result"),
    [
        ("8", {}, 8),
        ("3Ki", {}, 3072),
        ("0", {}, 0),
        ("{from: podCIDR}", _give("10.0.0.0/24"), 256),
        ("{from: podCIDR, minus: 3}", _give("10.0.0.7/28"), 13),
        ("{from: podCIDR, minus: 3}", _give("10.0.0.0/32"), 0),
        ("{from: podCIDR}", _give("fd00::/112"), 65536),
        ("{from: podCIDR}", _give("fd00::/66"), 1 << 62),
        ("{from: podCIDR}", _give("fd00::/64", "10.0.0.0/25"), 128),
        ("{from: podCIDR}", {}, None),
        ("{fromLabel: l}", _label("25"), 25),
        ("{fromLabel: l}", _label("2500m"), 2),
        ("{fromLabel: l, unit: 10}", _label("25"), 2),
        ("{fromLabel: l}", {}, None),
        ("{fromAnnotation: a, unit: 100Gi}", {"notes": {"a": "1Ti"}}, 10),
        (
            "{fromCapacity: ephemeral-storage, unit: 100Gi, minus: 1}",
            {"status": {"capacity": {"ephemeral-storage": "999Gi"}}},
            8,
        ),
        ("{fromCapacity: cpu, unit: 500m}", {"status": {"capacity": {"cpu": "7900m"}}}, 15),
        ("{fromCapacity: cpu, unit: 0.3}", {"status": {"capacity": {"cpu": 1}}}, 3),
        ("{fromCapacity: memory}", {"status": {"capacity": {}}}, None),
    ],
)
def test_an_amount_is_exact(amount: str, node: dict[str, object], result: int | None) -> None:
    assert _compute(amount, node=node) == NodeAmounts({} if result is None else {_NAME: result}, {})


@pytest.mark.parametrize(
    ("amount", "node", "text"),
    [
        ("{fromLabel: l}", _label("many"), "label l is 'many'"),
        ("{fromAnnotation: a}", {"notes": {"a": "-1"}}, "annotation a is -1, below zero"),
        ("{from: podCIDR}", _give("fd00::/64"), "18446744073709551616; Kubernetes counts to"),
        ("{from: podCIDR}", _give("10.0.0/24x"), "10.0.0/24x"),
    ],
)
def test_a_field_that_is_no_amount_is_a_problem(amount: str, node: dict[str, object], text: str) -> None:
    amounts, problems = _compute(amount, node=node)
    assert amounts == {}
    assert text in problems[_NAME]


def test_two_definitions_agree_or_neither_is_published() -> None:
    assert _compute("8", "8k", selectors=("{matchLabels: {a: b}}", "{}")).amounts == {_NAME: 8000}
    assert _compute("8000", "8k").amounts == {_NAME: 8000}
    amounts, problems = _compute("8", "9")
    assert (amounts, problems[_NAME]) == ({}, "NodeResource p0 gives 8, NodeResource p1 9: keep one")
