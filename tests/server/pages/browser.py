"""A browser of the pages, as far as a server sees one: its cookies, its headers, and the forms that it sends."""

from collections.abc import Mapping
from html.parser import HTMLParser
from io import BytesIO
from typing import Any

from flask.testing import FlaskClient
from werkzeug.datastructures import FileStorage
from werkzeug.test import TestResponse, encode_multipart

from tallygate.kube.informer import InformerStatus
from tallygate.policy.parse import parse
from tallygate.policy.store import PolicyStatus
from tallygate.server.asking.gate_inspection import Inspection
from tallygate.server.asking.gate_replicas import GateReplica
from tallygate.server.interfaces import ReadinessStatus
from tallygate.server.web.pages.gate_facts import GateSources
from tallygate.server.web.pages.page_views import PageParts, add_pages
from tallygate.server.web.pages.sessions import Sessions
from tests.answers.asked_clusters import NOW
from tests.answers.test_answer_json import POLICIES
from tests.server.test_ask_app import ANN, AskHarness

ORIGIN = "https://ask.example.com"
POLICY_SET = parse([("policies/caps.yaml", POLICIES.encode())])
_SAME = {"Sec-Fetch-Site": "same-origin"}


def list_watches() -> list[InformerStatus]:
    """Return a watch that is current, and one that is not."""
    return [
        InformerStatus("pods", 3, 100, 0.4, None, {}, 1, None),
        InformerStatus("nodes", 2, 90, 61.5, "nothing arrives for 60 s", {}, 1, None),
    ]


class Browser:
    """A browser with one page of a server of asks open; it sends forms as such a page does.

    `review_clock` is the clock by which the server keeps answers of the API server, `inspection` what it has found of
    the gate.
    """

    def __init__(self, harness: AskHarness, keys: tuple[bytes, ...] = ()) -> None:
        self.harness = harness
        self.inspection: Inspection | None = None
        self.review_clock = harness.clock
        self.sessions = Sessions(keys, harness.clock.now)
        sources = GateSources(
            get_policies=lambda: POLICY_SET.policies,
            get_status=lambda: PolicyStatus("d", 1, NOW, POLICY_SET.findings),
            read_replicas=lambda: (
                GateReplica("gate-1", is_leader=True, renewed=NOW),
                GateReplica("gate-2", is_leader=False, renewed=None),
            ),
            list_watches=list_watches,
            checks=[lambda: ReadinessStatus("watches", ready=True, detail={"pods": {"objects": 3, "stale": None}})],
            get_inspection=lambda: self.inspection,
            now=lambda: NOW,
        )
        parts = PageParts(sessions=self.sessions, gate_sources=sources, request_log=harness.request_log)
        add_pages(harness.app, harness.parts, parts)
        self.client: FlaskClient = harness.app.test_client()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> TestResponse:
        """Open an address; the rate of the user is no subject here."""
        self.harness.clock.sleep(1.0)
        return self.client.get(path, base_url=ORIGIN, headers=headers)

    def post(
        self, path: str, form: Mapping[str, Any] | bytes, headers: Mapping[str, str] | None = None, **more: Any
    ) -> TestResponse:
        """Send a form."""
        self.harness.clock.sleep(1.0)
        return self.client.post(path, data=form, base_url=ORIGIN, headers=_SAME if headers is None else headers, **more)

    def sign_in(self, token: str = ANN, target: str = "/page/ask") -> TestResponse:
        """Send the form to sign in."""
        return self.post("/page/sign-in", {"token": token, "target": target})

    def ask(self, manifest: bytes | str, namespace: str = "team-a", **fields: str) -> TestResponse:
        """Send the form of an ask: bytes as a file, a text as text."""
        content: dict[str, Any] = {"manifest": manifest}
        if isinstance(manifest, bytes):
            content = {"file": FileStorage(BytesIO(manifest), "job.yaml")}
        boundary, body = encode_multipart({"namespace": namespace, **content, **fields})
        return self.post("/page/ask", body, content_type=f"multipart/form-data; boundary={boundary}")


class Outline(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, response: TestResponse | str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(response if isinstance(response, str) else response.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect an element; the text of a cell of a table begins after a blank."""
        self.elements.append((tag, dict(attrs)))
        self.text += " " * (tag in {"td", "th"})

    def handle_data(self, data: str) -> None:
        """Collect a text."""
        self.text += data

    def find(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of the elements of a name."""
        return [attributes for name, attributes in self.elements if name == tag]
