"""The admission middleware, driven by Flask's test client."""

import io
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallygate.server.web.admission_middleware import RequestLimits
from tallygate.server.web.http_errors import FirstAttempts
from tallygate.server.web.request_body import BodyError, BodyReader
from tests.effort import examples
from tests.server.app_harness import MUTATE, VALIDATE, AppHarness, create_review


@pytest.mark.parametrize(("path", "phase"), [(MUTATE, "mutate"), (VALIDATE, "validate")])
def test_a_review_is_answered_in_the_phase_of_its_path(path: str, phase: str) -> None:
    answer = AppHarness().client.post(path, data=create_review(), content_type="application/json")
    assert (answer.status_code, answer.mimetype) == (200, "application/json")
    assert answer.get_json()["response"] == {"uid": "u-1", "allowed": True, "warnings": [phase]}


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/json; charset=utf-8", ";;;"])
def test_the_content_type_does_not_matter(content_type: str | None) -> None:
    assert AppHarness().client.post(MUTATE, data=create_review(), content_type=content_type).status_code == 200


def test_a_denial_is_an_answer_too() -> None:
    answer = AppHarness().client.post(VALIDATE, data=create_review("deny"))
    assert answer.status_code == 200
    assert answer.get_json()["response"]["allowed"] is False


def test_a_decision_is_logged_after_the_answer_is_sent() -> None:
    harness = AppHarness()
    answer = harness.client.post(VALIDATE, data=create_review())
    assert (answer.get_json()["response"]["allowed"], harness.log.lines) == (True, [])
    answer.close()
    assert [line["event"] for line in harness.log.lines] == ["decided"]


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"])
def test_any_other_method_is_rejected_with_the_allowed_one(method: str) -> None:
    answer = AppHarness().client.open(MUTATE, method=method)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/admit/",
        "/v1/admit",
        "/v1/admit/MUTATE",
        "/v1/admit/mutate/",
        "/v1/admit/x/mutate",
        "/",
        "//v1/admit/mutate",
    ],
)
def test_any_other_path_is_not_found_with_a_status_in_json(path: str) -> None:
    harness = AppHarness()
    answer = harness.client.post(path, data=create_review())
    assert answer.status_code == 404
    assert answer.get_json()["reason"] == "NotFound"
    assert harness.gate.deadlines == []


FAILURES = {
    "no review": (b"{}", 400, "review", "the body is not a review"),
    "no JSON": (b"hello", 400, "review", "the body is not a review"),
    "nothing": (b"", 400, "review", "the body is not a review"),
    "not UTF-8": (b'{"request":{"uid":"\xff"}}', 400, "review", "the body is not a review"),
    "nested too deep": (b"[" * 100_000, 400, "review", "the body is not a review"),
    "nested too deep in an unknown field": (b'{"x":' + b"[" * 100_000, 400, "review", "the body is not a review"),
    "a gate that cannot decide": (create_review("undecided"), 500, "undecided", "the ledger did not answer"),
    "a gate that crashes": (create_review("crash"), 500, "crash", "its log has the cause"),
}


RETRIES = {
    "an unreachable store": (create_review("unreachable"), "timeout=5s", 0.0, True),
    "the same, with just enough time": (create_review("unreachable"), "timeout=5s", 3.0, True),
    "the same, with too little time": (create_review("unreachable"), "timeout=5s", 3.1, False),
    "the same, with a short timeout": (create_review("unreachable"), "timeout=1s", 0.0, False),
    "the same, without a timeout": (create_review("unreachable"), "", 0.0, True),
    "a store that rejects": (create_review("undecided"), "timeout=5s", 0.0, False),
    "a crash": (create_review("crash"), "timeout=5s", 0.0, False),
    "no review": (b"{}", "timeout=5s", 0.0, False),
    "a decision": (create_review(), "timeout=5s", 0.0, False),
}


@pytest.mark.parametrize("case", RETRIES)
def test_an_answer_asks_for_a_retry_if_another_replica_may_decide_in_time(case: str) -> None:
    body, query, seconds, asks = RETRIES[case]
    times = iter([1000.0])
    harness = AppHarness(monotonic=lambda: next(times, 1000.0 + seconds))
    headers = harness.client.post(f"{VALIDATE}?{query}", data=body).headers
    expected = ("1", "close") if asks else (None, None)
    assert (headers.get("Retry-After"), headers.get("Connection")) == expected


def test_the_attempts_of_a_review_share_its_time_and_the_last_answer_has_no_retry_after() -> None:
    now = [1000.0]
    harness = AppHarness(monotonic=lambda: now[0])

    def attempt(uid: str) -> bool:
        body = create_review("unreachable", uid=uid)
        return "Retry-After" in harness.client.post(f"{VALIDATE}?timeout=5s", data=body).headers

    asks = []
    for _ in range(5):
        asks.append(attempt("u-1"))
        now[0] += 1.0
    assert asks == [True, True, True, True, False]
    assert attempt("u-2")


def test_the_first_attempts_of_a_bounded_number_of_reviews_are_remembered() -> None:
    attempts = FirstAttempts(max_reviews=2)
    assert [attempts.record(uid, at) for uid, at in (("a", 1.0), ("b", 2.0), ("a", 3.0))] == [1.0, 2.0, 1.0]
    assert [attempts.record(uid, at) for uid, at in (("c", 4.0), ("b", 5.0), ("a", 6.0))] == [4.0, 2.0, 6.0]
    assert [attempts.record(uid, at) for uid, at in (("x" * 1000, 7.0), ("x" * 64, 8.0))] == [7.0, 7.0]


@pytest.mark.parametrize("case", FAILURES)
def test_an_undecided_request_is_a_status_and_never_a_denial(case: str) -> None:
    body, code, why, words = FAILURES[case]
    harness = AppHarness()
    answer = harness.client.post(MUTATE, data=body)
    status = answer.get_json()
    assert (answer.status_code, status["kind"], status["code"]) == (code, "Status", code)
    assert words in status["message"]
    assert harness.count("tallygate_admission_failures_total", reason=why) == 1
    assert "Retry-After" not in answer.headers


def test_the_cause_of_a_crash_is_in_the_log_and_not_in_the_answer() -> None:
    harness = AppHarness()
    answer = harness.client.post(MUTATE, data=create_review("crash"))
    assert "secret" not in answer.text
    (line,) = harness.log.lines
    assert (line["level"], line["event"], line["reason"]) == ("error", "undecided", "crash")
    assert "RuntimeError: the secret of the crash" in line["exception"]


ENCODINGS = {"gzip": 415, "br": 415, "gzip, identity": 415, "identity": 200, "": 200}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_only_uncompressed_bodies_are_accepted(encoding: str) -> None:
    answer = AppHarness().client.post(MUTATE, data=create_review(), headers={"Content-Encoding": encoding})
    assert answer.status_code == ENCODINGS[encoding]


class Untouchable(io.RawIOBase):
    """A body that must not be read."""

    def read(self, size: int = -1) -> bytes:
        """Raise an error."""
        raise AssertionError(size)


@pytest.mark.parametrize("length", ["1025", "99999999999", "9" * 5000])
def test_a_body_whose_length_is_too_large_is_rejected_unread(length: str) -> None:
    harness = AppHarness(limits=RequestLimits(max_body_bytes=1024))
    answer = harness.client.post(MUTATE, environ_overrides={"CONTENT_LENGTH": length, "wsgi.input": Untouchable()})
    assert answer.status_code == 413
    assert harness.count("tallygate_admission_failures_total", reason="too-large") == 1


LENGTHS = {"-1": 400, "1e3": 400, "0x10": 400, "٣": 400, "10 ": 400, "+5": 400}


@pytest.mark.parametrize("length", LENGTHS)
def test_an_invalid_length_is_rejected(length: str) -> None:
    answer = AppHarness().client.post(MUTATE, environ_overrides={"CONTENT_LENGTH": length, "wsgi.input": Untouchable()})
    assert answer.status_code == LENGTHS[length]


def test_a_body_that_ends_early_is_rejected() -> None:
    answer = AppHarness().client.post(MUTATE, data=create_review(), environ_overrides={"CONTENT_LENGTH": "5000"})
    assert (answer.status_code, "ended before" in answer.text) == (400, True)


@pytest.mark.parametrize(("size", "code"), [(1024, 400), (1025, 413), (50_000, 413)])
def test_a_chunked_body_is_read_to_the_limit_and_no_further(size: int, code: int) -> None:
    harness = AppHarness(limits=RequestLimits(max_body_bytes=1024))
    stream = io.BytesIO(b" " * size)
    chunked = {"wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    answer = harness.client.post(MUTATE, input_stream=stream, environ_overrides=chunked)
    assert answer.status_code == code
    assert stream.tell() <= 1025


def test_a_chunked_review_is_answered() -> None:
    chunked = {"wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    answer = AppHarness().client.post(VALIDATE, input_stream=io.BytesIO(create_review()), environ_overrides=chunked)
    assert answer.status_code == 200


def test_a_large_body_waits_for_a_place_until_its_timeout() -> None:
    inner: list[int] = []
    harness = AppHarness(limits=RequestLimits(max_body_bytes=1 << 20, timeout=0.01))
    large = b" " * (1 << 17)

    class Nested(io.BytesIO):
        """A large body; while it is read, another arrives."""

        def read(self, size: int | None = -1, /) -> bytes:
            answer = harness.client.post(MUTATE, input_stream=Nested(large), content_length=len(large))
            inner.append(answer.status_code)
            return super().read(size)

    harness.client.post(MUTATE, input_stream=Nested(large), content_length=len(large))
    assert (inner.count(503), inner.count(400)) == (1, 15)
    assert harness.client.post(MUTATE, data=large).status_code == 400


def test_a_large_body_waits_for_half_of_its_clients_time_and_leaves_the_rest_for_another_replica() -> None:
    reader = BodyReader(LARGE, 10.0, max_large=1)
    errors: list[BodyError] = []

    class Nested(io.BytesIO):
        """A large body; while it is read, another arrives."""

        def read(self, size: int | None = -1, /) -> bytes:
            environ = {**ANNOUNCED, "QUERY_STRING": "timeout=20ms", "wsgi.input": Untouchable()}
            with pytest.raises(BodyError) as caught:
                reader.read(environ, 0.0)
            errors.append(caught.value)
            return super().read(size)

    started_at = time.monotonic()
    reader.read({**ANNOUNCED, "wsgi.input": Nested(b" " * LARGE)}, 0.0)
    assert time.monotonic() - started_at < 5.0
    assert [(error.http_error.code, error.http_error.is_transient) for error in errors] == [(503, True)]


class Body(io.BytesIO):
    """A large body; its read raises an error if there is one."""

    def __init__(self, size: int, error: BaseException | None = None) -> None:
        super().__init__(create_review().ljust(size))
        self._error = error

    def read(self, size: int | None = -1, /) -> bytes:
        """Read, or raise the error."""
        if self._error:
            raise self._error
        return super().read(size)


LARGE = 1 << 17
CHUNKED: dict[str, object] = {"wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
ANNOUNCED: dict[str, object] = {"CONTENT_LENGTH": str(LARGE)}
FAILED_READS = {
    "chunked, larger than the limit": (CHUNKED, LARGE + 1, None, 413),
    "shorter than announced": (ANNOUNCED, LARGE - 1, None, 400),
    "chunked, the connection breaks": (CHUNKED, LARGE, ConnectionResetError("reset"), 500),
    "announced, the connection breaks": (ANNOUNCED, LARGE, ConnectionResetError("reset"), 500),
}


@pytest.mark.parametrize("case", FAILED_READS)
def test_large_bodies_whose_read_fails_leave_every_place_free(case: str) -> None:
    environ, size, error, code = FAILED_READS[case]
    harness = AppHarness(limits=RequestLimits(max_body_bytes=LARGE, timeout=0.01))

    def post(body: Body) -> int:
        return harness.client.post(MUTATE, environ_overrides={**environ, "wsgi.input": body}).status_code

    assert [post(Body(size, error)) for _ in range(17)] == [code] * 17
    assert post(Body(LARGE)) == 200


def test_a_read_that_ends_by_more_than_an_error_leaves_every_place_free() -> None:
    """Use a `BaseException`: a panic in the server's library is no `Exception`."""
    reader = BodyReader(LARGE, 0.01, max_large=1)
    with pytest.raises(KeyboardInterrupt), open_large_body(reader, KeyboardInterrupt()):
        pass
    with open_large_body(reader) as body:
        assert len(body) == LARGE
        assert reader.list_reads() == []


@contextmanager
def open_large_body(reader: BodyReader, error: BaseException | None = None) -> Iterator[bytes]:
    """Read a body, and keep its room in the block, as while it is decided; its client waits for 20 ms."""
    environ = {**CHUNKED, "QUERY_STRING": "timeout=20ms", "wsgi.input": Body(LARGE, error)}
    body, free = reader.read(environ, 0.0)
    assert free is not None
    try:
        yield body
    finally:
        free()


def test_large_bodies_that_are_decided_at_a_time_have_the_bytes_of_one_body_of_the_largest_size_together() -> None:
    reader = BodyReader(2 * LARGE, 10.0)
    with open_large_body(reader):
        with open_large_body(reader):
            with pytest.raises(BodyError, match="too many large bodies"), open_large_body(reader):
                pass
            small = {"CONTENT_LENGTH": "2", "wsgi.input": io.BytesIO(b"{}")}
            assert reader.read(small, 0.0) == (b"{}", None)
        with open_large_body(reader) as again:
            assert len(again) == LARGE


@pytest.mark.parametrize(("uid", "code"), [("crash", 500), ("undecided", 500), ("u-1", 200)])
def test_a_decision_frees_the_room_of_its_body_also_if_it_fails(uid: str, code: int) -> None:
    harness = AppHarness(limits=RequestLimits(max_body_bytes=LARGE, timeout=0.01))
    body = create_review(uid).ljust(LARGE)
    assert [harness.client.post(VALIDATE, data=body).status_code for _ in range(20)] == [code] * 20


DEADLINES = {
    "no timeout": ("", 10.0),
    "a shorter one": ("timeout=5s", 5.0),
    "a longer one": ("timeout=30s", 10.0),
    "in milliseconds": ("timeout=250ms", 0.25),
    "escaped": ("timeout=5%73", 5.0),
    "the first of two": ("timeout=5s&timeout=1s", 5.0),
    "beside others": ("a=b&timeout=5s", 5.0),
    "nothing": ("timeout=0s", 10.0),
    "empty": ("timeout=", 10.0),
    "garbage": ("timeout=soon", 10.0),
    "negative": ("timeout=-5s", 10.0),
    "a bare number": ("timeout=5", 10.0),
    "very long": ("timeout=" + "1s" * 5000, 10.0),
    "not UTF-8": ("timeout=%ff", 10.0),
    "many fields": ("&" * 250, 10.0),
}


@pytest.mark.parametrize("case", DEADLINES)
def test_the_deadline_is_the_earlier_of_the_callers_and_the_gates(case: str) -> None:
    query, seconds = DEADLINES[case]
    harness = AppHarness()
    assert harness.client.post(f"{MUTATE}?{query}", data=create_review()).status_code == 200
    assert harness.gate.deadlines == [1000.0 + seconds]


TOKEN, OLD_TOKEN = "abcdefghijklmnop0123456789", "old-old-old-old-old-old"
TOKENS = {
    f"/v1/admit/{TOKEN}/mutate": 200,
    f"/v1/admit/{OLD_TOKEN}/validate": 200,
    "/v1/admit/mutate": 404,
    "/v1/admit//mutate": 404,
    f"/v1/admit/{TOKEN}": 404,
    f"/v1/admit/{TOKEN}/": 404,
    f"/v1/admit/{TOKEN}/other": 404,
    f"/v1/admit/{TOKEN}/mutate/": 404,
    f"/v1/admit/{TOKEN[:-1]}/mutate": 404,
    f"/v1/admit/{TOKEN}x/mutate": 404,
    f"/v1/admit/{TOKEN.upper()}/mutate": 404,
    f"/x/admit/{TOKEN}/mutate": 404,
    f"/v1/admit/{TOKEN}é/mutate": 404,
    f"{TOKEN}/mutate": 404,
}


@pytest.mark.parametrize("path", TOKENS)
def test_with_tokens_only_the_paths_with_one_exist(path: str) -> None:
    harness = AppHarness(tokens=lambda: (TOKEN.encode(), OLD_TOKEN.encode()))
    assert harness.client.post(path, data=create_review()).status_code == TOKENS[path]


def test_a_token_is_never_logged() -> None:
    harness = AppHarness(tokens=lambda: (TOKEN.encode(),))
    for path, data in itertools.product((f"/v1/admit/{TOKEN}/mutate", f"/v1/admit/{TOKEN}/x"), (create_review(), b"x")):
        harness.client.post(path, data=data)
    assert TOKEN not in harness.log.text


@given(st.binary(max_size=200))
@settings(max_examples=examples(100), deadline=None)
def test_any_bytes_get_an_answer_or_a_bad_request(body: bytes) -> None:
    assert HARNESS.client.post(MUTATE, data=body).status_code in {200, 400}


HARNESS = AppHarness()
