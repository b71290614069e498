"""A browser for each test."""

from collections.abc import Iterator

import pytest

from tallygate.server.asking.access import AccessReviewer
from tallygate.server.asking.identity import TokenAuthenticator
from tests.kube.scripted_server import FakeClock
from tests.server.pages.browser import Browser
from tests.server.test_ask_app import AskHarness, answer_review
from tests.state.kubernetes.scripted_api_server import server


@pytest.fixture
def browser() -> Iterator[Browser]:
    """Yield a browser of a server whose API server answers up to three hundred reviews."""
    with server(*[answer_review] * 300) as scripted:
        clock = FakeClock()
        config = scripted.client_config
        made = Browser(AskHarness(TokenAuthenticator(config, clock.now), AccessReviewer(config, clock.now)))
        made.review_clock = clock
        yield made
        scripted.responders.clear()
