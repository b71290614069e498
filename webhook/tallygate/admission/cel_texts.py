"""Texts of expressions in CEL for an API server: disjunctions, conjunctions, strings, globs and namespaces.

A text is in parentheses where an operator beside it would bind closer, so that texts can be put together.
"""

import json
from collections.abc import Collection, Iterable, Iterator

from tallygate.policy.globs import WILDCARDS, is_literal

TRUE = "true"
FALSE = "false"

KIND = "request.kind.kind"
"""The kind of the object of a request."""
NAMESPACE = "request.?namespace.orValue('')"
"""The namespace of a request, empty for an object of the cluster."""

# Of these, a set of RE2 with one character would have another meaning.
_ESCAPED = frozenset("\\^[]")


def format_namespaces(included: Collection[str], excluded: Collection[str]) -> str:
    """Return the condition of namespaces whose names one of the globs in `included`, and none in `excluded`, matches.

    No included globs are all. An object of the cluster has no namespace, though the condition may be true of it.
    """
    of_included = join_any(format_globs(NAMESPACE, included)) if included else TRUE
    of_excluded = f"!({join_any(format_globs(NAMESPACE, excluded))})" if excluded else TRUE
    return join_all((of_included, of_excluded))


def format_globs(text: str, globs: Iterable[str]) -> Iterator[str]:
    """Yield conditions of which one is true if a glob matches a text: names by one look-up, and each other glob."""
    globs = tuple(dict.fromkeys(globs))
    if "*" in globs:
        yield TRUE
        return
    names = [glob for glob in globs if is_literal(glob)]
    if len(names) == 1:
        yield f"{text} == {quote(names[0])}"
    elif names:
        yield f"{text} in [{', '.join(map(quote, names))}]"
    for glob in globs:
        if is_literal(glob):
            continue
        prefix = glob.removesuffix("*")
        if is_literal(prefix):
            yield f"{text}.startsWith({quote(prefix)})"
        else:
            yield f"{text}.matches({quote(_create_expression(glob))})"


def _create_expression(glob: str) -> str:
    """Return a glob as a regular expression of RE2."""
    return f"^{''.join(map(_create_step, glob))}$"


def _create_step(character: str) -> str:
    if character in WILDCARDS:
        return "(?s:.*)" if character == "*" else "(?s:.)"
    if character.isalnum():
        return character
    return f"\\x{{{ord(character):x}}}" if character in _ESCAPED else f"[{character}]"


def quote(text: str) -> str:
    """Return a string of CEL."""
    if "'" in text or "\\" in text or not text.isprintable():
        return json.dumps(text, ensure_ascii=False)
    return f"'{text}'"


def quote_list(texts: Iterable[str]) -> str:
    """Return a list of strings of CEL."""
    return f"[{', '.join(map(quote, texts))}]"


def join_any(terms: Iterable[str]) -> str:
    """Return the disjunction of conditions."""
    distinct = [term for term in dict.fromkeys(terms) if term != FALSE]
    if TRUE in distinct:
        return TRUE
    return f"({' || '.join(distinct)})" if len(distinct) > 1 else distinct[0] if distinct else FALSE


def join_all(terms: Iterable[str]) -> str:
    """Return the conjunction of conditions."""
    distinct = [term for term in dict.fromkeys(terms) if term != TRUE]
    if FALSE in distinct:
        return FALSE
    return f"({' && '.join(distinct)})" if len(distinct) > 1 else distinct[0] if distinct else TRUE
