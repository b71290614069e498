"""A storm of pods whose extended resources come by claims, which the test makes in the name of kube-scheduler.

The real controllers take a claim back when its pod is deleted.
"""

import json
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Any

from e2e.bench.client import Access, Client
from e2e.claims import DRIVER, claim, exactly
from e2e.stress.clients import Attempt, Request, send_requests
from e2e.stress.device_claims import CLASS, create_both, get_claims_path, prepare_claims
from e2e.stress.environment import StressEnvironment
from e2e.stress.filling import SLACK, complete_outcome, fill_namespace
from e2e.stress.objects import creates, delete, patch
from e2e.stress.outcome import Outcome, compute_outcome
from e2e.stress.overload import Size
from e2e.waiting import until
from tallygate.objects.devices import EXTENDED_RESOURCE_CLAIM_ANNOTATION

_SCHEDULER = "system:kube-scheduler"
_PROTECTION = "resource.kubernetes.io/delete-protection"
_BOUND = 8.0  # seconds
_SEED = 1


def play_scheduler(environment: StressEnvironment, size: Size) -> Outcome:
    """Create pods, make their claims, and delete the pods at any moment of that.

    Raises:
        ClusterError: if something takes too long.
    """
    with prepare_claims(environment, size.hard, _BOUND) as test, ThreadPoolExecutor(size.clients) as pool:
        names = [
            [f"pod-{client}-{number}" for number in range(size.pods // size.clients)] for client in range(size.clients)
        ]
        played = pool.map(partial(_play, environment.access, test.namespace), names)
        attempts, made = (list(chain.from_iterable(each)) for each in zip(*played, strict=True))
        until("the claims of deleted pods are deleted", lambda: _is_settled(environment, test.namespace), SLACK)
        test.until_current()
        title = f"{size.pods:,} pods by {size.clients} clients, with claims of the scheduler, three of four deleted"
        found = compute_outcome(title, attempts, test.usage)
        found.unmet += [f"the claim of {each.name} is refused: {each.message}" for each in made if not each.is_done]
        room = fill_namespace(environment, test.namespace, test.usage, _BOUND + SLACK, make=create_both)
        test.until_current()
    return complete_outcome(found, test.usage, f"{room:.1f} s (reserved)")


def _play(access: Access, namespace: str, names: Sequence[str]) -> tuple[list[Attempt], list[Attempt]]:
    """Create one pod after the other; return the attempts about pods, and the last attempt to create each claim."""
    chance = random.Random(f"{_SEED} {names[0]}")  # noqa: S311  # it only has to be the same each time
    attempts, made = list[Attempt](), list[Attempt]()
    with closing(Client(access)) as client:
        for name in names:
            attempts += send_requests(access, 1, creates(namespace, [name]))
            if not attempts[-1].is_done:
                time.sleep(chance.random() / 10)
                continue
            uid = json.loads(client.read(f"/api/v1/namespaces/{namespace}/pods/{name}"))["metadata"]["uid"]
            steps = _list_steps(namespace, name, uid)
            done = chance.choice((1, 2, 3, 3))
            made.append(send_requests(access, 1, steps[:1])[-1])
            send_requests(access, 1, steps[1:done])
            if chance.random() < 3 / 4:
                attempts += send_requests(access, 1, [delete(namespace, name)])
            send_requests(access, 1, steps[done:])  # the scheduler goes on, also if the pod is deleted
    return attempts, made


def _list_steps(namespace: str, name: str, uid: str) -> list[Request]:
    """Return the requests of the scheduler for a pod: the claim, its allocation, and the status of the pod."""
    path = get_claims_path(namespace)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}
    made = claim(
        name,
        exactly(1, CLASS),
        annotations={EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
        ownerReferences=[owner],
        finalizers=[_PROTECTION],
    )
    results = [{"request": "gpu", "driver": DRIVER, "pool": "none", "device": name}]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
    }

    def allocate(stored: Mapping[str, Any]) -> dict[str, Any]:
        return {**stored, "status": status}

    mapping = {"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "gpu"}
    named = {"resourceClaimName": name, "requestMappings": [mapping]}
    return [
        Request(name, "POST", path, json.dumps(made).encode(), user=_SCHEDULER),
        Request(name, "PUT", f"{path}/{name}/status", edit=allocate, user=_SCHEDULER),
        patch(namespace, name, {"status": {"extendedResourceClaimStatus": named}}, "status"),
    ]


def _is_settled(environment: StressEnvironment, namespace: str) -> bool:
    """Return whether every claim belongs to a stored pod."""
    here = (f"--namespace={namespace}", "--output=json")
    claims, pods = (json.loads(environment.kubectl("get", kind, *here))["items"] for kind in ("resourceclaims", "pods"))
    uids = {each["metadata"]["uid"] for each in pods}
    return all(each["metadata"]["ownerReferences"][0]["uid"] in uids for each in claims)
