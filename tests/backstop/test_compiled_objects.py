"""Tests of the metadata of compiled objects."""

from tallygate.backstop.compiled_objects import create_metadata
from tallygate.backstop.gaps import Gap


def test_metadata_finds_every_compiled_object_and_those_of_one_policy() -> None:
    assert create_metadata("tallygate-gpus", "NamespaceCap", "gpus", "1f3a", "team-a") == {
        "name": "tallygate-gpus",
        "namespace": "team-a",
        "labels": {
            "app.kubernetes.io/managed-by": "tallygate",
            "tallygate.dev/compiled-from": "NamespaceCap",
            "tallygate.dev/policy": "gpus",
        },
        "annotations": {"tallygate.dev/digest": "1f3a"},
    }
    assert "namespace" not in create_metadata("tallygate-whole-gpus", "ResourceRule", "whole-gpus", "1f3a")


def test_gaps_are_ordered_by_policy_and_subject() -> None:
    gpus = Gap("cap gpus", "hard.nvidia.com/gpu", "the cap is shared", is_looser=True)
    pods = Gap("cap gpus", "hard.pods", "the cap is shared", is_looser=True)
    rule = Gap("rule nodes", "checks.advertised", "it needs nodes", is_looser=False)
    assert sorted([rule, pods, gpus]) == [gpus, pods, rule]
