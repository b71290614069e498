"""Histories of pods and claims with devices: what they are, and the lists and events of a watch that show them."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from tallygate.answers.device_hours import parse_grouping
from tallygate.answers.live_hours import HoursQuestion, LiveHours
from tallygate.kube.resource_codec import Bookmark, Changed, Deleted, Replaced
from tallygate.objects.devices import ResourceClaim
from tallygate.objects.timed_pods import TimedPod
from tallygate.state.informers.claim_records import ClaimGroup, create_claim_record
from tallygate.state.informers.pod_records import ChargeGroupInterner, PodRecord, create_pod_record

BEGIN = 1_700_000_000
"""The time, in seconds since 1970, at which the histories begin."""

GPU = "nvidia.com/gpu"
CLASSES = {"gpu": GPU, "nic": ""}
"""The classes of devices, with their extended resources."""

NIC = "nic.deviceclass.resource.k8s.io/devices"
_POD_GROUPS, _CLAIM_GROUPS = ChargeGroupInterner(), ChargeGroupInterner(ClaimGroup)


def format_seconds(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _create_meta(uid: str, namespace: str, created: int, revision: int, **more: Any) -> dict[str, Any]:
    return {
        "uid": uid,
        "name": uid,
        "namespace": namespace,
        "creationTimestamp": format_seconds(created),
        "resourceVersion": str(revision),
        **more,
    }


class PodLife(NamedTuple):
    """A pod from its creation to its deletion; its status has the times of `started` and `ended` if it `shows` them.

    `claim_name` is the claim of kube-scheduler.
    """

    uid: str
    namespace: str
    created: int
    started: int
    ended: int
    deleted: int
    shows_start: bool = True
    shows_end: bool = True
    amount: int = 1
    resource: str = GPU
    labels: tuple[tuple[str, str], ...] = ()
    owner: str = ""
    claim_name: str = ""

    def list_times(self) -> tuple[int, ...]:
        return self.started, self.ended, self.deleted

    def is_stored(self, time: int) -> bool:
        return self.created <= time < self.deleted

    def create_record(self, time: int, revision: int = 1) -> PodRecord:
        """Return what a watch shows at a time."""
        has_ended, on_node = time >= self.ended, time >= self.started
        status: dict[str, Any] = {"phase": "Succeeded" if has_ended else "Running" if on_node else "Pending"}
        if on_node and self.shows_start:
            status["startTime"] = format_seconds(self.started)
        if has_ended and self.shows_end:
            terminated = {"terminated": {"finishedAt": format_seconds(self.ended)}}
            status["containerStatuses"] = [{"name": "main", "state": terminated}]
        if self.claim_name:
            status["extendedResourceClaimStatus"] = {"resourceClaimName": self.claim_name}
        owners = [{"kind": "Job", "name": self.owner, "uid": "j", "controller": True}] if self.owner else None
        requests = {self.resource: self.amount} if self.amount else {}
        pod = {
            "metadata": _create_meta(
                self.uid, self.namespace, self.created, revision, labels=dict(self.labels), ownerReferences=owners
            ),
            "spec": {
                "nodeName": "n1" if on_node else None,
                "containers": [{"name": "main", "resources": {"requests": requests, "limits": requests}}],
                "resourceClaims": [{"name": "d"}] if not self.amount else None,
            },
            "status": status,
        }
        return create_pod_record(msgspec.json.decode(json.dumps(pod), type=TimedPod), _POD_GROUPS)

    def measure(self, begin: int, end: int) -> dict[tuple[str, str], int]:
        """Return its device-seconds in a period, by namespace and name of devices."""
        return {(self.namespace, self.resource): self.amount * max(min(self.ended, end) - max(self.started, begin), 0)}


class ClaimLife(NamedTuple):
    """A claim from its creation to its deletion, and the times of its allocations: from one to before the next.

    `shows_start` is set where the allocation has its time. `pod` is the UID of the pod that owns it, and `users` are
    those that it is reserved for. kube-scheduler made it for its pod if `is_of_scheduler`.
    """

    uid: str
    namespace: str
    created: int
    allocations: tuple[tuple[int, int], ...]
    deleted: int
    shows_start: bool = True
    amount: int = 1
    device_class: str = "gpu"
    pod: str = ""
    users: tuple[str, ...] = ()
    is_of_scheduler: bool = False
    labels: tuple[tuple[str, str], ...] = ()

    def list_times(self) -> tuple[int, ...]:
        return (*(time for times in self.allocations for time in times), self.deleted)

    def is_stored(self, time: int) -> bool:
        return self.created <= time < self.deleted

    def create_record(self, time: int, revision: int = 1) -> PodRecord:
        """Return what a watch shows at a time."""
        status: dict[str, Any] = {}
        for begin, end in self.allocations:
            if begin <= time < end:
                status["allocation"] = {
                    "devices": {
                        "results": [
                            {"request": "d", "driver": "x", "pool": "p", "device": f"{self.uid}-{number}"}
                            for number in range(self.amount)
                        ]
                    },
                    "allocationTimestamp": format_seconds(begin) if self.shows_start else None,
                }
                status["reservedFor"] = [{"resource": "pods", "name": user, "uid": user} for user in self.users]
        owners = [{"kind": "Pod", "name": self.pod, "uid": self.pod, "controller": True}] if self.pod else None
        annotations = {"resource.kubernetes.io/extended-resource-claim": "true"} if self.is_of_scheduler else None
        more = {"labels": dict(self.labels), "ownerReferences": owners, "annotations": annotations}
        request = {"name": "d", "exactly": {"deviceClassName": self.device_class, "count": self.amount}}
        claim = {
            "metadata": _create_meta(self.uid, self.namespace, self.created, revision, **more),
            "spec": {"devices": {"requests": [request]}},
            "status": status,
        }
        return create_claim_record(msgspec.json.decode(json.dumps(claim), type=ResourceClaim), _CLAIM_GROUPS)

    def measure(self, begin: int, end: int) -> dict[tuple[str, str], int]:
        """Return its device-seconds in a period, by namespace and name of devices."""
        seconds = sum(max(min(until, end) - max(since, begin), 0) for since, until in self.allocations)
        return {(self.namespace, CLASSES[self.device_class] or NIC): self.amount * seconds}


Life = PodLife | ClaimLife


def sum_lives(lives: Iterable[Life], begin: int, end: int) -> dict[tuple[str, str], int]:
    """Return the device-seconds of lives in a period by plain arithmetic, by namespace and name of devices."""
    sums: dict[tuple[str, str], int] = {}
    for life in lives:
        for key, seconds in life.measure(begin, end).items():
            sums[key] = sums.get(key, 0) + seconds
    return {key: seconds for key, seconds in sums.items() if seconds}


class Watcher:
    """Watches of a history that fill the hours of a server; `seen` are claims, and pods on nodes, that they show."""

    def __init__(self, lives: Sequence[Life], begin: int, max_sums: int = 20_000) -> None:
        self.now = self._begin = begin
        self._pods = [life for life in lives if isinstance(life, PodLife)]
        self._claims = [life for life in lives if isinstance(life, ClaimLife)]
        self._revision = 1
        self.hours = LiveHours(lambda: self.now, lambda: CLASSES, max_sums)
        self.seen: set[str] = set()
        self.list_all()

    def list_all(self) -> None:
        """List what is stored now, as at the start and after an interruption."""
        self._revision += 1
        for lives, apply in ((self._pods, self.hours.apply_pods), (self._claims, self.hours.apply_claims)):
            records = [self._show(life) for life in lives if life.is_stored(self.now)]
            apply(Replaced(records, self._revision))

    def watch_until(self, end: int) -> None:
        """Deliver the changes until a time."""
        known: list[Life] = [*self._pods, *self._claims]
        changes = {time for life in known for time in (life.created, *life.list_times())}
        for self.now in sorted({end, *(time for time in changes if self.now < time < end)}):
            for lives, apply in ((self._claims, self.hours.apply_claims), (self._pods, self.hours.apply_pods)):
                for life in lives:
                    self._revision += 1
                    if life.deleted == self.now > life.created:
                        last = life.create_record(self.now - 1, self._revision)
                        apply(Deleted(last, self._revision))
                    elif life.is_stored(self.now) and self.now in {life.created, *life.list_times()}:
                        apply(Changed(self._show(life), self._revision))
                self._revision += 1
                apply(Bookmark(self._revision))

    def answer(self, by: str = "namespace", namespace: str | None = None) -> dict[str, Any]:
        grouping = parse_grouping(by)
        assert grouping is not None
        answer: dict[str, Any] = self.hours.answer(HoursQuestion(namespace, by, grouping), self.now, "", lambda: None)
        return answer

    def _show(self, life: Life) -> PodRecord:
        if isinstance(life, ClaimLife) or life.started <= self.now:
            self.seen.add(life.uid)
        return life.create_record(self.now, self._revision)


def sum_items(answer: dict[str, Any], key: str = "seconds") -> dict[tuple[str, str], int]:
    """Return the device-seconds of an answer by namespace and name of devices, without those of zero."""
    sums = dict[tuple[str, str], int]()
    for item in answer["items"]:
        group = item["namespace"], item["resource"]
        sums[group] = sums.get(group, 0) + item[key]
    return {group: seconds for group, seconds in sums.items() if seconds}


def _create_pod(uid: int, gaps: tuple[int, int, int, int], **more: Any) -> PodLife:
    created = BEGIN + gaps[0]
    started = created + gaps[1]
    ended = started + gaps[2]
    return PodLife(f"p{uid}", created=created, started=started, ended=ended, deleted=ended + gaps[3], **more)


def _create_claim(uid: int, gaps: tuple[int, int, int, int, int, int], **more: Any) -> ClaimLife:
    times = [BEGIN + sum(gaps[: number + 1]) for number in range(len(gaps))]
    allocations = tuple((begin, end) for begin, end in (times[1:3], times[3:5]) if begin < end)
    return ClaimLife(f"c{uid}", created=times[0], allocations=allocations, deleted=times[5], **more)


_NAMESPACES = st.sampled_from(("team-a", "team-b"))
_UIDS, _AMOUNTS, _GAPS = st.integers(0, 10**6), st.integers(1, 8), st.integers(0, 40)


def draw_lives(*, shows_all: bool = False) -> st.SearchStrategy[list[Life]]:
    """Return histories of up to twelve pods and claims; with `shows_all` all times are in their status."""
    shows = st.sampled_from((True,) if shows_all else (True, False))
    pods = st.builds(
        _create_pod,
        _UIDS,
        st.tuples(*[_GAPS] * 4),
        namespace=_NAMESPACES,
        shows_start=shows,
        shows_end=shows,
        amount=_AMOUNTS,
        owner=st.sampled_from(("", "train", "tune")),
        labels=st.sampled_from(((), (("team", "vision"),))),
    )
    claims = st.builds(
        _create_claim,
        _UIDS,
        st.tuples(*[_GAPS] * 6),
        namespace=_NAMESPACES,
        shows_start=shows,
        amount=_AMOUNTS,
        device_class=st.sampled_from(tuple(CLASSES)),
        users=st.sampled_from(((), ("p1",), ("p1", "p2"))),
    )
    return st.lists(pods | claims, max_size=12, unique_by=lambda life: life.uid)
