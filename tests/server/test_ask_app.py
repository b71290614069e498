"""`POST /v1/ask`, `/v1/headroom`, `GET /v1/usage` and `/v1/hours`: who may ask what, what he sees, and the bounds."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tallygate.admission.kinds import REVIEW_TARGETS
from tallygate.answers.answer_json import VisibleNames
from tallygate.answers.usage_records import AskHours
from tallygate.server.asking.access import AccessReviewer
from tallygate.server.asking.answerer import MAX_WAITING, Answerer, OpenedState
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.ask_request import read_objects
from tallygate.server.asking.identity import TokenAuthenticator
from tallygate.server.asking.rate import create_user_limit
from tallygate.server.telemetry.metrics import ServerMetrics
from tallygate.server.web.admission_middleware import RequestLimits
from tallygate.server.web.ask_app import ASK_PATH, HEADROOM_PATH, HOURS_PATH, USAGE_PATH, AskParts, create_ask_app
from tallygate.server.web.request_log import RequestLog
from tests.answers.asked_clusters import NO_HOURS, build_state, read_policies
from tests.answers.device_histories import GPU, NIC, ClaimLife, PodLife, Watcher
from tests.answers.test_answer_json import ASKED, CLUSTER, MARK, NODE_MARK, POLICIES, create_asked_pod, other
from tests.kube.scripted_server import FakeClock
from tests.server.app_harness import Log
from tests.server.asking.review_answers import respond_review
from tests.state.kubernetes.scripted_api_server import Handler, server

ANN = "ann"
RIGHTS = {
    "create pods": {"team-a", "team-c", other("team-b")},
    "create resourceclaimtemplates": {"team-a"},
    "list pods": {"team-a"},
    "list nodes": set[str](),
}
"""The namespaces in which the user ann may do what; an empty name is all of them."""

_SPEC = b'{"containers": [{"name": "c", "image": "x"}]}'
POD = b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": %s}' % _SPEC


def answer_review(handler: Handler) -> None:
    """Answer a review: the token `ann` is that of ann, who has the rights above."""
    spec = json.loads(handler.scripted.requests[-1].body)["spec"]
    if "token" in spec:
        is_known = spec["token"] == ANN
        respond_review({"authenticated": is_known, "user": {"username": "ann"}})(handler)
        return
    access = spec["resourceAttributes"]
    allowed = access["namespace"] in RIGHTS.get(f"{access['verb']} {access['resource']}", set())
    respond_review({"allowed": allowed})(handler)


class AskHarness:
    """The application over a cluster in memory, for one test; `opened` is called when the state is used.

    `state` and `policies` are those of the next answer.
    """

    def __init__(self, authenticator: TokenAuthenticator, reviewer: AccessReviewer) -> None:
        self.clock = FakeClock()
        self.opened: Callable[[], object] = lambda: None
        self.now: Callable[[], float] = self.clock.now
        self.log = Log()
        self.state = build_state(CLUSTER, with_templates=True)
        self.hours = NO_HOURS
        self.policies = read_policies(POLICIES)

        @contextmanager
        def open_state(_: float) -> Iterator[OpenedState]:
            self.opened()
            yield OpenedState(self.state, datetime(2026, 1, 1, tzinfo=UTC), self.hours)

        self.parts = AskParts(
            authenticator=authenticator,
            reviewer=reviewer,
            user_limit=create_user_limit(self.clock.now),
            answerer=Answerer(open_state, lambda: self.policies, lambda: self.now()),  # noqa: PLW0108 -- a test replaces it
            get_targets=lambda: REVIEW_TARGETS,
        )
        self.request_log = RequestLog(self.log.logger, ServerMetrics("1.2.3"))
        self.app = create_ask_app(self.parts, self.request_log, (), RequestLimits())

    @property
    def client(self) -> FlaskClient:
        """Flask's test client."""
        return self.app.test_client()

    def show_usage(self, namespace: str = "team-a", token: str = ANN) -> TestResponse:
        """Ask for the usage of a namespace."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.client.get(f"{USAGE_PATH}?namespace={namespace}", headers=headers)

    def show_hours(self, token: str = ANN, **query: str) -> TestResponse:
        """Ask for the hours of devices."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.client.get(HOURS_PATH, query_string=query, headers=headers)

    def ask(self, body: bytes | str, token: str = ANN, namespace: str = "team-a", path: str = ASK_PATH) -> TestResponse:
        """Send an ask."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self.client.post(f"{path}?namespace={namespace}", data=body, headers=headers)


@pytest.fixture
def harness() -> Iterator[AskHarness]:
    """Yield the application, whose API server answers up to a hundred reviews."""
    with server(*[answer_review] * 100) as scripted:
        clock = FakeClock()
        config = scripted.client_config
        yield AskHarness(TokenAuthenticator(config, clock.now), AccessReviewer(config, clock.now))
        scripted.responders.clear()


def read(response: TestResponse) -> dict[str, Any]:
    """Return the body of a response, which is JSON."""
    assert response.content_type == "application/json"
    content: dict[str, Any] = json.loads(response.data)
    return content


def test_a_tenant_gets_an_answer_without_names_of_others(harness: AskHarness) -> None:
    response = harness.ask(ASKED)
    content = read(response)
    assert (response.status_code, content["kind"], content["apiVersion"]) == (200, "AskAnswer", "tallygate.dev/v1")
    text = response.data.decode()
    assert MARK not in text
    assert NODE_MARK not in text
    assert {each["object"]["name"] for each in content["objects"]} >= {"large", "fits"}


def test_a_tenant_gets_the_copies_of_his_pods_without_names_of_others(harness: AskHarness) -> None:
    response = harness.ask(ASKED, path=HEADROOM_PATH)
    content = read(response)
    assert (response.status_code, content["kind"], content["apiVersion"]) == (200, "AskHeadroom", "tallygate.dev/v1")
    text = response.data.decode()
    assert MARK not in text
    assert NODE_MARK not in text
    copies = {each["object"]["name"]: each["copies"] for each in content["items"]}
    assert (copies["fits"], copies["large"], copies["elsewhere"]) == (2, 0, 0)
    (fits,) = (each for each in content["items"] if each["object"]["name"] == "fits")
    assert fits["nodes"] == [{"node": None, "copies": 1}, {"node": None, "copies": 1}]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        pytest.param(b'"priorityClassName": "x", "containers"', "Pod team-a/p: no PriorityClass", id="no such class"),
        pytest.param(b'"contaners": [], "containers"', "contaners", id="no such field"),
    ],
)
def test_copies_of_a_pod_that_is_never_stored_are_refused(harness: AskHarness, written: bytes, message: str) -> None:
    response = harness.ask(POD.replace(b'"containers"', written), path=HEADROOM_PATH)
    assert response.status_code == 400
    assert message in read(response)["message"]


def test_copies_count_as_asks(harness: AskHarness) -> None:
    assert [harness.ask(POD, path=HEADROOM_PATH).status_code for _ in range(10)] == [200] * 10
    assert harness.ask(POD, path=HEADROOM_PATH).status_code == 429
    harness.clock.sleep(10)
    harness.opened = lambda: harness.clock.sleep(11)
    response = harness.ask(POD, path=HEADROOM_PATH)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "10")


def test_copies_in_a_longer_answer_than_one_has_are_refused(
    harness: AskHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallygate.answers.asked_headroom.MAX_ROWS", 1)
    response = harness.ask(POD, path=HEADROOM_PATH)
    assert (response.status_code, "ask about fewer pods" in read(response)["message"]) == (413, True)


_PATHS = pytest.mark.parametrize("path", [ASK_PATH, HEADROOM_PATH])


@_PATHS
@pytest.mark.parametrize(
    ("body", "token", "namespace", "code", "message"),
    [
        pytest.param(POD, "", "team-a", 401, "the header `Authorization` is missing", id="no token"),
        pytest.param(POD, "bob", "team-a", 401, "does not accept this token", id="another token"),
        pytest.param(POD, "ann", "team-b", 403, "ann may not create pods in namespace team-b", id="another namespace"),
        pytest.param(
            POD.replace(b'"name": "p"', b'"name": "p", "namespace": "team-b"'),
            *("ann", "team-a", 403, "ann may not create pods in namespace team-b"),
            id="another namespace in the object",
        ),
        pytest.param(
            b'{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}',
            *("ann", "team-a", 403, "ann may not create namespaces"),
            id="a namespace",
        ),
        pytest.param(b"a: [", "ann", "team-a", 400, "line 2", id="no YAML"),
        pytest.param(b"\xff", "ann", "team-a", 400, "not UTF-8", id="no text"),
        pytest.param(b"x: 1", "ann", "team-a", 400, "no object", id="no object"),
        pytest.param(b"", "ann", "team-a", 400, "no object", id="no body"),
        pytest.param(POD + b" " * (1 << 20), "ann", "team-a", 413, "larger than 1048576 bytes", id="a large body"),
        pytest.param(b"x: 1\n---\n" * 1001, "ann", "team-a", 400, "more than 1000 documents", id="too many documents"),
        pytest.param(
            b'{"apiVersion": "v1", "kind": "List", "items": [' + b",".join([POD] * 1001) + b"]}",
            *("ann", "team-a", 413, "1001 objects"),
            id="too many objects",
        ),
        pytest.param(
            b"a: &a [x, x, x, x, x, x, x, x]\n"
            + b"".join(
                b"%c: &%c [%s]\n" % (letter, letter, b", ".join([b"*%c" % (letter - 1)] * 8))
                for letter in range(98, 110)
            )
            + b"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: *m\n",
            *("ann", "team-a", 200, ""),
            id="aliases of a billion values",
        ),
        pytest.param(b"[" * 100_000, "ann", "team-a", 400, "", id="a deep body"),
    ],
)
def test_what_is_not_answered_is_refused_with_what_would_pass(  # noqa: PLR0913, PLR0917  # an ask and its answer
    harness: AskHarness, body: bytes, token: str, namespace: str, code: int, message: str, path: str
) -> None:
    response = harness.ask(body, token, namespace, path)
    content = read(response)
    code = 400 if code == 200 and path == HEADROOM_PATH else code  # it has no findings
    assert response.status_code == code, content
    if code == 200:  # a body that is read has findings about what is wrong in it
        assert content["summary"]["errors"]
        return
    assert (content["kind"], content["status"], content["code"]) == ("Status", "Failure", code)
    assert message in content["message"]
    assert not {MARK, NODE_MARK} & set(content["message"].split())


def test_who_may_list_the_pods_of_a_namespace_sees_its_usage_without_names_of_others(harness: AskHarness) -> None:
    response = harness.show_usage()
    content = read(response)
    assert (response.status_code, content["kind"], content["namespace"]) == (200, "AskUsage", "team-a")
    assert [item["used"] for item in content["items"]] == [6]
    assert [each["name"] for each in content["holders"][0]["holders"]] == ["own"]
    text = response.data.decode()
    assert MARK not in text
    assert NODE_MARK not in text


@pytest.mark.parametrize(
    ("namespace", "token", "code", "message"),
    [
        pytest.param("team-a", "", 401, "the header `Authorization` is missing", id="no token"),
        pytest.param("team-a", "bob", 401, "does not accept this token", id="another token"),
        pytest.param("team-b", ANN, 403, "ann may not list pods in namespace team-b, nor create", id="another"),
        pytest.param("x" * 300, ANN, 403, "ann may not list pods", id="no name of a namespace"),
        pytest.param("%F0%9F%92%A5%00", ANN, 403, "ann may not list pods", id="no text of a name"),
        pytest.param("team-c", ANN, 404, "namespace team-c does not exist", id="no namespace"),
    ],
)
def test_usage_that_is_not_shown_is_refused(
    harness: AskHarness, namespace: str, token: str, code: int, message: str
) -> None:
    response = harness.show_usage(namespace, token)
    assert response.status_code == code, response.data
    assert message in read(response)["message"]


def test_who_may_create_pods_alone_sees_numbers(harness: AskHarness) -> None:
    content = read(harness.show_usage(other("team-b")))
    assert [item["used"] for item in content["items"]] == [6]
    assert {content[key] for key in ("holders", "startable", "waiting", "rejected", "refusals")} == {None}


def watch_pods(harness: AskHarness) -> None:
    """Let the server have seen an hour of pods of team-a, and of another namespace with names of its own."""
    begin = int(datetime(2025, 12, 31, 23, tzinfo=UTC).timestamp())
    own = PodLife("own", "team-a", begin, begin, begin + 9999, begin + 9999, labels=(("team", "maps"),))
    claim = ClaimLife("mine", "team-a", begin, ((begin, begin + 9999),), begin + 9999, device_class="nic")
    others = own._replace(uid=MARK, namespace=other("team-b"), owner=MARK, labels=(("team", MARK),), amount=2)
    harness.hours = Watcher([own, claim, others], begin).hours


def test_who_may_list_the_pods_of_a_namespace_sees_its_hours_alone(harness: AskHarness) -> None:
    """Expect exact seconds in each form of groups, and no name of another namespace."""
    watch_pods(harness)
    harness.clock.sleep(10)
    for by, rows in (
        ("namespace", [(None, None, NIC, 3600, 0, 1), (None, None, GPU, 3600, 1, 0)]),
        ("workload", [("ResourceClaim mine", None, NIC, 3600, 0, 1), ("Pod own", None, GPU, 3600, 1, 0)]),
        ("label=team", [(None, "", NIC, 3600, 0, 1), (None, "maps", GPU, 3600, 1, 0)]),
    ):
        response = harness.show_hours(namespace="team-a", by=by)
        content = read(response)
        answer = msgspec.convert(content, AskHours)
        assert (response.status_code, answer.namespace, answer.by) == (200, "team-a", by)
        assert (content["since"], content["until"]) == ("2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z")
        keys = ("workload", "value", "resource", "seconds", "pods", "claims")
        assert [tuple(item[key] for key in keys) for item in content["items"]] == rows
        assert MARK not in response.data.decode()


def test_who_may_list_all_pods_sees_the_hours_of_all_namespaces(
    harness: AskHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch_pods(harness)
    monkeypatch.setitem(RIGHTS, "list pods", {""})
    hours = {(item["namespace"], item["resource"]): item["seconds"] for item in read(harness.show_hours())["items"]}
    assert hours == {("team-a", GPU): 3600, ("team-a", NIC): 3600, (other("team-b"), GPU): 7200}
    one = read(harness.show_hours(namespace=other("team-b")))
    assert [item["seconds"] for item in one["items"]] == [7200]


@pytest.mark.parametrize(
    ("query", "token", "code", "message"),
    [
        pytest.param({}, ANN, 403, "may not list pods of all namespaces", id="all"),
        pytest.param({"namespace": "team-a"}, "", 401, "the header `Authorization` is missing", id="no token"),
        pytest.param({"namespace": "team-b"}, ANN, 403, "may not list pods in namespace team-b", id="another"),
        pytest.param({"namespace": other("team-b")}, ANN, 403, "may not list pods", id="who may only create pods"),
        pytest.param({"namespace": "x" * 300}, ANN, 403, "may not list pods", id="no name of a namespace"),
        pytest.param({"namespace": "team-a", "by": "user"}, ANN, 400, "workload or label=KEY", id="no groups"),
        pytest.param({"namespace": "team-a", "by": "label=" + "x" * 400}, ANN, 400, "label=KEY", id="a long label"),
        pytest.param(
            {"namespace": "team-a", "by": "label=apps.kubernetes.io/pod-index"},
            *(ANN, 400, "has another value on each pod"),
            id="a label of one pod",
        ),
    ],
)
def test_hours_that_are_not_shown_are_refused(
    harness: AskHarness, query: dict[str, str], token: str, code: int, message: str
) -> None:
    watch_pods(harness)
    response = harness.show_hours(token, **query)
    assert response.status_code == code, response.data
    assert message in read(response)["message"]


def test_asks_about_hours_count_as_asks(harness: AskHarness) -> None:
    """Expect a rate, and an end of what takes too long between two of its parts."""
    watch_pods(harness)
    assert [harness.show_hours(namespace="team-a").status_code for _ in range(11)] == [200] * 10 + [429]
    harness.clock.sleep(10)
    harness.opened = lambda: harness.clock.sleep(11)
    assert harness.show_hours(namespace="team-a").status_code == 503


def test_asks_about_usage_count_as_asks(harness: AskHarness) -> None:
    assert [harness.show_usage().status_code for _ in range(10)] == [200] * 10
    assert harness.ask(POD).status_code == 429
    harness.clock.sleep(10)
    harness.opened = lambda: harness.clock.sleep(11)
    assert harness.show_usage().status_code == 503


def test_one_user_asks_five_times_a_second(harness: AskHarness) -> None:
    codes = [harness.ask(POD).status_code for _ in range(12)]
    assert codes == [200] * 10 + [429] * 2
    assert harness.ask(POD).headers["Retry-After"] == "1"
    harness.clock.sleep(1.0)
    assert [harness.ask(POD).status_code for _ in range(6)] == [200] * 5 + [429]


def test_an_answer_that_takes_too_long_is_ended(harness: AskHarness) -> None:
    harness.opened = lambda: harness.clock.sleep(11)
    response = harness.ask(POD)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "10")
    assert "takes longer than 10 s" in read(response)["message"]


@_PATHS
def test_an_answer_is_late_wherever_its_time_ends(harness: AskHarness, path: str) -> None:
    """End the time at each of its checks, also in the middle of a placement and in the last step."""
    manifests, late = read_objects(f"{ASKED}{create_asked_pod('last')}".encode()), set[str]()
    answer = harness.parts.answerer.answer if path == ASK_PATH else harness.parts.answerer.answer_headroom
    for number in range(1, 100):
        times = iter([0.0] * number + [100.0])
        harness.now = partial(next, times, 100.0)
        try:
            answer(manifests, "team-a", VisibleNames())
        except AskError as error:
            late.add(f"{error.status}: {error}")
        else:
            break
    assert next(times, None) == 100.0, number  # the answer had time for all that it did
    assert number > 20
    assert late == {"503: the answer takes longer than 10 s: ask about fewer objects or pods"}


def test_more_asks_than_wait_are_refused_at_once(harness: AskHarness) -> None:
    answered, waiting = threading.Event(), threading.Semaphore(0)

    def wait() -> None:
        waiting.release()
        answered.wait(30)

    harness.opened = wait
    harness.clock.sleep(10)  # for tokens of the user
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda: codes.append(harness.ask(POD).status_code)) for _ in range(MAX_WAITING + 1)
    ]
    for index, thread in enumerate(threads):
        if index % 10 == 9:
            harness.clock.sleep(10)
        thread.start()
        assert waiting.acquire(timeout=30)
    response = harness.ask(POD)
    answered.set()
    for thread in threads:
        thread.join()
    assert (response.status_code, response.headers["Retry-After"]) == (429, "1")
    assert f"{MAX_WAITING} asks wait" in read(response)["message"]
    assert codes == [200] * (MAX_WAITING + 1)


def test_an_error_of_ours_has_no_text_of_the_cluster(harness: AskHarness) -> None:
    def fail() -> None:
        raise RuntimeError(f"{MARK} {NODE_MARK}")

    harness.opened = fail
    response = harness.ask(POD)
    assert response.status_code == 500
    assert MARK not in response.data.decode()
    assert MARK in harness.log.text
