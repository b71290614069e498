"""The addresses of pages. The gate has them in its denials, and loads nothing else of the pages for that."""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

PAGE_PATH: Final = "/page"

_OWN_PAGE: Final = re.compile(rf"{PAGE_PATH}/[a-z]{{0,20}}(\?namespace=[a-z0-9.-]{{1,253}})?")


def create_page_finder(base_url: str) -> Callable[[str], str] | None:
    """Return a function from a namespace to the address of its page; None without the address of the pages."""
    return (lambda namespace: f"{base_url}{PAGE_PATH}/namespace?namespace={quote(namespace)}") if base_url else None


def choose_target(text: str) -> str:
    """Return where a browser goes after it has signed in: a page of this server, else the first one."""
    return text if _OWN_PAGE.fullmatch(text) else f"{PAGE_PATH}/"
