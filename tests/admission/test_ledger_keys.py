"""Ledger keys: a recorded key for a recorded cap, because a new key abandons the ledger of every cluster."""

import pytest

from tallygate.admission.cap_index import CapIndex
from tallygate.policy.parse import parse

_SELECTOR = "{matchLabels: {tier: batch}, matchExpressions: [{key: team, operator: In, values: [b, a]}]}"


def _key(spec: str) -> str:
    document = f"apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\nmetadata: {{name: gpus}}\nspec: {spec}\n"
    parsed = parse([("cap.yaml", document.encode())])
    assert parsed.is_usable, parsed.findings
    (cap,) = CapIndex(parsed.policies, None).list_caps()
    return cap.key


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        pytest.param("{hard: {a.b/c: 8}}", "gpus-5d8f355c26", id="no selection"),
        pytest.param(
            "{hard: {a.b/c: 8}, shared: true, namespaces: {include: [team-*], exclude: [x]}}",
            "gpus-38d049b6eb",
            id="names",
        ),
        pytest.param(
            f"{{hard: {{a.b/c: 8}}, namespaces: {{selector: {_SELECTOR}}}}}",
            "gpus-d729f6b635",
            id="labels of namespaces",
        ),
        pytest.param(
            "{hard: {a/c: 8}, pods: {priorityClasses: [hi], nodeSelector: {pool: x}, "
            f"objectSelector: {_SELECTOR}}}}}",
            "gpus-a536ca9fdf",
            id="a filter of pods",
        ),
    ],
)
def test_a_key_is_the_recorded_one(spec: str, key: str) -> None:
    assert _key(spec) == key
