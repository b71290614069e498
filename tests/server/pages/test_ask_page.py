"""The page Ask: it shows what the API answers, to those whom the API answers, and nothing that is markup elsewhere."""

import json
import re
from collections.abc import Mapping

import pytest
from werkzeug.test import TestResponse

from tallygate.server.asking.identity import Asker, TokenAuthenticator
from tests.answers.test_answer_json import ASKED, MARK, NODE_MARK
from tests.server.pages.browser import Browser, Outline
from tests.server.test_ask_app import ANN, POD, RIGHTS

_SCRIPT = "<script>alert(1)</script>"
_ANSWER_FIELDS = re.compile(r"\b(?:fits now|not now|would be rejected|never on these nodes)\b")


@pytest.fixture
def browser_of_ann(browser: Browser) -> Browser:
    """Return a browser in which Ann has signed in."""
    browser.sign_in()
    return browser


def test_the_page_shows_what_the_api_answers(browser_of_ann: Browser) -> None:
    page, as_json = browser_of_ann.ask(ASKED), browser_of_ann.ask(ASKED, o="json")
    api = browser_of_ann.harness.ask(ASKED)
    assert as_json.data == api.data
    assert as_json.content_type == "application/json"
    text = Outline(page).text
    for item in json.loads(api.data)["objects"]:
        assert f"{item['object']['kind']} {item['object']['namespace']}/{item['object']['name']}" in text
        for finding in item["findings"]:
            assert finding["message"] in text
        for prediction in item["predictions"]:
            assert prediction["verdict"] in text
            assert (prediction["message"] or "") in text
    drawn = [each for each in Outline(page).find("svg") if each.get("role") == "img"]
    assert {"1 of the pods", "nvidia.com/gpu: 3 used + 4 requested of 4"} <= {each["aria-label"] for each in drawn}


@pytest.mark.parametrize(("right", "name"), [("list nodes", NODE_MARK), ("list pods", MARK)])
def test_names_are_shown_to_those_who_may_list_them_alone(
    browser_of_ann: Browser, monkeypatch: pytest.MonkeyPatch, right: str, name: str
) -> None:
    for path in (ASKED, ASKED.encode()):
        hidden = browser_of_ann.ask(path).text
        assert MARK not in hidden
        assert NODE_MARK not in hidden
    monkeypatch.setitem(RIGHTS, right, {""})
    browser_of_ann.review_clock.sleep(11)
    assert name in browser_of_ann.ask(ASKED).text


def test_names_with_markup_are_text(browser_of_ann: Browser) -> None:
    bad = (
        POD.decode().replace('"name": "p"', f'"name": "{_SCRIPT}"').replace('"image": "x"', '"image": "\'><img src=x>"')
    )
    for response in (
        browser_of_ann.ask(bad),
        browser_of_ann.ask(f"</textarea>{_SCRIPT}"),
        browser_of_ann.ask(POD.decode(), namespace=f'"><{_SCRIPT}'),
        browser_of_ann.get(f"/page/ask?namespace={_SCRIPT}"),
        browser_of_ann.get(f"/page/{_SCRIPT}"),
    ):
        outline = Outline(response)
        assert not outline.find("script")
        assert not outline.find("img")
        assert _SCRIPT not in response.text


@pytest.mark.parametrize(
    ("manifest", "namespace", "code", "message"),
    [
        ("a: [", "team-a", 400, "line 2"),
        (b"\xff", "team-a", 400, "not UTF-8"),
        ("", "team-a", 400, "no object"),
        (POD.decode(), "team-b", 403, "ann may not create pods in namespace team-b"),
        (POD.decode() + " " * (1 << 20), "team-a", 413, "larger than 1048576 bytes"),
        (POD + b" " * (1 << 20), "team-a", 413, "larger than 1048576 bytes"),
        ("[" * 100_000, "team-a", 400, ""),
    ],
)
def test_what_is_not_answered_is_refused_with_what_would_pass(
    browser_of_ann: Browser, manifest: str | bytes, namespace: str, code: int, message: str
) -> None:
    response = browser_of_ann.ask(manifest, namespace)
    assert response.status_code == code
    assert message in Outline(response).text
    assert not _ANSWER_FIELDS.search(response.text)


def test_aliases_of_a_billion_values_end_with_findings(browser_of_ann: Browser) -> None:
    lines = [f"{chr(letter)}: &{chr(letter)} [{', '.join([f'*{chr(letter - 1)}'] * 8)}]" for letter in range(98, 110)]
    text = "\n".join(
        ["a: &a [x, x, x, x, x, x, x, x]", *lines, "apiVersion: v1", "kind: Pod", "metadata: {name: p}", "spec: *m"]
    )
    response = browser_of_ann.ask(text)
    assert response.status_code == 200
    assert len(response.data) < 1 << 17


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"manifest=x", "application/x-www-form-urlencoded", 415),
        (b"{}", "application/json", 415),
        (b"", "", 415),
        (b"x", "multipart/form-data", 400),
        (b"x", "multipart/form-data; boundary=y", 400),
        (
            b"--y\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n" * 30 + b"--y--",
            "multipart/form-data; boundary=y",
            413,
        ),
    ],
)
def test_a_body_that_is_no_form_is_refused(browser_of_ann: Browser, body: bytes, content_type: str, code: int) -> None:
    response = browser_of_ann.client.post(
        "/page/ask",
        data=body,
        content_type=content_type,
        base_url="https://ask.example.com",
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    assert response.status_code == code


@pytest.mark.parametrize(
    ("username", "namespace"), [("ann", "default"), ("system:serviceaccount:team-c:job", "team-c")]
)
def test_the_namespace_of_a_service_account_is_offered(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, username: str, namespace: str
) -> None:
    monkeypatch.setattr(TokenAuthenticator, "authenticate", lambda *_: Asker(username))
    (field,) = [each for each in Outline(browser.get("/page/ask")).find("input") if each.get("name") == "namespace"]
    assert field["value"] == namespace


EXPECTED = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def list_responses(browser: Browser) -> Mapping[str, TestResponse]:
    """Return a response of each kind."""
    responses = {"no session": browser.get("/page/ask"), "no page": browser.get("/page/none"), "/": browser.get("/")}
    browser.sign_in()
    return responses | {
        "a page": browser.get("/page/ask"),
        "an answer": browser.ask(POD.decode()),
        "an answer as JSON": browser.ask(POD.decode(), o="json"),
        "a refusal": browser.ask("a: ["),
        "JSON that is refused": browser.get("/page/ask?o=json"),
        "another method": browser.client.delete("/page/ask"),
        "the style": browser.get("/page/style.css"),
    }


def test_every_response_has_the_headers_that_bind_it_to_this_server(browser: Browser) -> None:
    for name, response in list_responses(browser).items():
        assert EXPECTED.items() <= dict(response.headers).items(), name
        policy = dict(part.split(" ", 1) for part in response.headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert "script-src" not in policy
        assert "unsafe" not in str(policy)
        expected = {"a page": "private, no-cache", "the style": "public, max-age=31536000, immutable"}.get(
            name, "no-store"
        )
        assert response.headers["Cache-Control"] == expected, name


def test_an_api_answer_has_no_headers_of_pages(browser: Browser) -> None:
    assert "Content-Security-Policy" not in browser.harness.ask(POD).headers


def test_no_page_has_script_style_or_an_address_of_another_host(browser: Browser) -> None:
    for name, response in list_responses(browser).items():
        if response.mimetype != "text/html" or not response.data:
            continue
        for tag, attributes in Outline(response).elements:
            assert tag not in {"script", "style", "iframe", "object", "embed", "base"}, name
            assert not [key for key in attributes if key == "style" or key.startswith("on")], (name, tag)
            for key in ("href", "src", "action"):
                assert re.match(r"/page/|#|data:,", attributes.get(key) or "#"), (name, attributes)
    style = browser.get("/page/style.css").text
    assert "@import" not in style
    assert set(re.findall(r"url\((.*?)\)", style)) <= {"#dots", "#hatch", "#rows"}


def test_a_page_that_has_not_changed_is_not_sent_again(browser: Browser) -> None:
    browser.sign_in()
    tag = browser.get("/page/ask").headers["ETag"]
    again = browser.get("/page/ask", {"If-None-Match": tag})
    assert (again.status_code, again.data) == (304, b"")
    assert browser.get("/page/ask?namespace=team-c", {"If-None-Match": tag}).status_code == 200


def test_a_token_in_the_header_opens_a_page_too(browser: Browser) -> None:
    header = {"Authorization": f"Bearer {ANN}"}
    opened = browser.get("/page/ask", header)
    assert opened.status_code == 200
    assert "Sign out" not in opened.text
    assert browser.post("/page/ask", {"manifest": "x"}, header, content_type="multipart/form-data").status_code == 400
    assert browser.get("/page/ask", {"Authorization": "Bearer bob"}).status_code == 401


def test_pages_count_as_asks_of_their_user(browser: Browser) -> None:
    browser.sign_in()
    browser.harness.clock.sleep(10)
    codes = [browser.client.get("/page/ask", base_url="https://ask.example.com").status_code for _ in range(11)]
    assert codes == [200] * 10 + [429]


def test_without_a_session_nothing_is_opened(browser: Browser) -> None:
    browser.harness.opened = lambda: pytest.fail("the state was opened")
    assert browser.ask(POD.decode()).status_code == 401
    assert browser.get("/page/ask?o=json").get_json()["code"] == 401


def test_an_error_of_ours_has_no_text_of_the_cluster(browser_of_ann: Browser) -> None:
    def fail() -> None:
        raise RuntimeError(f"{MARK} {NODE_MARK}")

    browser_of_ann.harness.opened = fail
    response = browser_of_ann.ask(POD.decode())
    assert response.status_code == 500
    assert MARK not in response.text
