"""The gate: rules and caps together, as the API server would meet them."""

import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from tests.gate.scene import CAP, GPU, Scene, never, pod, response
from tests.state.attempts import Look, Put
from webhook.accounting.amounts import Amounts
from webhook.admission.change import Phase
from webhook.admission.review import ReviewError
from webhook.errors import TallygateError
from webhook.gate import UndecidedError
from webhook.state.ledger import Kind
from webhook.state.memory import MemoryLedgers
from webhook.state.ports import Attempt, BusyError, LedgerKey, StoreUnavailableError

T = TypeVar("T")

WHOLE = """
apiVersion: tallygate.dev/v1alpha1
kind: ResourceRule
metadata: {name: whole, annotations: {tallygate.dev/why: ask the platform team}}
spec: {resources: [extended]}
---
"""


def test_a_pod_within_its_cap_is_allowed_and_promised_room() -> None:
    scene = Scene()
    assert response(scene.create(3)) == {"uid": "r", "allowed": True}
    assert scene.promised() == {GPU: 3}


def test_a_refusal_says_the_arithmetic() -> None:
    scene = Scene()
    scene.create(3)
    answer = scene.create(2)
    status = response(answer)["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"] == (
        'Pod "p": asks 2 nvidia.com/gpu, cap gpus of this namespace holds 0 of 4, 3 promised, free 1; '
        "held most by Pod p (3, promised): ask for 1 or less, or wait until pods end (TG201, cap gpus)"
    )
    assert (answer.record.verdict, answer.record.codes, answer.record.rules) == ("deny", ("TG201",), ("gpus",))
    assert scene.promised() == {GPU: 3}


def test_cpu_and_memory_are_said_as_people_write_them() -> None:
    scene = Scene(CAP.replace("nvidia.com/gpu: 4", 'requests.cpu: "1", memory: 1Gi'))
    resources = {"requests": {"cpu": "1500m", "memory": "1536Mi"}}
    body = {"metadata": {"uid": "u"}, "spec": {"containers": [{"name": "c", "resources": resources}]}}
    message = response(scene.admit(body))["status"]["message"]
    assert "asks 1500m cpu, cap gpus of this namespace holds 0 of 1, 0 promised, free 1:" in message
    assert "asks 1536Mi memory, cap gpus of this namespace holds 0 of 1Gi, 0 promised, free 1Gi:" in message


@pytest.mark.parametrize(
    ("hard", "held", "asks", "advice"),
    [
        (4, 4, 1, "wait until pods end"),
        (4, 1, 4, "ask for 3 or less, or wait until pods end"),
        (4, 1, 5, "ask for 3 or less"),
        (4, 4, 5, "ask for 4 or less, and wait until pods end"),
        (0, 0, 1, "nothing of it may be held in this namespace"),
    ],
)
def test_a_refusal_advises_to_wait_only_where_waiting_helps(hard: int, held: int, asks: int, advice: str) -> None:
    scene = Scene(CAP.replace("4}", f"{hard}}}"))
    scene.create(held)
    assert response(scene.create(asks))["status"]["message"].endswith(f": {advice} (TG201, cap gpus)")


def test_a_shared_cap_of_none_says_where_nothing_may_be_held() -> None:
    scene = Scene(CAP.replace("4}", "0}").replace("hard:", "shared: true\n  hard:"))
    assert "free 0: nothing of it may be held in these namespaces" in response(scene.create(1))["status"]["message"]


def test_the_growth_of_a_refused_change_is_what_it_asks_and_the_whole_what_would_pass() -> None:
    scene = Scene()
    scene.create(1)
    answer = scene.admit(pod("u", 9), oldObject=pod("u", 2), subResource="resize")
    assert response(answer)["status"]["message"] == (
        'Pod "p": asks 7 nvidia.com/gpu on top of 2, cap gpus of this namespace holds 0 of 4, 1 promised, free 3; '
        "held most by Pod p (1, promised): ask for 5 or less (TG201, cap gpus)"
    )
    assert response(scene.admit(pod("u", 5), oldObject=pod("u", 2), subResource="resize"))["allowed"] is True


def test_a_rule_speaks_before_a_cap_and_nothing_is_promised() -> None:
    scene = Scene(WHOLE + CAP)
    answer = scene.admit(pod("u", "1500m"))
    assert response(answer)["status"]["code"] == 422
    assert response(answer)["status"]["message"].endswith("(TG101, rule whole: ask the platform team)")
    assert (answer.record.verdict, answer.record.codes) == ("deny", ("TG101",))
    assert scene.promised() == {}


def test_the_mutating_phase_charges_nothing() -> None:
    scene = Scene()
    scene.create(3, phase=Phase.MUTATING)
    assert scene.promised() == {}


def test_a_dry_run_is_decided_and_changes_nothing() -> None:
    scene = Scene()
    assert response(scene.create(3, dryRun=True))["allowed"]
    assert not response(scene.create(5, dryRun=True))["allowed"]
    assert scene.promised() == {}


def test_a_namespace_outside_the_cap_is_free() -> None:
    scene = Scene()
    assert response(scene.create(100, namespace="infra"))["allowed"]


def test_each_namespace_has_its_own_ledger() -> None:
    scene = Scene()
    assert response(scene.create(4, namespace="team-a"))["allowed"]
    assert response(scene.create(4, namespace="team-b"))["allowed"]


def test_a_shared_cap_has_one_ledger_for_all_its_namespaces() -> None:
    scene = Scene(CAP.replace("hard:", "shared: true\n  hard:"))
    assert response(scene.create(3, namespace="team-a"))["allowed"]
    refusal = response(scene.create(3, namespace="team-b"))
    assert "cap gpus (shared by its namespaces) holds 0 of 4, 3 promised" in refusal["status"]["message"]


def test_above_the_soft_part_there_is_a_warning() -> None:
    scene = Scene(CAP + "  soft: {nvidia.com/gpu: 2}\n")
    assert "warnings" not in response(scene.create(2))
    assert response(scene.create(1))["warnings"] == [
        'Pod "p": cap gpus of this namespace is at 3 nvidia.com/gpu, above its soft 2 (hard 4) (TG202, cap gpus)'
    ]


def test_a_soft_part_needs_no_hard_one() -> None:
    (warning,) = response(Scene(CAP + "  soft: {pods: 0}\n").create(1))["warnings"]
    assert "is at 1 pods, above its soft 0 (hard none)" in warning


def test_what_is_held_and_what_is_promised_both_take_room() -> None:
    scene = Scene()
    scene.create(1)
    scene.change(tally=Amounts({GPU: 2}))
    message = response(scene.create(2))["status"]["message"]
    assert "holds 2 of 4, 1 promised, free 1; held most by Pod p (1, promised): ask for 1" in message


@pytest.mark.parametrize(("old", "kind"), [({}, Kind.CREATE), ({"oldObject": pod("u", 1)}, Kind.CHANGE)])
def test_a_promise_says_whether_its_pod_is_there_already(old: dict[str, Any], kind: Kind) -> None:
    scene = Scene()
    scene.admit(pod("u", 2), **old)
    ledger = scene.ledger()
    assert ledger is not None
    assert ledger.rows["u"].kind is kind


def test_a_rule_by_label_is_judged_though_no_cap_asks_for_labels() -> None:
    rule = WHOLE.replace("[extended]", "[extended], match: {namespaces: {selector: {matchLabels: {gpu: 'yes'}}}}")
    scene = Scene(rule + CAP, labels={"team-a": {"gpu": "yes"}, "team-b": {}})
    assert not response(scene.admit(pod("u", "1500m")))["allowed"]
    assert response(scene.admit(pod("u", "1500m"), namespace="team-b"))["allowed"]


def test_a_full_cap_starves_no_neighbour_with_promises() -> None:
    scene = Scene(CAP + "---" + CAP.replace("gpus", "all").replace("nvidia.com/gpu: 4", "pods: 1"))
    scene.create(1)
    refusal = response(scene.create(1))
    assert "cap all" in refusal["status"]["message"]
    assert scene.promised("gpus") == {GPU: 1}


def test_every_cap_that_refuses_is_told() -> None:
    scene = Scene(CAP + "---" + CAP.replace("gpus", "all").replace("nvidia.com/gpu: 4", "nvidia.com/gpu: 2"))
    assert len(response(scene.create(5))["status"]["details"]["causes"]) == 2


def test_who_may_break_the_glass_goes_over_and_leaves_a_trace() -> None:
    scene = Scene(CAP + "  exceed: {groups: [firefighters]}\n")
    answer = scene.create(9, userInfo={"username": "jo", "groups": ["firefighters"]})
    assert response(answer) == {"uid": "r", "allowed": True, "auditAnnotations": {"exceeded-caps": "gpus"}}
    assert answer.record.exceeded == ("gpus",)
    assert scene.promised() == {GPU: 9}
    assert not response(scene.create(1))["allowed"]


def test_who_may_break_the_glass_leaves_no_trace_where_others_did() -> None:
    scene = Scene(CAP + "  exceed: {groups: [firefighters]}\n")
    breaker = {"username": "jo", "groups": ["firefighters"]}
    scene.create(9, userInfo=breaker)
    answer = scene.admit(pod("u", 2), oldObject=pod("u", 2), userInfo=breaker)
    assert response(answer) == {"uid": "r", "allowed": True}
    assert answer.record.exceeded == ()


def test_a_cap_on_limits_refuses_a_pod_that_sets_none() -> None:
    scene = Scene(CAP.replace("nvidia.com/gpu: 4", "limits.memory: 1Gi"))
    containers = [{"name": "a", "resources": {"limits": {"memory": "1Mi"}}}, {"name": "b"}]
    answer = scene.admit({"metadata": {"uid": "u"}, "spec": {"containers": containers}})
    assert response(answer)["status"]["message"] == (
        'Pod "p": spec.containers: cap gpus counts limits.memory, and there is no such limit on b: '
        "set one (TG203, cap gpus)"
    )


def bare(*names: str, limit: str = "", **more: Any) -> dict[str, Any]:
    """A pod with a limit of one unit on one resource in the first container, and none on the others."""
    first = {"name": "a", "resources": {"limits": {limit: "1"} if limit else {}}}
    containers = [first, *({"name": name} for name in names)]
    return {"metadata": {"uid": "u"} | more, "spec": {"containers": containers}}


def test_limits_that_a_stored_pod_lacks_do_not_stop_its_change() -> None:
    scene = Scene(CAP.replace("nvidia.com/gpu: 4", "limits.memory: 1Gi"))
    assert response(scene.admit(bare("b", labels={"x": "y"}), oldObject=bare("b")))["allowed"]


def test_a_limit_that_a_change_takes_away_is_missed_whatever_else_is_missing() -> None:
    scene = Scene(CAP.replace("nvidia.com/gpu: 4", "limits.memory: 1Gi, limits.cpu: 4"))
    answer = scene.admit(bare("b"), oldObject=bare("b", limit="cpu"), subResource="resize")
    assert response(answer)["status"]["message"] == (
        'Pod "p": spec.containers: cap gpus counts limits.cpu, and there is no such limit on a: '
        "set one (TG203, cap gpus)"
    )


def test_who_may_break_the_glass_need_set_no_limit() -> None:
    scene = Scene(CAP.replace("nvidia.com/gpu: 4", "limits.memory: 1Gi") + "  exceed: {users: [jane]}\n")
    assert response(scene.admit(bare()))["allowed"]


def test_a_pod_that_has_ended_costs_nothing() -> None:
    scene = Scene()
    ended = pod("u", 9) | {"status": {"phase": "Succeeded"}}
    assert response(scene.admit(ended))["allowed"]
    assert scene.promised() == {}


def test_an_update_that_asks_for_no_more_is_free() -> None:
    scene = Scene()
    assert response(scene.admit(pod("u", 9), oldObject=pod("u", 9)))["allowed"]
    assert scene.promised() == {}


def test_a_resize_charges_what_it_adds() -> None:
    scene = Scene()
    assert not response(scene.admit(pod("u", 9), oldObject=pod("u", 4), subResource="resize"))["allowed"]
    assert response(scene.admit(pod("u", 5), oldObject=pod("u", 2), subResource="resize"))["allowed"]
    assert scene.promised() == {GPU: 3}


def test_a_label_that_brings_a_pod_under_a_cap_charges_all_of_it() -> None:
    scene = Scene(CAP + "  pods: {objects: {matchLabels: {tier: batch}}}\n")
    before, after = pod("u", 5), pod("u", 5)
    after["metadata"]["labels"] = {"tier": "batch"}
    assert not response(scene.admit(after, oldObject=before))["allowed"]
    assert response(scene.admit(before, oldObject=after))["allowed"]


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        ({"priorityClassName": "batch", "nodeSelector": {"gpu": "a100", "zone": "b"}}, True),
        ({"priorityClassName": "batch"}, False),
        ({"priorityClassName": "prod", "nodeSelector": {"gpu": "a100"}}, False),
        ({"nodeSelector": {"gpu": "a100"}}, False),
    ],
)
def test_a_filter_counts_only_pods_of_which_all_is_so(spec: dict[str, Any], counted: bool) -> None:  # noqa: FBT001  # a table
    scene = Scene(CAP + "  pods: {priorityClasses: [batch], nodeSelector: {gpu: a100}}\n")
    assert response(scene.admit(pod("u", 9, **spec)))["allowed"] is not counted


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "DELETE"},
        {"subResource": "status", "oldObject": pod("u", 0)},
        {"subResource": "ephemeralcontainers"},
    ],
)
def test_what_stores_no_request_charges_nothing(request_: dict[str, Any]) -> None:
    scene = Scene()
    assert response(scene.admit(pod("u", 9), **request_))["allowed"]
    assert scene.promised() == {}


def test_a_retry_with_the_same_pod_is_charged_once() -> None:
    scene = Scene()
    for _ in range(3):
        assert response(scene.admit(pod("u", 3)))["allowed"]
    assert scene.promised() == {GPU: 3}


def test_a_workload_is_judged_by_rules_and_charged_by_nobody() -> None:
    scene = Scene(WHOLE + CAP)
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: "9"}}}]}}
    answer = scene.admit({"kind": "ReplicationController", "spec": {"replicas": 3, "template": template}})
    assert response(answer)["allowed"]


LABELLED = CAP.replace('{include: ["team-*"]}', "{selector: {matchLabels: {gpu: 'yes'}}}")


def test_a_cap_by_label_holds_the_namespaces_that_carry_it() -> None:
    scene = Scene(LABELLED, labels={"team-a": {"gpu": "yes"}, "team-b": {}})
    assert not response(scene.create(5))["allowed"]
    assert response(scene.create(5, namespace="team-b"))["allowed"]


def test_a_cap_that_hangs_on_labels_nobody_knows_is_undecided() -> None:
    with pytest.raises(UndecidedError, match="the labels of namespace team-a are not known"):
        Scene(LABELLED).create(1)


def test_a_pod_without_a_uid_cannot_be_charged() -> None:
    with pytest.raises(ReviewError, match=r"object\.metadata\.uid is empty"):
        Scene().admit({"metadata": {}, "spec": {}})
    with pytest.raises(ReviewError, match=r"object\.metadata\.uid is empty"):
        Scene().admit({"spec": {}})


def test_a_pod_that_no_api_server_would_send_is_no_review() -> None:
    with pytest.raises(ReviewError, match="the pod has a quantity that is none"):
        Scene().admit(pod("u", "many"))


def test_new_policies_hold_for_the_next_request() -> None:
    scene = Scene()
    assert response(scene.create(4))["allowed"]
    scene.policies = Scene(CAP.replace("4}", "6}")).policies
    assert response(scene.create(2))["allowed"]
    scene.policies = Scene(CAP.replace("4}", "5}")).policies
    assert not response(scene.create(1))["allowed"]


def test_of_a_hundred_creations_at_once_exactly_as_many_pass_as_there_is_room() -> None:
    scene = Scene(CAP.replace("4}", "50}"))
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: response(scene.create(1)), range(100)))
    assert sum(answer["allowed"] for answer in answers) == 50
    assert scene.promised() == {GPU: 50}


class Failing(MemoryLedgers):
    """A store that gives the ledgers of one cap up: before they are written, or after."""

    def __init__(self, cap: str, failure: TallygateError, *, written: bool = False, then: str = "") -> None:
        super().__init__()
        self.cap = cap
        self.failure = failure
        self.written = written
        self.then = then
        self.failed = False

    def transact(self, key: LedgerKey, attempt: Attempt[T], deadline: float) -> T:
        """Fail once where it is to; from then on the ledgers of the cap named `then` are out of reach."""
        if self.failed and self.then and self.then in key.cap:
            raise StoreUnavailableError("no route to host")
        if self.cap in key.cap and not self.failed and attempt(super().transact(key, Look(), deadline)).ledger:
            self.failed = True
            if self.written:
                super().transact(key, attempt, deadline)
            raise self.failure
        return super().transact(key, attempt, deadline)


@pytest.mark.parametrize("written", [False, True])
def test_a_ledger_that_stays_busy_sends_the_client_away_with_nothing_promised(written: bool) -> None:  # noqa: FBT001  # a table
    scene = Scene(ledgers=Failing("gpus", BusyError("busy"), written=written))
    answer = scene.create(1)
    assert response(answer)["status"]["code"] == 429
    assert response(answer)["status"]["details"]["retryAfterSeconds"] == 1
    assert answer.record.verdict == "busy"
    assert scene.promised() == {}


def test_after_the_deadline_no_ledger_is_asked() -> None:
    scene = Scene()
    scene.now = 5.0
    assert response(scene.create(1))["status"]["code"] == 429
    assert scene.ledger() is None


TWO = CAP.replace("gpus", "a-first") + "---" + CAP.replace("gpus", "b-second")


def test_a_store_out_of_reach_is_undecided_and_what_was_promised_elsewhere_is_taken_back() -> None:
    scene = Scene(TWO, ledgers=Failing("b-second", StoreUnavailableError("connection reset")))
    with pytest.raises(UndecidedError, match="the ledgers are out of reach: connection reset"):
        scene.create(1)
    assert scene.promised("a-first") == {}


def test_a_promise_whose_answer_was_lost_is_taken_back() -> None:
    scene = Scene(ledgers=Failing("gpus", StoreUnavailableError("connection reset"), written=True))
    with pytest.raises(UndecidedError, match="connection reset"):
        scene.create(1)
    assert scene.promised() == {}


def test_a_ledger_out_of_reach_keeps_nobody_from_taking_back_the_others() -> None:
    store = Failing("b-second", StoreUnavailableError("connection reset"), written=True, then="a-first")
    scene = Scene(TWO, ledgers=store)
    with pytest.raises(UndecidedError, match="connection reset"):
        scene.create(1)
    assert scene.promised("b-second") == {}
    store.then = ""
    assert scene.promised("a-first") == {GPU: 1}


class Taken(MemoryLedgers):
    """A store in which other pods take the room of a cap between the check and the write."""

    thief: Scene | None = None

    def transact(self, key: LedgerKey, attempt: Attempt[T], deadline: float) -> T:
        """Let the thief in after the first write to the first cap."""
        outcome = super().transact(key, attempt, deadline)
        if self.thief is not None and "a-first" in key.cap and super().transact(key, Look(), deadline):
            thief, self.thief = self.thief, None
            for _ in range(4):
                assert response(thief.create(1))["allowed"]
        return outcome


def test_room_that_is_gone_when_it_is_written_refuses_and_takes_back_the_first_promise() -> None:
    store = Taken()
    scene = Scene(TWO, ledgers=store)
    store.thief = Scene(CAP.replace("gpus", "b-second"), ledgers=store)
    answer = scene.admit(pod("mine", 1))
    assert response(answer)["status"]["code"] == 403
    assert scene.promised("a-first") == {}
    assert scene.promised("b-second") == {GPU: 4}


def shared() -> MemoryLedgers:
    """Ledgers that others may have kept before."""
    return MemoryLedgers(alone=False)


def test_a_ledger_that_others_may_have_lost_is_made_and_promises_nothing_yet() -> None:
    scene = Scene(TWO, ledgers=shared())
    assert response(scene.create(1))["status"]["code"] == 429
    made = [scene.ledger(cap) for cap in ("a-first", "b-second")]
    assert all(ledger is not None and ledger.converging for ledger in made)
    assert response(scene.create(1))["status"]["code"] == 429
    assert [scene.ledger(cap) for cap in ("a-first", "b-second")] == made


def test_a_dry_run_makes_no_ledger() -> None:
    scene = Scene(ledgers=shared())
    assert response(scene.create(1, dryRun=True))["status"]["code"] == 429
    assert scene.ledger() is None


def test_a_ledger_that_is_shared_says_itself_what_it_allows_and_counts() -> None:
    scene = Scene(ledgers=shared())
    scene.create(1)
    scene.change(converging="", counts=frozenset())
    assert response(scene.create(1))["status"]["code"] == 429
    scene.change(counts=frozenset({GPU}), hard=Amounts({GPU: 1}))
    assert response(scene.create(1))["allowed"]
    assert response(scene.create(1))["status"]["code"] == 403
    assert scene.promised() == {GPU: 1}


def test_a_refusal_is_one_though_another_cap_must_be_counted_first() -> None:
    scene = Scene(TWO, ledgers=shared())
    scene.create(1)
    scene.ledgers.transact(
        scene.key("b-second"),
        Put(lambda found: dataclasses.replace(found or never(), converging="", counts=frozenset({GPU}))),
        0.0,
    )
    assert response(scene.create(5))["status"]["code"] == 403


def test_a_record_tells_who_asked_for_what_and_never_the_object() -> None:
    record = Scene(WHOLE).admit(pod("u", "1500m")).record
    assert (record.uid, record.user, record.operation, record.kind, record.namespace, record.name) == (
        "r",
        "jane",
        "CREATE",
        "Pod",
        "team-a",
        "p",
    )
    assert "1500m" not in json.dumps([str(record)])


def test_a_ledger_that_cannot_promise_yet_sends_the_client_away() -> None:
    scene = Scene()
    scene.create(1)
    scene.change(converging="m1")
    assert response(scene.create(1))["status"]["code"] == 429
    assert scene.promised() == {GPU: 1}


def test_with_a_name_that_a_policy_adds_the_same_ledger_goes_on() -> None:
    scene = Scene()
    scene.create(1)
    scene.policies = Scene(CAP.replace("gpu: 4", "gpu: 4, pods: 1")).policies
    assert response(scene.create(1))["allowed"]
    assert scene.promised() == {GPU: 2, "pods": 1}
    assert not response(scene.create(1))["allowed"]
