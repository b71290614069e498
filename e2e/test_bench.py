"""The bench compares what it says: each server is asked, and judges; and the figures are what was measured."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from e2e.bench.calls import Calls
from e2e.bench.client import Created
from e2e.bench.figures import Over, figures, refusal_figures
from e2e.bench.ground import Ground, ground
from e2e.bench.measure import (
    ALONE,
    RESERVING_WAYS,
    SELDOM,
    WAYS,
    Round,
    Sample,
    Way,
    beside_reservations,
    one_round,
    refusals,
)
from e2e.bench.table import refusal_table, table
from e2e.bench.variants import (
    CAP,
    EVERY,
    FLASK,
    FLASK_TWICE,
    FLOOR,
    FLOOR_HTTP2,
    FLOOR_KEPT,
    KEPT,
    NONE,
    OPEN,
    QUOTA,
    REFUSING,
    RESERVING,
    RULES,
    VARIANTS,
    Variant,
)
from e2e.local.cluster import LocalCluster
from e2e.ports import Site
from e2e.waiting import until

_CREATES = 4
_OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"


@pytest.fixture(scope="module")
def made(site: Site) -> Iterator[Ground]:
    if not isinstance(site.cluster, LocalCluster):
        pytest.skip("the bench runs on the local control plane only")
    with ground(site.cluster) as made:
        yield made


@pytest.fixture(scope="module")
def taken(made: Ground) -> dict[Way, Round]:
    return one_round(made, _CREATES)


def test_a_gate_is_called_once_about_a_complete_pod_as_the_webhook_is_that_it_is_compared_with(
    taken: dict[Way, Round],
) -> None:
    for each in taken.values():
        asked = {variant: sample.calls.number / len(sample.latencies) for variant, sample in each.items()}
        assert asked == {
            NONE: 0,
            FLOOR: 1,
            FLOOR_HTTP2: 1,
            FLOOR_KEPT: 1,
            FLASK: 1,
            FLASK_TWICE: 2,
            RULES: 1,
            CAP: 1,
            KEPT: 1,
            QUOTA: 0,
        }


def test_all_pods_of_a_round_are_gone_after_it(made: Ground, taken: dict[Way, Round]) -> None:
    assert all(len(sample.latencies) >= _CREATES for each in taken.values() for sample in each.values())
    assert [_stored_pods(made, variant) for variant in EVERY] == [0] * len(EVERY)


def test_only_tallygate_refuses_one_and_a_half_opaque_bananas(made: Ground) -> None:
    said = {variant: _create(made, variant, {_OPAQUE: "1500m"}) for variant in EVERY}
    refused = {variant for variant, each in said.items() if each.status == 422 and b"TG101" in each.said}
    stored = {variant for variant, each in said.items() if each.status == 201}
    assert refused == {RULES, CAP, KEPT, OPEN}
    assert stored == {NONE, FLOOR, FLOOR_HTTP2, FLOOR_KEPT, FLASK, FLASK_TWICE, QUOTA}


def test_every_gate_has_an_in_flight_bound_under_which_caps_are_never_exceeded(made: Ground) -> None:
    warned = [variant.name for variant, gate in made.gates.items() if "in-flight-bound-too-short" in gate.log()]
    assert warned == []


def test_reservations_stay_open_of_pods_that_are_refused_after_the_gate_has_reserved(made: Ground) -> None:
    taken, after = beside_reservations(made, _CREATES, reservations=5)
    assert list(taken) == list(RESERVING_WAYS)
    for each in taken.values():
        calls = {variant: sample.calls.number / len(sample.latencies) for variant, sample in each.items()}
        assert calls == {NONE: 0, QUOTA: 0, KEPT: 1, OPEN: 1}
    assert len(after) == len(RESERVING_WAYS)
    assert min(after) >= 5
    assert _stored_pods(made, OPEN) == 0
    found = [figure for way, each in taken.items() for figure in figures([each], way)]
    _, _, *rows = table(found)
    cells = [row.split("|")[1:3] for row in rows]
    assert cells == [[f" {way.title} ", f" {variant.title} "] for way in RESERVING_WAYS for variant in RESERVING]


def test_the_cap_is_charged_and_a_new_one_begins_empty(made: Ground) -> None:
    made.begin_cap(hard=2)
    first, second, third = (_create(made, CAP) for _ in range(3))
    assert [first.status, second.status, third.status] == [201, 201, 403]
    assert b"TG201" in third.said
    made.begin_cap(hard=2)
    assert _create(made, CAP).status == 201


def test_the_cap_that_is_kept_in_the_cluster_is_charged_there_and_free_again_when_the_pods_are_gone(
    made: Ground,
) -> None:
    made.clear()
    assert _create(made, KEPT).status == 201
    until("the ledger counts the pod", lambda: _held(made) == 1, 240.0)
    made.clear()
    until("the ledger is empty", lambda: _held(made) == 0, 240.0)


def _held(made: Ground) -> int:
    """What the ledger of the cap in the cluster says that its pods hold."""
    (ledger,) = (each for each in _ledgers(made) if each["spec"].get("namespace") == KEPT.namespace)
    return int(ledger["status"].get("used", {}).get("nvidia.com/gpu", "0"))


def _ledgers(made: Ground) -> list[dict[str, Any]]:
    said = json.loads(made.cluster.kubectl("get", "capledgers", "--all-namespaces", "--output=json").stdout)
    items: list[dict[str, Any]] = said["items"]
    return items


def test_the_floor_that_keeps_something_writes_it_before_it_answers(made: Ground) -> None:
    before = _revision_of_the_floor(made)
    assert _create(made, FLOOR).status == 201
    assert _revision_of_the_floor(made) == before
    assert _create(made, FLOOR_KEPT).status == 201
    assert _revision_of_the_floor(made) > before


def _revision_of_the_floor(made: Ground) -> int:
    (ledger,) = (each for each in _ledgers(made) if each["spec"]["cap"] == "floor")
    return int(ledger["metadata"]["resourceVersion"])


def test_the_quota_is_charged_and_free_again_when_the_pods_are_gone(made: Ground) -> None:
    made.clear()
    assert _create(made, QUOTA).status == 201
    assert made.used() == "1"
    made.clear()
    assert made.used() == "0"


def test_the_table_and_the_json_have_every_variant_by_one_client_and_by_several(taken: dict[Way, Round]) -> None:
    found = [figure for way, each in taken.items() for figure in figures([each], way)]
    _, _, *rows = table(found)
    cells = [row.split("|")[1:3] for row in rows]
    pairs = [(way, variant) for way in WAYS for variant in VARIANTS]
    assert cells == [[f" {way.title} ", f" {variant.title} "] for way, variant in pairs]
    told = json.loads(json.dumps([asdict(figure) for figure in found]))
    assert [(Way(each["clients"], each["seldom"]), each["variant"]) for each in told] == [
        (way, each.name) for way, each in pairs
    ]


def test_who_is_full_refuses_and_a_refusal_is_compared_with_that_of_resource_quota(made: Ground) -> None:
    refused = refusals(made, _CREATES)
    assert list(refused) == [ALONE, SELDOM]
    for way, taken in refused.items():
        sizes = {variant: len(sample.latencies) for variant, sample in taken.items()}
        assert sizes == dict.fromkeys(REFUSING, _CREATES)
        asked = {variant: sample.calls.number for variant, sample in taken.items()}
        assert asked == {FLOOR: _CREATES, FLOOR_HTTP2: _CREATES, CAP: _CREATES, KEPT: _CREATES, QUOTA: 0}
        found = refusal_figures([taken], way)
        (quota,) = (each for each in found if each.variant == QUOTA.name)
        assert _rounded(quota.p50_ratio) == {"middle": 1.0, "least": 1.0, "most": 1.0}
        _, _, *rows = refusal_table(found)
        assert [row.split("|")[1:3] for row in rows] == [[f" {way.title} ", f" {each.title} "] for each in REFUSING]


def test_what_is_added_is_what_the_median_of_a_round_is_longer_than_without_a_webhook() -> None:
    one = {NONE: _sample(0.001, 0.002, 0.003), FLASK: _sample(0.003, 0.004, 0.009), RULES: _sample(0.005, 0.006, 0.010)}
    two = {NONE: _sample(0.002, 0.002, 0.002), FLASK: _sample(0.003, 0.003, 0.003), RULES: _sample(0.005, 0.005, 0.005)}
    none, flask, rules = figures([one, two], ALONE)
    assert (none.added, none.added_ratio, none.quota_ratio) == (None, None, None)
    assert (rules.quota_ratio, rules.per_second_of_quota) == (None, None)
    assert _rounded(flask.added) == {"middle": 1.5, "least": 1.0, "most": 2.0}
    assert _rounded(rules.added) == {"middle": 3.5, "least": 3.0, "most": 4.0}
    assert _rounded(flask.added_ratio) == {"middle": 1.0, "least": 1.0, "most": 1.0}
    assert _rounded(rules.added_ratio) == {"middle": 2.5, "least": 2.0, "most": 3.0}
    assert (round(rules.p50, 6), round(rules.p99, 6), round(rules.p50_ratio, 6)) == (5.0, 10.0, 2.5)
    assert round(rules.per_second, 6) == round(6 / 0.036, 6)


def test_a_round_in_which_the_trivial_webhook_seems_to_cost_nothing_gives_no_ratio() -> None:
    one = {NONE: _sample(0.003), FLASK: _sample(0.002), RULES: _sample(0.004)}
    two = {NONE: _sample(0.003), FLASK: _sample(0.004), RULES: _sample(0.005)}
    assert [figure.added_ratio for figure in figures([one], ALONE)] == [None, None, None]
    assert _rounded(figures([one, two], ALONE)[2].added_ratio) == {"middle": 2.0, "least": 2.0, "most": 2.0}


def _rounded(over: Over | None) -> dict[str, float]:
    assert over is not None
    return {name: round(value, 6) for name, value in asdict(over).items()}


def _sample(*latencies: float) -> Sample:
    return Sample(latencies, sum(latencies), Calls())


def _create(made: Ground, variant: Variant, resources: dict[str, str] | None = None) -> Created:
    (body,) = made.pods(1)
    pod: dict[str, Any] = json.loads(body)
    if resources is not None:
        pod["spec"]["containers"][0]["resources"] = {"requests": resources, "limits": resources}
    return made.client.create(variant.namespace, json.dumps(pod).encode())


def _stored_pods(made: Ground, variant: Variant) -> int:
    return len(json.loads(made.client.read(f"/api/v1/namespaces/{variant.namespace}/pods"))["items"])
