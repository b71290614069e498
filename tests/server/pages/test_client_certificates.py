"""Pages for users who are known by a client certificate: without a form to sign in, and as safe from other sites."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from tallygate.server.interfaces import CLIENT_CERTIFICATE
from tallygate_certs.certificate_names import parse_names
from tallygate_certs.renewal import issue
from tests.server.client_certificates import issue_client_certificate
from tests.server.pages.browser import ORIGIN, Browser, Outline
from tests.server.test_ask_app import POD

_OWN = {"Sec-Fetch-Site": "same-origin"}


def create_certificate(folder: Path, name: str) -> bytes:
    """Return a client certificate as a server passes it on."""
    issue(folder, parse_names(["localhost"]), datetime.now(UTC))
    pem = issue_client_certificate(folder, name).read_bytes()
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


@pytest.fixture
def browser_of_ann(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Browser:
    """Return a browser with a certificate of Ann."""
    monkeypatch.setitem(browser.client.environ_base, CLIENT_CERTIFICATE, create_certificate(tmp_path, "ann"))
    return browser


def test_a_page_opens_for_the_user_of_the_certificate(browser_of_ann: Browser) -> None:
    response = browser_of_ann.get("/page/ask")
    assert response.status_code == 200
    assert Outline(response).find("form")
    assert "Sign out" not in response.text
    assert "ann" in Outline(response).text
    assert browser_of_ann.ask(POD.decode()).status_code == 200


def test_a_form_of_another_site_does_nothing(browser_of_ann: Browser) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example.com"}, {}):
        assert browser_of_ann.post("/page/ask", {"manifest": "x"}, headers).status_code == 403


def test_who_has_signed_in_as_another_user_is_that_user(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(browser.client.environ_base, CLIENT_CERTIFICATE, create_certificate(tmp_path, "bob"))
    assert "bob" in browser.get("/page/ask").text
    browser.sign_in()
    text = browser.get("/page/ask").text
    assert "ann" in text
    assert "bob" not in text


def test_a_certificate_that_names_no_user_gets_the_reason_and_the_form(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(browser.client.environ_base, CLIENT_CERTIFICATE, b"no certificate")
    response = browser.client.get("/page/ask", base_url=ORIGIN, headers=_OWN)
    assert response.status_code == 401
    assert "the client certificate cannot be read" in response.text
    assert [field for field in Outline(response).find("input") if field.get("name") == "token"]
