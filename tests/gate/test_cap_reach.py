"""The most that a namespace can have under a cap with guarantees (rule 15): the limit without those of others."""

import random
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from tallygate.admission.capacity_limits import Capacity
from tests.effort import examples
from tests.gate.gate_fixture import CAP, GPU, response
from tests.gate.replica_fixture import ReplicaFixture
from tests.gate.test_whole_workloads import create_job
from tests.gate.test_workload_forecast import workload
from tests.state.informers.pods import pod as stored_pod

_TEAMS = ("team-a", "team-b", "team-c", "team-d")
_GUARANTEED = CAP.replace("gpu: 4", "gpu: 8").replace("hard:", "shared: true\n  hard:") + (
    '  guarantee: [{namespaces: [team-a], amounts: {nvidia.com/gpu: 3}}, {namespaces: ["team-*"], amounts: '
    "{nvidia.com/gpu: 12.5%}}]\n"
)
_NOW = datetime(2026, 12, 1, tzinfo=UTC)
_WAITS = re.compile(r"(?:Wait|or wait) until |before (?:the limit is larger|there is more capacity)")
_ANY_LIMIT = 10**9
"""A limit beyond all requests of these tests: more nodes may come."""


def _create_replica(text: str = _GUARANTEED, capacity: int = 0) -> ReplicaFixture:
    replica = ReplicaFixture(text, _TEAMS)
    replica.follow_gate()
    replica.cap_sources = replica.cap_sources._replace(capacities={"gpus": {GPU: Capacity(capacity)}})
    replica.utc = _NOW
    replica.activate_ledgers()
    return replica


def _review(replica: ReplicaFixture, object_: dict[str, Any], namespace: str = "team-b") -> tuple[int, str]:
    """Return 200 or the code of the rejection, and its message or the warnings."""
    kind, name = object_.get("kind", "Pod"), object_.get("metadata", {}).get("name", "w")
    group = {"Job": "batch", "Deployment": "apps"}.get(kind, "")
    body = replica.admit(object_, kind={"group": group, "kind": kind}, name=name, namespace=namespace, dryRun=True)
    found = response(body)
    if found["allowed"]:
        return 200, " ".join(found.get("warnings", ()))
    return found["status"]["code"], found["status"]["message"]


def _store(replica: ReplicaFixture, uid: str, gpus: int, namespace: str) -> None:
    assert replica.request_pod(uid, gpus, namespace) == 200
    replica.store_pod(uid, gpus, namespace)
    replica.observe(uid)


def test_the_denial_of_a_pod_above_what_others_leave_names_the_most_also_while_they_use_their_guarantees() -> None:
    replica = _create_replica()
    for team in _TEAMS:
        if team != "team-b":
            _store(replica, team, 3 if team == "team-a" else 1, team)
    message = _review(replica, stored_pod("big", 0, "4", "team-b"))[1]
    assert "free 3" in message
    owners = "namespace team-a, namespace team-c, namespace team-d"
    assert f"This namespace never has more than 3: the rest is guaranteed to {owners}. Request 3 or less" in message


def test_a_workload_above_what_others_leave_can_be_denied() -> None:
    replica = _create_replica(_GUARANTEED + "  workloads: deny\n")
    code, warning = _review(replica, workload(1, replicas=3))
    assert (code, "the rollout can never proceed" in warning) == (200, True)
    code, message = _review(replica, workload(1, replicas=4))
    assert code == 403
    owners = "namespace team-a, namespace team-c, namespace team-d"
    assert f"hard 8, of which 5 are guaranteed to {owners}: 3 of them can run at a time" in message
    assert "none of them can ever run" in _review(replica, workload(4, replicas=2))[1]


def test_a_job_above_what_others_leave_never_fits_as_a_whole() -> None:
    code, message = _review(_create_replica(_GUARANTEED + "  admit: whole\n"), create_job(pods=4))
    assert code == 403
    assert "It needs 4 at a time, which the cap never allows. This namespace never has more than 3: the rest is " in (
        message
    )


@pytest.mark.parametrize(
    ("share", "advice", "forecast"),
    [
        (
            "25%",
            "Request 2 or less, or wait until there is more capacity",
            "not all of them can run before there is more capacity",
        ),
        ("{percent: 25%, atMost: 4}", "Request 2 or less, or wait until there is more capacity", "2 of them can run"),
        ("{percent: 25%, atMost: 2}", "Request 2 or less (", "2 of them can run at a time"),
    ],
    ids=["no bound", "a larger bound", "a bound that is reached"],
)
def test_what_more_nodes_may_allow_is_not_called_impossible(share: str, advice: str, forecast: str) -> None:
    """Request 3 GPUs, and 5 by a workload, where a share of 8 GPUs is 2: only `atMost` makes that impossible."""
    replica = _create_replica(CAP.replace("gpu: 4", f"gpu: {share}") + "  workloads: deny\n", 8)
    code, message = _review(replica, stored_pod("big", 0, "3", "team-b"))
    assert (code, advice in message) == (403, True)
    code, message = _review(replica, workload(1, replicas=5))
    assert (code, forecast in message) == (200 if share == "25%" else 403, True), message


def test_no_message_names_namespaces_where_tenants_must_not_know_of_each_other() -> None:
    replica = _create_replica(_GUARANTEED + "  workloads: deny\n  showTopConsumers: false\n")
    for object_ in (workload(1, replicas=4), stored_pod("big", 0, "4", "team-b")):
        message = _review(replica, object_)[1]
        assert "guaranteed to other namespaces" in message
        assert "team-a" not in message


class _Case(NamedTuple):
    """A cap with two limits, of which the first is that of now, and the guarantees of teams by each of them.

    The second one is that of an override or the largest by any capacity, if the limits are percentages of one.
    """

    text: str
    limits: tuple[int, int]
    guaranteed: tuple[dict[str, int], dict[str, int]]
    capacity: int = 0

    def compute_reach(self, team: str) -> int:
        """Return the most that a team may have by any limit, while all others use nothing."""
        return max(
            limit - sum(amount for owner, amount in by_limit.items() if owner != team)
            for limit, by_limit in zip(self.limits, self.guaranteed, strict=True)
        )


def _draw_case(choose: random.Random) -> _Case:
    hard = choose.randint(2, 40)
    limits = (choose.randint(0, hard), hard) if choose.random() < 0.4 else (hard, hard)
    share, capacity = f"{hard}", 0
    if choose.random() < 0.4:
        thousandths, capacity, most = choose.randint(1, 200_000), choose.randint(0, 40), choose.choice([None, hard])
        share = (
            f"{{percent: {thousandths // 1000}.{thousandths % 1000:03}%{'' if most is None else f', atMost: {most}'}}}"
        )
        limits = min(capacity * thousandths // 100_000, most or _ANY_LIMIT), most or _ANY_LIMIT
    entries, guaranteed = [], (dict[str, int](), dict[str, int]())
    for _ in range(choose.randint(1, 3)):
        named = choose.sample(_TEAMS, choose.randint(1, 2)) if choose.random() < 0.6 else ["team-*"]
        percent, amount, is_share = choose.randint(0, 45_000), choose.randint(0, hard // 2), choose.random() < 0.5
        text = f"{percent // 1000}.{percent % 1000:03}%" if is_share else f"{amount}"
        names = ", ".join(f'"{name}"' for name in named)
        entries.append(f"  - {{namespaces: [{names}], amounts: {{nvidia.com/gpu: {text}}}}}\n")
        for limit, by_limit in zip(limits, guaranteed, strict=True):
            for team in _TEAMS if named == ["team-*"] else named:
                by_limit.setdefault(team, limit * percent // 100_000 if is_share else amount)
    text = CAP.replace("gpu: 4", f"gpu: {share}").replace("hard:", "shared: true\n  hard:")
    text += "  guarantee:\n" + "".join(entries)
    if limits[0] != hard and not capacity and share == f"{hard}":
        text += f"  overrides: [{{hard: {{nvidia.com/gpu: {limits[0]}}}, until: 2099-12-04T18:00:00Z}}]\n"
    return _Case(text, limits, guaranteed, capacity)


@pytest.mark.parametrize("start", range(0, 200, 50), ids=lambda start: f"from {start}")
def test_drawn_requests_never_fit_if_no_limit_allows_them_while_others_use_nothing(start: int) -> None:
    for seed in range(start, start + examples(50)):
        choose = random.Random(seed)  # noqa: S311  # reproducible
        case = _draw_case(choose)
        single = _create_replica(case.text + "  workloads: deny\n", case.capacity)
        whole = _create_replica(case.text + "  admit: whole\n", case.capacity)
        for number in range(choose.randint(0, 4)):
            uid, gpus, team = f"p{number}", choose.randint(1, 4), choose.choice(_TEAMS)
            for replica in (single, whole):
                if replica.request_pod(uid, gpus, team) == 200:
                    replica.store_pod(uid, gpus, team)
                    replica.observe(uid)
        for _ in range(4):
            team, gpus, pods = choose.choice(_TEAMS), choose.randint(1, min(max(case.limits), 50)), choose.randint(1, 5)
            detail = case, team, gpus, pods, seed
            code, message = _review(single, stored_pod("big", 0, str(gpus), team), team)
            is_never = code == 403 and _WAITS.search(message) is None
            assert is_never == (gpus > case.compute_reach(team)), (detail, message)
            code, message = _review(single, workload(gpus, replicas=pods), team)
            assert (code == 403) == (gpus * pods > case.compute_reach(team)), (detail, message)
            assert ("none of them can ever run" in message) == (gpus > case.compute_reach(team)), (detail, message)
            job = create_job(pods=pods)
            container = job["spec"]["template"]["spec"]["containers"][0]
            container["resources"] = {"requests": {GPU: f"{gpus}"}, "limits": {GPU: f"{gpus}"}}
            code, message = _review(whole, job, team)
            is_never = code == 403 and "never allows" in message
            assert is_never == (gpus * pods > case.compute_reach(team)), (detail, message)
