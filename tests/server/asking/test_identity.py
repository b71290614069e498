"""The user of a bearer token: what the API server is asked, which answers are believed, and what strangers cause."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from threading import Event
from typing import Any

import pytest

from tallygate.server.asking.identity import (
    MAX_REVIEWS_AT_A_TIME,
    MAX_TOKEN_LENGTH,
    NEW_TOKENS,
    NEW_TOKENS_OF_ADDRESS,
    AcceptedAudiences,
    Asker,
    TokenAuthenticator,
)
from tests.kube.scripted_server import FakeClock
from tests.server.asking.review_answers import (
    BROKEN,
    catch_ask_error,
    list_texts,
    respond_after,
    respond_review,
    run_at_once,
)
from tests.state.kubernetes.scripted_api_server import (
    Handler,
    Responder,
    ScriptedApiServer,
    respond,
    respond_json,
    server,
)

TOKEN = "s3cr3t.t0ken-of_ann~+/=="  # noqa: S105  # a made-up token
HEADER = f"Bearer {TOKEN}"
ADDRESS = "192.0.2.7"
USER: Mapping[str, Any] = {
    "username": "ann",
    "uid": "u-ann",
    "groups": ["system:authenticated", "team-a"],
    "extra": {"z": ["1", "2"], "a": ["3"]},
}
ASKER = Asker("ann", "u-ann", ("system:authenticated", "team-a"), (("a", ("3",)), ("z", ("1", "2"))))
BOTH = AcceptedAudiences()
NAMED = AcceptedAudiences(("tallygate",), of_api_server=False)
OWN = AcceptedAudiences((), of_api_server=True)
REFUSED = respond_review({"error": f"[invalid bearer token {TOKEN}, keys of the issuer]"})


def accept(user: Mapping[str, Any] = USER, **more: Any) -> Responder:
    """Return the answer for a token that is accepted."""
    return respond_review({"authenticated": True, "user": user, **more})


def authenticator(
    scripted: ScriptedApiServer, clock: FakeClock, audiences: AcceptedAudiences = BOTH
) -> TokenAuthenticator:
    """Return an authenticator that asks the server."""
    return TokenAuthenticator(scripted.client_config, clock.now, audiences)


def list_specs(scripted: ScriptedApiServer) -> list[dict[str, Any]]:
    """Return the specs of the reviews that the server received."""
    reviews = [json.loads(request.body) for request in scripted.requests]
    assert {(each["apiVersion"], each["kind"]) for each in reviews} <= {("authentication.k8s.io/v1", "TokenReview")}
    return [each["spec"] for each in reviews]


def test_a_token_for_the_api_server_takes_one_review_without_audiences() -> None:
    with server(accept(audiences=["https://kubernetes.default.svc"])) as scripted:
        assert authenticator(scripted, FakeClock()).authenticate(HEADER, ADDRESS) == ASKER
    (request,) = scripted.requests
    assert (request.method, request.path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
    assert list_specs(scripted) == [{"token": TOKEN}]


def test_a_token_for_the_named_audience_is_accepted_by_the_second_review() -> None:
    with server(REFUSED, accept(audiences=["tallygate"])) as scripted:
        assert authenticator(scripted, FakeClock()).authenticate(HEADER, ADDRESS) == ASKER
    assert list_specs(scripted) == [{"token": TOKEN}, {"token": TOKEN, "audiences": ["tallygate"]}]


@pytest.mark.parametrize("audiences", [None, [], ["https://kubernetes.default.svc"], ["tallygate-2"]])
def test_an_api_server_that_does_not_confirm_a_named_audience_is_not_believed(audiences: list[str] | None) -> None:
    """TokenReviewStatus.audiences: a client that sets audiences must find one of them in the answer."""
    more: dict[str, Any] = {} if audiences is None else {"audiences": audiences}
    with server(accept(**more)) as scripted:
        error = catch_ask_error(lambda: authenticator(scripted, FakeClock(), NAMED).authenticate(HEADER, ADDRESS))
    assert error.status == HTTPStatus.UNAUTHORIZED


@pytest.mark.parametrize(("audiences", "specs"), [(OWN, [{}]), (NAMED, [{"audiences": ["tallygate"]}])])
def test_only_the_audiences_of_the_settings_are_tried(
    audiences: AcceptedAudiences, specs: list[dict[str, Any]]
) -> None:
    with server(REFUSED) as scripted:
        error = catch_ask_error(lambda: authenticator(scripted, FakeClock(), audiences).authenticate(HEADER, ADDRESS))
    assert error.status == HTTPStatus.UNAUTHORIZED
    assert list_specs(scripted) == [{"token": TOKEN} | each for each in specs]


def test_a_refusal_states_what_would_pass_and_neither_the_token_nor_the_words_of_the_api_server() -> None:
    with server(REFUSED, REFUSED) as scripted:
        error = catch_ask_error(lambda: authenticator(scripted, FakeClock()).authenticate(HEADER, ADDRESS))
    assert error.message == (
        "the API server does not accept this token, or it is for another audience. Send `Authorization: Bearer TOKEN`"
        ' with a valid token of this cluster for the API server\'s own audience or the audience "tallygate", as of'
        " `kubectl create token SERVICEACCOUNT --audience=tallygate`"
    )
    assert error.create_headers() == [("WWW-Authenticate", 'Bearer realm="tallygate"')]
    assert "issuer" not in list_texts(error)
    assert TOKEN not in list_texts(error)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (None, "the header `Authorization` is missing"),
        ("", "the header `Authorization` is missing"),
        ("Bearer", "is not `Bearer TOKEN`"),
        ("Bearer   ", "is not `Bearer TOKEN`"),
        (TOKEN, "is not `Bearer TOKEN`"),
        (f"Basic {TOKEN}", "is not `Bearer TOKEN`"),
        (f"Bearer\t{TOKEN}", "is not `Bearer TOKEN`"),
        (f"Bearer {TOKEN} {TOKEN}", "characters"),
        (f"Bearer {TOKEN},Bearer {TOKEN}", "characters"),
        (f"Bearer {TOKEN}\n", "characters"),
        ("Bearer a=b", "characters"),
        ("Bearer ===", "characters"),
        ('Bearer "quoted"', "characters"),
        ("Bearer t\xf6ken", "characters"),
        ("Bearer \u0661\u0662", "characters"),
        ("Bearer nul\0", "characters"),
        ("Bearer " + "x" * (MAX_TOKEN_LENGTH + 1), "more than 16384 characters"),
    ],
)
def test_what_is_no_bearer_token_is_refused_without_a_review(header: str | None, reason: str) -> None:
    with server() as scripted:
        error = catch_ask_error(lambda: authenticator(scripted, FakeClock()).authenticate(header, ADDRESS))
    assert error.status == HTTPStatus.UNAUTHORIZED
    assert reason in error.message
    assert "Send `Authorization: Bearer TOKEN`" in error.message
    assert TOKEN not in list_texts(error)
    assert scripted.requests == []


@pytest.mark.parametrize("header", [f"bearer {TOKEN}", f"BEARER   {TOKEN} ", "Bearer " + "x" * MAX_TOKEN_LENGTH])
def test_the_scheme_is_read_in_any_case_and_the_longest_token_is_reviewed(header: str) -> None:
    with server(accept()) as scripted:
        assert authenticator(scripted, FakeClock()).authenticate(header, ADDRESS) == ASKER
    assert list_specs(scripted) == [{"token": header[7:].strip()}]


@pytest.mark.parametrize("name", BROKEN)
def test_an_api_server_that_cannot_be_understood_is_503_and_asked_again(name: str) -> None:
    with server(BROKEN[name], accept()) as scripted:
        tokens = authenticator(scripted, FakeClock())
        error = catch_ask_error(lambda: tokens.authenticate(HEADER, ADDRESS))
        assert error.status == HTTPStatus.SERVICE_UNAVAILABLE
        assert error.message.startswith("the API server cannot be asked who you are: ")
        assert error.create_headers() == [("Retry-After", "1")]
        assert TOKEN not in list_texts(error)
        assert tokens.authenticate(HEADER, ADDRESS) == ASKER


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": "true", "user": USER},
        {"authenticated": 1, "user": USER},
        {"authenticated": True, "user": [TOKEN]},
        {"authenticated": True, "user": None},
        {"authenticated": True, "user": {**USER, "username": 7}},
        {"authenticated": True, "user": {**USER, "groups": "system:masters"}},
        {"authenticated": True, "user": {**USER, "extra": {"a": "b"}}},
        {"authenticated": True, "user": USER, "audiences": "tallygate"},
        {"authenticated": True},
        {"authenticated": True, "user": {}},
        {"authenticated": True, "user": {"username": "", "groups": ["system:masters"]}},
    ],
)
def test_an_answer_of_wrong_types_or_without_a_user_authenticates_no_user(status: dict[str, Any]) -> None:
    with server(respond_review(status)) as scripted:
        error = catch_ask_error(lambda: authenticator(scripted, FakeClock()).authenticate(HEADER, ADDRESS))
    assert error.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert TOKEN not in list_texts(error)


@pytest.mark.parametrize("status", [{}, {"authenticated": False, "user": USER}, {"user": USER}])
def test_an_answer_with_a_user_that_is_not_authenticated_is_a_refusal(status: dict[str, Any]) -> None:
    answer = respond_review(status)
    with server(answer, answer) as scripted:
        error = catch_ask_error(lambda: authenticator(scripted, FakeClock()).authenticate(HEADER, ADDRESS))
    assert error.status == HTTPStatus.UNAUTHORIZED


def test_missing_fields_of_a_user_are_empty() -> None:
    user = {"username": "ann", "groups": None, "extra": {"a": None}, "later": 1}
    with server(accept(user)) as scripted:
        asker = authenticator(scripted, FakeClock()).authenticate(HEADER, ADDRESS)
    assert asker == Asker("ann", extra=(("a", ()),))


def test_a_server_without_the_right_to_review_says_so() -> None:
    with server(respond_json(403, message="tokenreviews is forbidden: User gate")) as scripted:
        error = catch_ask_error(lambda: authenticator(scripted, FakeClock()).authenticate(HEADER, ADDRESS))
    assert error.message == (
        "the API server cannot be asked who you are: this server has no right to create tokenreviews. Ask again in 1 s"
    )
    assert error.detail == "the API server answers 403 to the creation of tokenreviews"


@pytest.mark.parametrize(("sent", "stated"), [("7", 7), ("0", 1), ("900", 60)])
def test_an_api_server_that_asks_for_a_pause_gets_it(sent: str, stated: int) -> None:
    def send(handler: Handler) -> None:
        handler.send_response(429)
        handler.send_header("Retry-After", sent)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with server(send) as scripted:
        error = catch_ask_error(lambda: authenticator(scripted, FakeClock()).authenticate(HEADER, ADDRESS))
    assert (error.status, error.retry_after) == (HTTPStatus.SERVICE_UNAVAILABLE, stated)


def test_an_unreachable_api_server_is_503_and_its_cause_is_for_the_log_alone() -> None:
    with server() as scripted:
        tokens = authenticator(scripted, FakeClock())
    error = catch_ask_error(lambda: tokens.authenticate(HEADER, ADDRESS))
    assert error.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert "the API server cannot be reached: " in error.detail
    assert "127.0.0.1" not in error.message
    assert TOKEN not in list_texts(error)


def test_answers_are_kept_for_ten_seconds_also_refusals() -> None:
    clock = FakeClock()
    with server(accept(), REFUSED, REFUSED, REFUSED, REFUSED, accept({"username": "wrong"})) as scripted:
        tokens = authenticator(scripted, clock)
        for _ in range(3):
            assert tokens.authenticate(HEADER, ADDRESS) == ASKER
            catch_ask_error(lambda: tokens.authenticate("Bearer wrong", ADDRESS))
        assert len(scripted.requests) == 3
        clock.time += 10
        catch_ask_error(lambda: tokens.authenticate(HEADER, ADDRESS))
        assert tokens.authenticate("Bearer wrong", ADDRESS) == Asker("wrong")
    assert len(scripted.requests) == 6


def test_threads_with_one_token_cause_one_review() -> None:
    arrived, go = Event(), Event()

    def meanwhile() -> None:
        assert arrived.wait(30)
        go.set()

    with server(respond_after(arrived, go, accept())) as scripted:
        tokens = authenticator(scripted, FakeClock())
        assert run_at_once(8, lambda: tokens.authenticate(HEADER, ADDRESS), meanwhile) == [ASKER] * 8


def _review_new_tokens(tokens: TokenAuthenticator, count: int, address: str) -> list[HTTPStatus]:
    """Return the statuses of `count` tokens that were not sent before."""
    errors = [
        catch_ask_error(lambda token=f"Bearer {address}-{number}": tokens.authenticate(token, address))  # type: ignore[misc]  # a default of this type
        for number in range(count)
    ]
    assert all(error.retry_after == 1 for error in errors if error.status == HTTPStatus.TOO_MANY_REQUESTS)
    return [error.status for error in errors]


def test_strangers_with_random_tokens_are_limited_by_address_and_together_and_those_who_were_accepted_go_on() -> None:
    clock = FakeClock()
    of_address, of_all = NEW_TOKENS_OF_ADDRESS.burst, NEW_TOKENS.burst
    with server(accept(), *[REFUSED] * of_all, accept()) as scripted:
        tokens = authenticator(scripted, clock, OWN)
        assert tokens.authenticate(HEADER, ADDRESS) == ASKER
        clock.time += 10
        statuses = _review_new_tokens(tokens, of_address + 10, "192.0.2.1")
        assert statuses == [HTTPStatus.UNAUTHORIZED] * of_address + [HTTPStatus.TOO_MANY_REQUESTS] * 10
        statuses = _review_new_tokens(tokens, of_address, "192.0.2.2")
        assert statuses == [HTTPStatus.UNAUTHORIZED] * (of_all - of_address)
        assert _review_new_tokens(tokens, 1, "192.0.2.3") == [HTTPStatus.TOO_MANY_REQUESTS]
        assert tokens.authenticate(HEADER, "192.0.2.1") == ASKER


def test_a_token_that_is_no_longer_accepted_is_a_new_one_again() -> None:
    clock = FakeClock()
    burst = NEW_TOKENS_OF_ADDRESS.burst
    with server(accept(), REFUSED, *[REFUSED] * burst) as scripted:
        tokens = authenticator(scripted, clock, OWN)
        tokens.authenticate(HEADER, ADDRESS)
        clock.time += 10
        assert catch_ask_error(lambda: tokens.authenticate(HEADER, ADDRESS)).status == HTTPStatus.UNAUTHORIZED
        clock.time += 10
        _review_new_tokens(tokens, burst, ADDRESS)
        assert catch_ask_error(lambda: tokens.authenticate(HEADER, ADDRESS)).status == HTTPStatus.TOO_MANY_REQUESTS


def test_reviews_in_progress_are_limited_and_no_ask_waits_for_a_place() -> None:
    go = Event()
    arrivals = [Event() for _ in range(MAX_REVIEWS_AT_A_TIME)]
    busy: list[HTTPStatus] = []
    numbers = iter(range(MAX_REVIEWS_AT_A_TIME))
    with server(*(respond_after(arrived, go, accept()) for arrived in arrivals)) as scripted:
        tokens = authenticator(scripted, FakeClock(), OWN)

        def meanwhile() -> None:
            assert all(arrived.wait(30) for arrived in arrivals)
            busy.append(catch_ask_error(lambda: tokens.authenticate("Bearer one-more", ADDRESS)).status)
            go.set()

        askers = run_at_once(
            MAX_REVIEWS_AT_A_TIME, lambda: tokens.authenticate(f"Bearer t{next(numbers)}", ADDRESS), meanwhile
        )
    assert askers == [ASKER] * MAX_REVIEWS_AT_A_TIME
    assert busy == [HTTPStatus.TOO_MANY_REQUESTS]


def test_tokens_are_kept_by_their_digests_alone() -> None:
    with server(accept()) as scripted:
        tokens = authenticator(scripted, FakeClock())
        tokens.authenticate(HEADER, ADDRESS)
        kept = repr((vars(tokens._answers), vars(tokens._accepted), vars(tokens._new_limit)))  # noqa: SLF001  # all state
    assert TOKEN not in kept


def test_a_user_whose_name_is_not_utf_8_is_not_authenticated() -> None:
    body = b'{"status":{"authenticated":true,"user":{"username":"\xff"}}}'
    with server(respond(201, body)) as scripted:
        error = catch_ask_error(lambda: authenticator(scripted, FakeClock()).authenticate(HEADER, ADDRESS))
    assert error.status == HTTPStatus.SERVICE_UNAVAILABLE


def test_a_redirect_is_not_followed_with_the_token() -> None:
    def redirect(handler: Handler) -> None:
        handler.send_response(307)
        handler.send_header("Location", "/elsewhere")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with server(redirect) as scripted:
        error = catch_ask_error(lambda: authenticator(scripted, FakeClock()).authenticate(HEADER, ADDRESS))
    assert error.status == HTTPStatus.SERVICE_UNAVAILABLE
    assert len(scripted.requests) == 1


def test_a_review_that_answers_200_is_read_as_one_that_answers_201() -> None:
    body = json.dumps({"status": {"authenticated": True, "user": USER}}).encode()
    with server(respond(200, body)) as scripted:
        assert authenticator(scripted, FakeClock()).authenticate(HEADER, ADDRESS) == ASKER
