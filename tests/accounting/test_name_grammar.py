"""The grammar of qualified names, with Kubernetes' messages."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallygate.accounting.names import find_qualified_name_errors

EMPTY_DOMAIN = "prefix part must be non-empty"
LONG_DOMAIN = "prefix part must be no more than 253 bytes"
BAD_DOMAIN = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
EMPTY_NAME = "name part must be non-empty"
LONG_NAME = "name part must be no more than 63 bytes"
BAD_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
TWO_SLASHES = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. "
    "'example.com/MyName')"
)

TABLE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("a name alone passes", "cpu", ()),
    ("capitals pass in the name", "example.com/GPU_a.B", ()),
    ("a domain of one label passes", "acme/gpu", ()),
    ("63 bytes of name pass", "example.com/" + "x" * 63, ()),
    ("64 bytes of name do not", "example.com/" + "x" * 64, (LONG_NAME,)),
    ("a label of the domain may be long", "a" * 68 + ".com/x", ()),
    ("253 bytes of domain pass", "a" * 253 + "/x", ()),
    ("254 bytes of domain do not", "a" * 254 + "/x", (LONG_DOMAIN,)),
    ("254 bytes of bad domain have two faults", "A" * 254 + "/x", (LONG_DOMAIN, BAD_DOMAIN)),
    ("a capital in the domain does not pass", "Example.com/gpu", (BAD_DOMAIN,)),
    ("an underscore in the domain does not", "ex_ample.com/gpu", (BAD_DOMAIN,)),
    ("a letter with an accent does not", "ex\xe4mple.com/gpu", (BAD_DOMAIN,)),
    ("a dot at the end of the domain does not", "example.com./gpu", (BAD_DOMAIN,)),
    ("a dot at its beginning does not", ".com/gpu", (BAD_DOMAIN,)),
    ("two dots in it do not", "example..com/gpu", (BAD_DOMAIN,)),
    ("a hyphen at the end of a label does not", "a-.b/gpu", (BAD_DOMAIN,)),
    ("hyphens within a label pass", "a--b.c-d/gpu", ()),
    ("two slashes have one fault of their own", "example.com/a/b", (TWO_SLASHES,)),
    ("two slashes hide other faults", "//", (TWO_SLASHES,)),
    ("no domain before a slash", "/gpu", (EMPTY_DOMAIN,)),
    ("no name after a slash has two faults", "example.com/", (EMPTY_NAME, BAD_NAME)),
    ("an empty name has two faults", "", (EMPTY_NAME, BAD_NAME)),
    ("a slash alone has three", "/", (EMPTY_DOMAIN, EMPTY_NAME, BAD_NAME)),
    ("a hyphen before the name does not pass", "example.com/-gpu", (BAD_NAME,)),
    ("a hyphen after the name does not pass", "example.com/gpu-", (BAD_NAME,)),
    ("a blank in the name does not pass", "example.com/my gpu", (BAD_NAME,)),
    ("a dot at the end does not", "cpu.", (BAD_NAME,)),
    ("a line's end does not", "cpu\n", (BAD_NAME,)),
    ("other digits than ASCII's do not", "gpu\u0663", (BAD_NAME,)),
    ("bytes are counted, not letters", "\xe4" * 32, (LONG_NAME, BAD_NAME)),
    ("a lone surrogate has three bytes", "\ud800" * 22, (LONG_NAME, BAD_NAME)),
    ("both parts are checked", "Ex/-", (BAD_DOMAIN, BAD_NAME)),
)

NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@pytest.mark.parametrize(("name", "errors"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_name_gets_kubernetes_errors(name: str, errors: tuple[str, ...]) -> None:
    assert find_qualified_name_errors(name) == errors


@given(st.text("aZ0-_. ", max_size=12))
def test_the_name_part_follows_the_printed_expression(name: str) -> None:
    assert (BAD_NAME in find_qualified_name_errors(name)) is (NAME.fullmatch(name) is None)


@given(st.text("aZ0-_. ", min_size=1, max_size=12))
def test_the_domain_part_follows_the_printed_expression(domain: str) -> None:
    assert (BAD_DOMAIN in find_qualified_name_errors(f"{domain}/x")) is (DOMAIN.fullmatch(domain) is None)


@given(st.text(max_size=100))
def test_any_text_gets_known_errors(text: str) -> None:
    assert all(
        error.startswith(("prefix part ", "name part ", "a valid label key "))
        for error in find_qualified_name_errors(text)
    )
