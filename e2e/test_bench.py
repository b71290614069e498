"""The bench compares what it says: each server is called, and evaluates; and the figures are those measured."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from e2e.bench.bench_cluster import BenchCluster, bench_cluster
from e2e.bench.calls import Calls
from e2e.bench.client import CreateResponse
from e2e.bench.figures import Spread, compute_figures, compute_rejection_figures
from e2e.bench.measure import (
    ALONE,
    BLOCK_LOADS,
    LOADS,
    SELDOM,
    Load,
    Round,
    Sample,
    measure_compiled,
    measure_rejections,
    measure_round,
    measure_uncounted,
    measure_with_reservations,
)
from e2e.bench.table import format_rejection_table, format_table
from e2e.bench.variants import (
    BACKSTOP,
    CAP,
    EVERY,
    FLASK,
    FLASK_TWICE,
    FLOOR,
    FLOOR_HTTP2,
    FLOOR_KEPT,
    KEPT,
    NEVER,
    NONE,
    OPEN,
    QUOTA,
    READING,
    REFUSING,
    RESERVING,
    RULES,
    UNCOUNTED,
    VARIANTS,
    Variant,
)
from e2e.local.cluster import LocalCluster
from e2e.ports import Site
from e2e.waiting import until

_CREATES = 4
_GPU = "nvidia.com/gpu"
_OPAQUE = "pod.alpha.kubernetes.io/opaque-int-resource-bananas"


@pytest.fixture(scope="module")
def environment(site: Site) -> Iterator[BenchCluster]:
    if not isinstance(site.cluster, LocalCluster):
        pytest.skip("the bench runs on the local control plane only")
    with bench_cluster(site.cluster) as environment:
        yield environment


@pytest.fixture(scope="module")
def rounds(environment: BenchCluster) -> dict[Load, Round]:
    return measure_round(environment, _CREATES)


def test_a_gate_is_called_once_about_a_complete_pod_as_the_webhook_is_that_it_is_compared_with(
    rounds: dict[Load, Round],
) -> None:
    for each in rounds.values():
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


def test_all_pods_of_a_round_are_deleted_after_it(environment: BenchCluster, rounds: dict[Load, Round]) -> None:
    assert all(len(sample.latencies) >= _CREATES for each in rounds.values() for sample in each.values())
    assert [_count_pods(environment, variant) for variant in EVERY] == [0] * len(EVERY)


def test_only_tallygate_refuses_one_and_a_half_opaque_bananas(environment: BenchCluster) -> None:
    answers = {variant: _create(environment, variant, {_OPAQUE: "1500m"}) for variant in EVERY}
    refused = {variant for variant, each in answers.items() if each.status == 422 and b"TG101" in each.body}
    stored = {variant for variant, each in answers.items() if each.status == 201}
    assert refused == {RULES, CAP, KEPT, OPEN, UNCOUNTED}
    assert stored == {NONE, FLOOR, FLOOR_HTTP2, FLOOR_KEPT, FLASK, FLASK_TWICE, QUOTA, BACKSTOP, READING, NEVER}


def test_every_gate_has_an_in_flight_bound_under_which_caps_are_never_exceeded(environment: BenchCluster) -> None:
    warned = [variant.name for variant, gate in environment.gates.items() if "in-flight-bound-too-short" in gate.log()]
    assert warned == []


def test_a_ledger_has_open_reservations_of_creates_that_failed_during_each_load(environment: BenchCluster) -> None:
    rounds, after = measure_with_reservations(environment, _CREATES, reservations=5)
    assert list(rounds) == list(BLOCK_LOADS)
    for each in rounds.values():
        calls = {variant: sample.calls.number / len(sample.latencies) for variant, sample in each.items()}
        assert calls == {NONE: 0, QUOTA: 0, KEPT: 1, OPEN: 1}
    assert len(after) == len(BLOCK_LOADS)
    assert min(after) >= 5
    assert _count_pods(environment, OPEN) == 0
    found = [figure for load, each in rounds.items() for figure in compute_figures([each], load)]
    _, _, *rows = format_table(found)
    cells = [row.split("|")[1:3] for row in rows]
    assert cells == [[f" {load.title} ", f" {variant.title} "] for load in BLOCK_LOADS for variant in RESERVING]


def test_a_gate_is_not_called_about_a_pod_that_no_policy_concerns(environment: BenchCluster) -> None:
    for load, each in measure_uncounted(environment, _CREATES).items():
        assert {variant: sample.calls.number for variant, sample in each.items()} == {
            NONE: 0,
            UNCOUNTED: 0,
            READING: 0,
            NEVER: 0,
        }, load
    assert _create(environment, UNCOUNTED).status == 201
    assert environment.calls()[UNCOUNTED].number > 0


def test_compiled_objects_are_evaluated_for_each_pod_in_their_namespace_alone(environment: BenchCluster) -> None:
    with environment.apply_backstop():
        for load, each in measure_compiled(environment, _CREATES).items():
            calls = {variant: sample.calls.number / len(sample.latencies) for variant, sample in each.items()}
            assert calls == {NONE: 0, QUOTA: 0, KEPT: 1, BACKSTOP: 0}, load
        answers = {variant: _create(environment, variant, {_GPU: "3"}) for variant in (NONE, QUOTA, KEPT, BACKSTOP)}
        assert {variant for variant, each in answers.items() if b"TG107" in each.body} == {KEPT, BACKSTOP}
    until("no rule is left", lambda: _create(environment, BACKSTOP, {_GPU: "3"}).status == 201, 240.0)


def test_the_cap_is_charged_and_a_new_one_begins_empty(environment: BenchCluster) -> None:
    environment.begin_cap(hard=2)
    first, second, third = (_create(environment, CAP) for _ in range(3))
    assert [first.status, second.status, third.status] == [201, 201, 403]
    assert b"TG201" in third.body
    environment.begin_cap(hard=2)
    assert _create(environment, CAP).status == 201


def test_the_cap_with_a_ledger_in_the_cluster_is_charged_there_and_free_again_after_the_pods_are_deleted(
    environment: BenchCluster,
) -> None:
    environment.clear()
    assert _create(environment, KEPT).status == 201
    until("the ledger counts the pod", lambda: _read_used(environment) == 1, 240.0)
    environment.clear()
    until("the ledger is empty", lambda: _read_used(environment) == 0, 240.0)


def _read_used(environment: BenchCluster) -> int:
    """Return the used amount of the ledger of the cap in the cluster."""
    (ledger,) = (each for each in _ledgers(environment) if each["spec"].get("namespace") == KEPT.namespace)
    return int(ledger["status"].get("used", {}).get("nvidia.com/gpu", "0"))


def _ledgers(environment: BenchCluster) -> list[dict[str, Any]]:
    answers = json.loads(environment.cluster.kubectl("get", "capledgers", "--all-namespaces", "--output=json").stdout)
    items: list[dict[str, Any]] = answers["items"]
    return items


def test_the_floor_that_keeps_something_writes_it_before_it_answers(environment: BenchCluster) -> None:
    before = _revision_of_the_floor(environment)
    assert _create(environment, FLOOR).status == 201
    assert _revision_of_the_floor(environment) == before
    assert _create(environment, FLOOR_KEPT).status == 201
    assert _revision_of_the_floor(environment) > before


def _revision_of_the_floor(environment: BenchCluster) -> int:
    (ledger,) = (each for each in _ledgers(environment) if each["spec"]["cap"] == "floor")
    return int(ledger["metadata"]["resourceVersion"])


def test_the_quota_is_charged_and_free_again_after_the_pods_are_deleted(environment: BenchCluster) -> None:
    environment.clear()
    assert _create(environment, QUOTA).status == 201
    assert environment.read_quota_used() == "1"
    environment.clear()
    assert environment.read_quota_used() == "0"


def test_the_table_and_the_json_have_every_variant_by_one_client_and_by_several(rounds: dict[Load, Round]) -> None:
    found = [figure for load, each in rounds.items() for figure in compute_figures([each], load)]
    _, _, *rows = format_table(found)
    cells = [row.split("|")[1:3] for row in rows]
    pairs = [(load, variant) for load in LOADS for variant in VARIANTS]
    assert cells == [[f" {load.title} ", f" {variant.title} "] for load, variant in pairs]
    figures_read = json.loads(json.dumps([asdict(figure) for figure in found]))
    assert [(Load(each["clients"], each["seldom"]), each["variant"]) for each in figures_read] == [
        (load, each.name) for load, each in pairs
    ]


def test_a_full_gate_rejects_and_a_rejection_is_compared_with_that_of_resource_quota(environment: BenchCluster) -> None:
    refused = measure_rejections(environment, _CREATES)
    assert list(refused) == [ALONE, SELDOM]
    for load, rounds in refused.items():
        sizes = {variant: len(sample.latencies) for variant, sample in rounds.items()}
        assert sizes == dict.fromkeys(REFUSING, _CREATES)
        asked = {variant: sample.calls.number for variant, sample in rounds.items()}
        assert asked == {FLOOR: _CREATES, FLOOR_HTTP2: _CREATES, CAP: _CREATES, KEPT: _CREATES, QUOTA: 0}
        found = compute_rejection_figures([rounds], load)
        (quota,) = (each for each in found if each.variant == QUOTA.name)
        assert _round(quota.p50_ratio) == {"median": 1.0, "minimum": 1.0, "maximum": 1.0}
        _, _, *rows = format_rejection_table(found)
        assert [row.split("|")[1:3] for row in rows] == [[f" {load.title} ", f" {each.title} "] for each in REFUSING]


def test_the_added_time_is_the_median_of_a_round_minus_that_without_a_webhook() -> None:
    one = {NONE: _sample(0.001, 0.002, 0.003), FLASK: _sample(0.003, 0.004, 0.009), RULES: _sample(0.005, 0.006, 0.010)}
    two = {NONE: _sample(0.002, 0.002, 0.002), FLASK: _sample(0.003, 0.003, 0.003), RULES: _sample(0.005, 0.005, 0.005)}
    none, flask, rules = compute_figures([one, two], ALONE)
    assert (none.added, none.added_ratio, none.quota_ratio) == (None, None, None)
    assert (rules.quota_ratio, rules.per_second_of_quota) == (None, None)
    assert _round(flask.added) == {"median": 1.5, "minimum": 1.0, "maximum": 2.0}
    assert _round(rules.added) == {"median": 3.5, "minimum": 3.0, "maximum": 4.0}
    assert _round(flask.added_ratio) == {"median": 1.0, "minimum": 1.0, "maximum": 1.0}
    assert _round(rules.added_ratio) == {"median": 2.5, "minimum": 2.0, "maximum": 3.0}
    assert (round(rules.p50, 6), round(rules.p99, 6), round(rules.p50_ratio, 6)) == (5.0, 10.0, 2.5)
    assert round(rules.per_second, 6) == round(6 / 0.036, 6)


def test_a_round_in_which_the_trivial_webhook_seems_to_cost_nothing_gives_no_ratio() -> None:
    one = {NONE: _sample(0.003), FLASK: _sample(0.002), RULES: _sample(0.004)}
    two = {NONE: _sample(0.003), FLASK: _sample(0.004), RULES: _sample(0.005)}
    assert [figure.added_ratio for figure in compute_figures([one], ALONE)] == [None, None, None]
    assert _round(compute_figures([one, two], ALONE)[2].added_ratio) == {"median": 2.0, "minimum": 2.0, "maximum": 2.0}


def _round(over: Spread | None) -> dict[str, float]:
    assert over is not None
    return {name: round(value, 6) for name, value in asdict(over).items()}


def _sample(*latencies: float) -> Sample:
    return Sample(latencies, sum(latencies), Calls())


def _create(environment: BenchCluster, variant: Variant, resources: dict[str, str] | None = None) -> CreateResponse:
    (body,) = environment.pods(1)
    pod: dict[str, Any] = json.loads(body)
    if resources is not None:
        pod["spec"]["containers"][0]["resources"] = {"requests": resources, "limits": resources}
    return environment.client.create(variant.namespace, json.dumps(pod).encode())


def _count_pods(environment: BenchCluster, variant: Variant) -> int:
    return len(json.loads(environment.client.read(f"/api/v1/namespaces/{variant.namespace}/pods"))["items"])
