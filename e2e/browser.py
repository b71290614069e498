"""Debian's Chromium, driven by Playwright: what it loads, what it complains about, and what axe finds on a page.

Playwright's own browsers are not downloaded.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Response, sync_playwright

from e2e.errors import ClusterError
from e2e.ports import NotHereError
from e2e.waiting import until

VARIABLE: Final = "CHROMIUM"
"""The variable with the program. Where it is set, a missing program is an error, and no case is skipped."""

_PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS: Final = (
    "--no-sandbox",  # a container has no user namespaces
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
_HEIGHT: Final = 800
_WITHIN: Final = 60.0  # seconds
_BUSY: Final = frozenset({429, 503})
_OF_STATUS: Final = "Failed to load resource"  # Chromium's line about a page of an error

Scheme = Literal["light", "dark"]


def find_chromium() -> Path:
    """Return the program.

    Raises:
        NotHereError: if this machine has none.
        ClusterError: if the variable names one that is missing.
    """
    named = os.environ.get(VARIABLE)
    found = next(filter(None, map(shutil.which, [named] if named else _PROGRAMS)), None)
    if found is not None:
        return Path(found)
    if named:
        raise ClusterError(f"{VARIABLE}={named} is no program: install it, as by apt-get install chromium")
    raise NotHereError("this machine has no Chromium (apt-get install chromium)")


@contextmanager
def run_chromium() -> Iterator[Browser]:
    """Yield a browser that runs for as long as the block.

    Raises:
        NotHereError: if this machine has none.
    """
    program = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Visit(NamedTuple):
    """A page of a browser with cookies of its own: the addresses that it loaded, and its complaints.

    A complaint is an error of a script, a dialog, or an error in its console such as one about a forbidden load.
    """

    page: Page
    address: str
    loaded: list[str]
    complaints: list[str]

    def open(self, path: str) -> Response:
        """Open a page of the server, and again while it is busy or its user asks too often.

        Raises:
            ClusterError: if it is busy for too long.
        """
        found: list[Response] = []

        def is_open() -> bool:
            response = self.page.goto(f"{self.address}{path}")
            found.extend(filter(None, [response]))
            return response is not None and response.status not in _BUSY

        until(f"{path} opens", is_open, _WITHIN)
        return found[-1]

    def sign_in(self, token: str) -> None:
        """Sign in by the form.

        Raises:
            ClusterError: if the server is busy for too long.
        """
        self.open("/")
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("button", name="Sign out").wait_for()

    def list_faults(self) -> list[str]:
        """Return the complaints of the browser, and the addresses of other hosts that it loaded."""
        return [*self.complaints, *(url for url in self.loaded if not url.startswith((self.address, "data:,")))]

    def list_findings(self) -> list[str]:
        """Return what axe finds on the page, each rule with its elements."""
        result: dict[str, Any] = Axe().run(self.page).response
        return [
            f"{rule['id']}: {rule['help']}: {node['html']}" for rule in result["violations"] for node in rule["nodes"]
        ]

    def measure_overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        width: int = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return width


@contextmanager
def open_visit(  # noqa: PLR0913  each is a setting of a browser
    browser: Browser,
    address: str,
    *,
    width: int = 1440,
    scheme: Scheme = "light",
    has_script: bool = True,
    bypasses_policy: bool = False,
) -> Iterator[Visit]:
    """Yield a page without cookies; `bypasses_policy` lets axe run, which a page's policy forbids."""
    context = browser.new_context(
        viewport={"width": width, "height": _HEIGHT},
        color_scheme=scheme,
        java_script_enabled=has_script,
        bypass_csp=bypasses_policy,
        ignore_https_errors=True,  # the certificate is of an authority that no browser knows
    )
    page = context.new_page()
    visit = Visit(page, address, [], [])

    def note_console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not message.text.startswith(_OF_STATUS):
            visit.complaints.append(message.text)

    def note_dialog(dialog: Dialog) -> None:
        visit.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()

    page.on("console", note_console)
    page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    page.on("dialog", note_dialog)
    page.on("request", lambda request: visit.loaded.append(request.url))
    try:
        yield visit
    finally:
        context.close()
