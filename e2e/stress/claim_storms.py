"""Storms of claims for devices beside pods, under one cap: creates, deletions, templates, and allocations.

No scheduler has a part in them: the storms write allocations themselves, as kube-scheduler does.
"""

import json
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from e2e.bench.client import Client
from e2e.claims import claim_template, claiming_pod, exactly
from e2e.stress.clients import Attempt, Request, RequestLoad, send_requests
from e2e.stress.device_claims import (
    ALTERNATIVES,
    CLASS,
    ClaimTest,
    allocate,
    choose_alternatives,
    create_both,
    create_claim,
    create_claims,
    deallocate,
    delete_claim,
    prepare_claims,
)
from e2e.stress.environment import StressEnvironment
from e2e.stress.filling import SLACK, complete_outcome, delete_pods, fill_namespace
from e2e.stress.objects import creates, delete
from e2e.stress.outcome import Outcome, compute_outcome, find_unfounded
from e2e.stress.overload import Gates, Size
from e2e.stress.retries import compute_retries, count_requests
from e2e.waiting import until

_BOUND = 8.0  # seconds
_CLIENTS = 8  # of what surrounds a storm
_VISITS = 3.0  # seconds, for the leader to reconcile after that
_SEED = 1
_TEMPLATE_SECONDS = 20.0
_PODS_OF_TEMPLATE, _DELETED = 100, 10
_BACKOFF = 90.0  # seconds; the controller waits twice as long after each refusal of a pod's claim


def overload_with_claims(environment: StressEnvironment, size: Size, gates: Gates) -> Outcome:
    """Create pods with the extended resource and claims of its class: exactly those are stored that the cap allows.

    Every fifth claim has alternatives.

    Raises:
        ClusterError: if something takes too long.
    """
    with prepare_claims(environment, size.hard, gates.bound, gates.count) as test:
        amounts = {f"consumer-{number}": max(ALTERNATIVES) for number in range(1, size.pods, 10)}
        with RequestLoad(environment.access, size.clients, list(_mix(test.namespace, size.pods, amounts))) as load:
            if gates.fault is not None:
                load.until_final(size.pods // 5)
                gates.fault.happens(environment, test.replicas)
        test.until_current()
        title = f"{size.pods:,} creates by {size.clients} clients, half of them claims, {gates.count} replicas"
        fault = f", {gates.fault.title}" if gates.fault else ""
        found = compute_outcome(title + fault, load.attempts, test.usage)
        late = gates.fault.late if gates.fault else 0.0
        if unfounded := find_unfounded(load.attempts, size.hard, gates.bound + late + _VISITS, amounts):
            found.unmet.append(
                f"{len(unfounded)} rejected though the cap was not exhausted, the first: {unfounded[0].message}"
            )
        reservation_seconds = _fill(environment, test, gates.bound + SLACK)
        delete_pods(environment, test.namespace, test.usage, size.hard // 20)
        _delete_claims(environment, test, size.hard // 20)
        deletion_seconds = _fill(environment, test, SLACK)
    return complete_outcome(
        found, test.usage, f"{reservation_seconds:.1f} s (reserved), {deletion_seconds:.1f} s (deleted)"
    )


def replace_claims(environment: StressEnvironment, size: Size) -> Outcome:
    """Create and delete claims of a few names at once, whose pods never come.

    Raises:
        ClusterError: if something takes too long.
    """
    chance = random.Random(_SEED)  # noqa: S311  # it only has to be the same each time
    names = [f"waits-{number}" for number in range(2 * size.hard)]
    with prepare_claims(environment, size.hard, _BOUND) as test:
        chosen = [chance.choice(names) for _ in range(size.pods)]
        requests = [
            *create_claims(test.namespace, chosen[::2]),
            *(delete_claim(test.namespace, name) for name in chosen[1::2]),
        ]
        chance.shuffle(requests)
        attempts = send_requests(environment.access, size.clients, requests)
        test.until_current()
        title = f"{size.pods:,} creates and deletions of {len(names)} claims without pods by {size.clients} clients"
        found = compute_outcome(title, attempts, test.usage)
        reservation_seconds = _fill(environment, test, _BOUND + SLACK)
        _delete_claims(environment, test, size.hard)
        deletion_seconds = _fill(environment, test, SLACK)
    return complete_outcome(
        found, test.usage, f"{reservation_seconds:.1f} s (reserved), {deletion_seconds:.1f} s (deleted)"
    )


def retry_templates(environment: StressEnvironment) -> Outcome:
    """Create pods with claims from a template, five times as many as a cap allows; the controller tries for a while.

    Raises:
        ClusterError: if something takes too long.
    """
    hard = _PODS_OF_TEMPLATE // 5
    with prepare_claims(environment, hard, _BOUND) as test, closing(Client(environment.access)) as client:
        environment.apply(_list_template_objects(test.namespace))
        before, begun = count_requests(client), time.monotonic()
        until("the cap is full", lambda: test.usage.now(test.namespace) == hard, SLACK)
        time.sleep(_TEMPLATE_SECONDS)
        seconds, calls = time.monotonic() - begun, count_requests(client) - before
        stored = len(test.usage.list_uids()) - _PODS_OF_TEMPLATE
        _delete_template_pods(environment, test)
        until("claims were deleted", lambda: test.usage.now(test.namespace) < hard, SLACK)
        deleted_at = time.monotonic()
        until("the cap is full again", lambda: test.usage.now(test.namespace) == hard, _BACKOFF)
        room = time.monotonic() - deleted_at
    title = f"{_PODS_OF_TEMPLATE} pods with a template of claims under a cap of {hard}"
    outcome, _ = compute_retries(title, calls, "resourceclaims", seconds, stored, test.usage)
    return replace(outcome, room=f"{room:.1f} s (deleted, by the controller's next attempts)")


def reallocate_claims(environment: StressEnvironment, size: Size) -> Outcome:
    """Allocate and deallocate claims with alternatives at once, beside pods and claims that come and go.

    Raises:
        ClusterError: if something takes too long.
    """
    with prepare_claims(environment, size.hard, _BOUND) as test:
        names = [f"either-{number}" for number in range(size.hard * 2 // 5)]
        send_requests(
            environment.access,
            size.clients,
            [create_claim(test.namespace, name, choose_alternatives()) for name in names],
        )
        requests = list(_reallocate(test.namespace, names, size.pods))
        attempts = send_requests(environment.access, size.clients, requests)
        test.until_current()
        refused = _count_refused_allocations(attempts, names)
        title = f"{size.pods:,} requests by {size.clients} clients that allocate and deallocate {len(names)} claims"
        title = f"{title}, and create and delete others: {refused} allocations refused"
        found = compute_outcome(title, attempts, test.usage)
        if not refused:
            found.unmet.append("no allocation was refused")
        _delete_unallocated(environment, test, names)
        reservation_seconds = _fill(environment, test, _BOUND + SLACK)
        _delete_claims(environment, test, size.hard // 5)
        deletion_seconds = _fill(environment, test, SLACK)
    return complete_outcome(
        found, test.usage, f"{reservation_seconds:.1f} s (reserved), {deletion_seconds:.1f} s (deleted)"
    )


def _mix(namespace: str, count: int, amounts: dict[str, int]) -> Iterator[Request]:
    """Yield requests for pods and claims in turn; those with an amount get claims with alternatives."""
    for number in range(count):
        name = f"consumer-{number}"
        if number % 2 == 0:
            yield from creates(namespace, [name])
        elif name in amounts:
            yield create_claim(namespace, name, choose_alternatives())
        else:
            yield from create_claims(namespace, [name])


def _reallocate(namespace: str, names: list[str], count: int) -> Iterator[Request]:
    """Yield allocations and their ends, and creates and deletions of other consumers, in the order of chance."""
    chance = random.Random(_SEED)  # noqa: S311  # it only has to be the same each time
    others: list[str] = []
    for number in range(count):
        draw, name = chance.random(), chance.choice(names)
        if draw < 0.55:  # noqa: PLR2004  # a share of the requests, as below
            yield allocate(namespace, name, chance.choice(ALTERNATIVES), is_patch=chance.random() < 0.5)  # noqa: PLR2004
        elif draw < 0.8:  # noqa: PLR2004
            yield deallocate(namespace, name)
        elif draw < 0.95 or not others:  # noqa: PLR2004
            others.append(f"other-{number}")
            yield from (creates if number % 2 else create_claims)(namespace, others[-1:])
        else:
            removed = others.pop(chance.randrange(len(others)))
            yield delete(namespace, removed) if int(removed.partition("-")[2]) % 2 else delete_claim(namespace, removed)


def _count_refused_allocations(attempts: Sequence[Attempt], names: Sequence[str]) -> int:
    """Return the number of refused changes of these claims; the end of an allocation is never refused."""
    return sum(each.name in names and each.status == HTTPStatus.FORBIDDEN for each in attempts)


def _fill(environment: StressEnvironment, test: ClaimTest, within: float) -> float:
    """Fill the namespace with pods and claims in turn; return the seconds. After it no more of either may fit.

    Raises:
        ClusterError: if it is not full in time, or takes more.
    """
    seconds = fill_namespace(environment, test.namespace, test.usage, within, make=create_both)
    test.until_current()
    return seconds


def _delete_claims(environment: StressEnvironment, test: ClaimTest, how_many: int) -> None:
    """Delete `how_many` of the claims, and wait until that is seen."""
    _delete_all(environment, test, _list_claims(environment, test.namespace)[:how_many])


def _delete_unallocated(environment: StressEnvironment, test: ClaimTest, names: Sequence[str]) -> None:
    """Delete those of the claims of these names that have no devices: they count more than they use."""
    stored = _list_claims(environment, test.namespace)
    without = [each for each in stored if "allocation" not in each.get("status", {})]
    _delete_all(environment, test, [each for each in without if each["metadata"]["name"] in names])


def _delete_all(environment: StressEnvironment, test: ClaimTest, claims: Sequence[dict[str, Any]]) -> None:
    requests = [delete_claim(test.namespace, each["metadata"]["name"]) for each in claims]
    send_requests(environment.access, _CLIENTS, requests)
    uids = {each["metadata"]["uid"] for each in claims}
    until("the watch has seen the deletions", lambda: not uids & test.usage.list_uids(), SLACK)


def _list_claims(environment: StressEnvironment, namespace: str) -> list[dict[str, Any]]:
    listed = environment.kubectl("get", "resourceclaims", f"--namespace={namespace}", "--output=json")
    claims: list[dict[str, Any]] = json.loads(listed)["items"]
    return claims


def _list_template_objects(namespace: str) -> list[dict[str, Any]]:
    """Return the template and its pods, which the scheduler leaves alone."""
    pods = [
        claiming_pod("example.com/none:1", f"pod-{number}", resourceClaimTemplateName="one")
        for number in range(_PODS_OF_TEMPLATE)
    ]
    for each in pods:
        each["spec"]["schedulerName"] = "no-scheduler"
    made = [claim_template("one", exactly(1, CLASS)), *pods]
    return [{**each, "metadata": {**each["metadata"], "namespace": namespace}} for each in made]


def _delete_template_pods(environment: StressEnvironment, test: ClaimTest) -> None:
    """Delete pods that have a claim; the garbage collector deletes their claims."""
    claims = _list_claims(environment, test.namespace)[:_DELETED]
    owners = [each["metadata"]["ownerReferences"][0]["name"] for each in claims]
    send_requests(environment.access, _CLIENTS, [delete(test.namespace, name) for name in owners])
