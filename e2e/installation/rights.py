"""What the gate's account may do, and what it has done: rules of roles beside the API server's audit log."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from e2e.installation.rendered import Object

_CREATED = 201  # also the answer to an update of what was not there, which takes the right to create beside
_DECISION = "authorization.k8s.io/decision"
"""The annotation by which an audit log says what became of a request's authorization (apiserver, filters)."""

_EVERYBODY = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"})
"""What `system:basic-user` lets everybody do, the gate too."""


class Right(NamedTuple):
    """A verb on a resource of a group; `resource` has its subresource behind a slash."""

    verb: str
    group: str
    resource: str


class Asked(NamedTuple):
    """A request of the account's: the right that it takes, where, and whether it had not that right.

    A namespace that ends answers with 403, too, to whoever may create in it.
    """

    right: Right
    path: str
    is_forbidden: bool


def granted(objects: Iterable[Object]) -> frozenset[Right]:
    """Every right that the roles among these give."""
    return frozenset(
        Right(verb, group, resource)
        for each in objects
        if each["kind"] in {"Role", "ClusterRole"}
        for rule in each["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def asked(log: Path, after: int = 0) -> Iterator[Asked]:
    """What an audit log has of it, from a place in the file on; whoever is not logged has not asked."""
    with log.open("rb") as file:
        file.seek(after)
        for line in file:
            if not line.endswith(b"\n"):
                return  # being written
            event = json.loads(line)
            of = event.get("objectRef")
            if of is None or of.get("resource") in _EVERYBODY:
                continue
            parts = (of["resource"], *filter(None, (of.get("subresource"),)))
            code = event.get("responseStatus", {}).get("code")
            for verb in (event["verb"], *(("create",) if event["verb"] == "update" and code == _CREATED else ())):
                right = Right(verb, of.get("apiGroup", ""), "/".join(parts))
                yield Asked(right, event["requestURI"], event["annotations"].get(_DECISION) == "forbid")
