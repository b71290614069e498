"""Pages for users whom a front proxy states: without a cookie, and as safe from other sites."""

from pathlib import Path

import pytest

from tallygate.server.interfaces import PROXY_REQUEST, ProxyRequest
from tests.server.pages.browser import ORIGIN, Browser, Outline
from tests.server.pages.test_client_certificates import create_certificate
from tests.server.test_ask_app import POD

_OWN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def certificate(tmp_path: Path) -> bytes:
    """Return the certificate of a front proxy."""
    return create_certificate(tmp_path, "front")


@pytest.fixture
def browser_of_proxy(browser: Browser, certificate: bytes, monkeypatch: pytest.MonkeyPatch) -> Browser:
    """Return a browser behind a front proxy that states Ann."""
    request = ProxyRequest(certificate, ((b"x-remote-user", b"ann"),))
    monkeypatch.setitem(browser.client.environ_base, PROXY_REQUEST, request)
    return browser


def test_a_page_opens_for_the_stated_user(browser_of_proxy: Browser) -> None:
    response = browser_of_proxy.get("/page/ask")
    assert response.status_code == 200
    assert "ann" in Outline(response).text
    assert "Sign out" not in response.text
    assert browser_of_proxy.ask(POD.decode()).status_code == 200


def test_a_form_of_another_site_does_nothing_also_if_the_proxy_adds_a_token(browser_of_proxy: Browser) -> None:
    """Let the proxy add `Authorization` itself: it is no sign of a script that has the token."""
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example.com"}, {}):
        for added in ({}, {"Authorization": "Bearer ann"}):
            assert browser_of_proxy.post("/page/ask", {"manifest": "x"}, {**headers, **added}).status_code == 403


def test_the_stated_user_counts_before_a_cookie(
    browser: Browser, certificate: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser.sign_in()
    assert "ann" in browser.get("/page/ask").text
    request = ProxyRequest(certificate, ((b"x-remote-user", b"bob"),))
    monkeypatch.setitem(browser.client.environ_base, PROXY_REQUEST, request)
    text = Outline(browser.get("/page/ask")).text
    assert "bob" in text
    assert "ann" not in text


def test_a_front_proxy_that_states_no_user_gets_the_reason_and_no_form(
    browser: Browser, certificate: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(browser.client.environ_base, PROXY_REQUEST, ProxyRequest(certificate, ()))
    response = browser.client.get("/page/ask", base_url=ORIGIN, headers=_OWN)
    assert response.status_code == 401
    assert "states no user" in response.text
    assert not Outline(response).find("form")
