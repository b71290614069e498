"""Signing in and out: the cookie, its time and its key, and the forms of other sites."""

from pathlib import Path

import pytest
from flask import Response
from werkzeug.test import TestResponse

from tallygate.server.asking.ask_error import AskError
from tallygate.server.web.pages.page_address import choose_target
from tallygate.server.web.pages.sessions import COOKIE, LONGEST_SECONDS, PageKeyError, read_keys
from tests.server.pages.browser import ORIGIN, Browser, Outline
from tests.server.test_ask_app import ANN, AskHarness

KEY, OTHER_KEY = b"q" * 43 + b"=", b"r" * 43 + b"="


def read_cookie(response: TestResponse) -> str:
    """Return the cookie that a response sets, with its attributes."""
    (cookie,) = response.headers.getlist("Set-Cookie")
    assert cookie.startswith(f"{COOKIE}=")
    return cookie


def test_a_token_becomes_an_encrypted_cookie_of_this_host(browser: Browser) -> None:
    response = browser.sign_in()
    assert (response.status_code, response.headers["Location"]) == (303, "/page/ask")
    cookie = read_cookie(response)
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={LONGEST_SECONDS}"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    assert ANN not in cookie.partition(";")[0].removeprefix(COOKIE)
    assert browser.get("/page/ask").status_code == 200


def test_the_first_address_leads_to_the_form_to_sign_in_and_back(browser: Browser) -> None:
    for path in ("/", "/page/"):
        response = browser.get(path)
        assert response.status_code == 303
    asked = browser.get("/page/ask?namespace=team-a")
    assert asked.status_code == 401
    (target,) = [field["value"] for field in Outline(asked).find("input") if field.get("name") == "target"]
    assert target == "/page/ask?namespace=team-a"
    assert browser.sign_in(target=target).headers["Location"] == target


@pytest.mark.parametrize(
    "target", ["https://evil.example.com/", "//evil.example.com", "/page/../v1/ask", "/page/x\r\nX: y", "javascript:1"]
)
def test_signing_in_leads_to_no_other_address(target: str) -> None:
    assert choose_target(target) == "/page/"


def test_a_wrong_token_gets_the_form_again_and_no_cookie(browser: Browser) -> None:
    for token in ("bob", "", "ä", "a b"):
        response = browser.sign_in(token)
        assert response.status_code == 401, token
        assert Outline(response).find("form"), token
        assert not [each for each in response.headers.getlist("Set-Cookie") if "Max-Age=0" not in each], token
    assert browser.get("/page/ask").status_code == 401


def test_a_token_that_no_cookie_takes_is_refused_with_one_that_would_pass(browser: Browser) -> None:
    sessions, response = browser.sessions, Response()
    sessions.set_cookie(response, "x" * 2870)
    with pytest.raises(AskError, match=r"2950 characters.*kubectl create token"):
        sessions.set_cookie(response, "x" * 2950)


def test_a_cookie_is_accepted_for_eight_hours(browser: Browser) -> None:
    browser.sign_in()
    browser.harness.clock.sleep(LONGEST_SECONDS - 10)
    assert browser.get("/page/ask").status_code == 200
    browser.harness.clock.sleep(20)
    assert browser.get("/page/ask").status_code == 401


def test_a_token_that_the_api_server_no_longer_accepts_ends_the_session(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser.sign_in()
    monkeypatch.setattr("tests.server.test_ask_app.ANN", "another")
    browser.review_clock.sleep(11)
    response = browser.get("/page/ask")
    assert response.status_code == 401
    assert "does not accept this token" in response.text
    assert "Max-Age=0" in read_cookie(response)


def test_a_changed_cookie_and_one_of_another_key_are_no_sessions(browser: Browser) -> None:
    cookie = read_cookie(browser.sign_in()).partition(";")[0].removeprefix(f"{COOKIE}=")
    for value in (cookie[:-4] + "AAAA", f"A{cookie[1:]}", "", "ä", "x" * 4005, ANN):
        browser.client.set_cookie(COOKIE, value, domain="ask.example.com")
        assert browser.get("/page/ask").status_code == 401, value


def test_replicas_with_one_key_accept_each_others_cookies_also_while_it_is_changed(browser: Browser) -> None:
    def create(*keys: bytes) -> Browser:
        harness = browser.harness
        other = AskHarness(harness.parts.authenticator, harness.parts.reviewer)
        other.clock = harness.clock
        return Browser(other, keys)

    old, both, new = create(KEY), create(OTHER_KEY, KEY), create(OTHER_KEY)
    cookie = read_cookie(old.sign_in()).partition(";")[0].partition("=")[2]
    for other, code in ((both, 200), (new, 401)):
        other.client.set_cookie(COOKIE, cookie, domain="ask.example.com")
        assert other.get("/page/ask").status_code == code


def test_signing_out_deletes_the_cookie_and_what_the_browser_kept(browser: Browser) -> None:
    browser.sign_in()
    response = browser.post("/page/sign-out", {})
    assert (response.status_code, response.headers["Clear-Site-Data"]) == (303, '"cache"')
    assert browser.get("/page/ask").status_code == 401


FOREIGN = {
    "another site": {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example.com"},
    "another host of our domain": {"Sec-Fetch-Site": "same-site", "Origin": "https://x.example.com"},
    "an old browser on another site": {"Origin": "https://evil.example.com"},
    "an old browser without an origin": {"Origin": "null"},
    "no browser, and no token": {},
    "plain HTTP": {"Origin": ORIGIN.replace("https", "http")},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("path", ["/page/sign-in", "/page/sign-out", "/page/ask"])
def test_a_form_of_another_site_does_nothing(browser: Browser, headers: dict[str, str], path: str) -> None:
    browser.sign_in()
    response = browser.post(path, {"token": ANN, "manifest": "x"}, headers)
    assert response.status_code == 403
    assert not response.headers.getlist("Set-Cookie")
    assert browser.get("/page/ask").status_code == 200


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "same-origin", "Origin": "null"}, {"Origin": ORIGIN}])
def test_a_form_of_our_own_page_counts(browser: Browser, headers: dict[str, str]) -> None:
    assert browser.post("/page/sign-in", {"token": ANN}, headers).status_code == 303


def test_a_link_on_another_site_leads_to_a_link_of_ours_and_ends_no_session(browser: Browser) -> None:
    response = browser.get("/page/ask?namespace=team-a", {"Sec-Fetch-Site": "cross-site"})
    assert response.status_code == 401
    assert not response.headers.getlist("Set-Cookie")
    assert {"href": "/page/ask?namespace=team-a"} in Outline(response).find("a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "no key in it"),
        (b"# a comment\n\n", "no key in it"),
        (KEY + b"\nshort\n", ":2: a key is 32 bytes"),
    ],
)
def test_a_file_without_keys_is_a_mistake(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PageKeyError, match=message):
        read_keys(path)


def test_the_keys_of_a_file_are_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(b"# new\n" + KEY + b"\n\n" + OTHER_KEY)
    assert read_keys(path) == (KEY, OTHER_KEY)
