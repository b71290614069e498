"""Rights of the gate's account, granted and used: the rules of roles beside the API server's audit log."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from e2e.installation.rendered import Object
from tallygate.admission.webhook_configuration import CONFIGURATION_NAME, DEFAULT_NAMESPACE
from tallygate.policy.known_kinds import KNOWN_KINDS

_CREATED = 201  # also the answer to an update of what was not there, which takes the right to create beside
_DECISION = "authorization.k8s.io/decision"
"""The annotation by which an audit log says what became of a request's authorization (apiserver, filters)."""

_EVERYBODY = frozenset({"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"})
"""Resources of `system:basic-user`, which every user may create."""

_OTHER_PROJECTS = frozenset(kind.group for kind in KNOWN_KINDS)


class Right(NamedTuple):
    """A verb on a resource of a group; `resource` has its subresource behind a slash."""

    verb: str
    group: str
    resource: str


class AuditedRequest(NamedTuple):
    """A request of the account: the right that it takes, its path, and whether the right was missing.

    A namespace that is being deleted also answers a permitted create with 403.
    """

    right: Right
    path: str
    is_forbidden: bool


def collect_rights(objects: Iterable[Object]) -> frozenset[Right]:
    """Return every right that the roles among these objects grant, but on kinds of other projects.

    The cases that count rights run without these kinds.
    """
    return frozenset(
        Right(verb, group, resource)
        for each in objects
        if each["kind"] in {"Role", "ClusterRole"}
        for rule in each["rules"]
        for group in rule["apiGroups"]
        if group not in _OTHER_PROJECTS
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def read_requests(log: Path, after: int = 0, account: str = CONFIGURATION_NAME) -> Iterator[AuditedRequest]:
    """Yield the requests of an account of the gate's namespace in an audit log, from a position in the file on."""
    username = f"system:serviceaccount:{DEFAULT_NAMESPACE}:{account}"
    with log.open("rb") as file:
        file.seek(after)
        for line in file:
            if not line.endswith(b"\n"):
                return  # being written
            event = json.loads(line)
            of = event.get("objectRef")
            if of is None or of.get("resource") in _EVERYBODY or event["user"]["username"] != username:
                continue
            parts = (of["resource"], *filter(None, (of.get("subresource"),)))
            code = event.get("responseStatus", {}).get("code")
            for verb in (event["verb"], *(("create",) if event["verb"] == "update" and code == _CREATED else ())):
                right = Right(verb, of.get("apiGroup", ""), "/".join(parts))
                yield AuditedRequest(right, event["requestURI"], event["annotations"].get(_DECISION) == "forbid")
