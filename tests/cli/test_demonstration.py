"""The demonstration's words: as kubectl has them."""

import json

import pytest
import yaml

from webhook.admission.change import CREATE
from webhook.admission.review import decode
from webhook.cli.demonstration import review, said
from webhook.cli.serving_files import PODS


def denied(reason: str, message: str) -> dict[str, object]:
    """An answer that refuses."""
    return {"allowed": False, "status": {"reason": reason, "message": message}}


def test_a_pod_that_goes_in_is_created() -> None:
    """With warnings before it."""
    answer = {"allowed": True, "warnings": ["one", "two"]}
    assert said("p", "p.yaml", "validate", answer) == ["Warning: one", "Warning: two", "pod/p created"]


@pytest.mark.parametrize("reason", ["Invalid", "Forbidden"])
def test_a_refusal_names_reason_file_and_webhook(reason: str) -> None:
    """As `kubectl apply` prints what the API server answers."""
    line = f'Error from server ({reason}): error when creating "p.yaml": '
    line += 'admission webhook "mutate.tallygate.dev" denied the request: no'
    assert said("p", "p.yaml", "mutate", denied(reason, "no")) == [line]


@pytest.mark.parametrize("phase", ["mutate", "validate"])
@pytest.mark.parametrize("name", PODS)
def test_reviews_are_what_the_gate_reads(name: str, phase: str) -> None:
    """With a UID for the pod once it is validated, as the API server gives it."""
    pod = yaml.safe_load(PODS[name])
    asked = decode(json.dumps(review(pod, phase)).encode())
    assert (asked.change.kind, asked.change.operation, asked.change.namespace) == ("Pod", CREATE, "team-a")
    assert ("uid" in json.loads(bytes(asked.change.object))["metadata"]) == (phase == "validate")
