"""Objects whose fields have another type than in the API."""

import json

import pytest
from click.testing import CliRunner

from tallygate.cli.app import root


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        pytest.param(
            "kind: Pod\nmetadata: {name: n}",
            (3, 12),
            'metadata.name: expected a text, got true or false (without quotes, which means false: write "n" if a text '
            "is meant); the API server could not decode this",
            id="an unquoted boolean",
        ),
        pytest.param(
            "kind: Pod\nmetadata:\n  labels: {tier: 3}",
            (4, 3),
            "metadata.labels: expected a text, got a whole number; the API server could not decode this",
            id="a number as a label",
        ),
        pytest.param(
            "kind: Pod\nspec:\n  containers: {name: a}",
            (4, 3),
            "spec.containers: expected a list, got a mapping; the API server could not decode this",
            id="a mapping for a list",
        ),
        pytest.param(
            "kind: Pod\nspec:\n  containers:\n  - name: a\n    resources:\n    - limits",
            (6, 5),
            "spec.containers[0].resources: expected a mapping, got a list; the API server could not decode this",
            id="a list for a mapping",
        ),
        pytest.param(
            'kind: ReplicationController\nspec:\n  replicas: "3"',
            (4, 3),
            "spec.replicas: expected a whole number, got a text; the API server could not decode this",
            id="a text for a number",
        ),
        pytest.param(
            "kind: Pod\nspec: []",
            (3, 1),
            "spec: expected a mapping, got a list; the API server could not decode this",
            id="at the top",
        ),
    ],
)
def test_a_wrong_type_is_reported_at_its_field(text: str, position: tuple[int, int], message: str) -> None:
    """Report the expected type, the actual type, and the probable intention."""
    result = CliRunner().invoke(root, ["check", "-o", "json", "-"], input=f"apiVersion: v1\n{text}\n")
    found = json.loads(result.stdout)["findings"]
    assert result.exit_code == 1
    assert [(each["code"], each["message"], (each["line"], each["column"])) for each in found] == [
        ("TG404", message, position)
    ]
