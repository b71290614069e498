"""The request of an ask: its objects, what its asker has to be allowed for them, and the names that he may see."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from tallygate.admission.kinds import ReviewTargets
from tallygate.answers.answer_json import VisibleNames
from tallygate.answers.device_hours import GROUPINGS, parse_grouping
from tallygate.answers.live_hours import HoursQuestion
from tallygate.cluster import kinds
from tallygate.documents.reader import read_documents
from tallygate.documents.syntax_tree import DocumentError, Limits
from tallygate.manifests.manifest_objects import Manifest, list_objects
from tallygate.server.asking.access import AccessReviewer, ResourceAccess
from tallygate.server.asking.ask_error import AskError
from tallygate.server.asking.identity import Asker
from tallygate.state.informers.pod_templates import LABELS_OF_ONE_POD

MAX_BODY_BYTES: Final = 1024 * 1024
MAX_OBJECTS: Final = 1000
_LIMITS: Final = Limits(size=MAX_BODY_BYTES, depth=100, documents=MAX_OBJECTS, nodes=200_000, expanded=200_000)
_FILE: Final = "<request>"
_MAX_NAMED: Final = 10
_MAX_BY_LENGTH: Final = 400  # of label=KEY: a key has at most 317 characters


def read_objects(body: bytes) -> list[Manifest]:
    """Return the objects of a body, YAML or JSON, in their order.

    Raises:
        AskError: with 400 if the body cannot be read or has no object; with 413 if it has more than 1,000.
    """
    try:
        text = body.decode("utf-8")
        found = [item for document in read_documents(text, _LIMITS) for item in list_objects(_FILE, document)]
    except UnicodeDecodeError:
        raise AskError(HTTPStatus.BAD_REQUEST, "the body is not UTF-8 text") from None
    except DocumentError as error:
        place = f"line {error.position.line}, column {error.position.column}"
        raise AskError(HTTPStatus.BAD_REQUEST, f"{place}: {error.message}") from None
    manifests = [item for item in found if isinstance(item, Manifest)]
    if not manifests:
        raise AskError(HTTPStatus.BAD_REQUEST, "the body has no object of Kubernetes: send one as YAML or JSON")
    if len(manifests) > MAX_OBJECTS:
        message = f"the body has {len(manifests)} objects, and one ask is about at most {MAX_OBJECTS}"
        raise AskError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)
    return manifests


def list_needed_access(
    manifests: Iterable[Manifest], namespace: str, targets: ReviewTargets
) -> Sequence[ResourceAccess]:
    """Return the rights that an asker needs for these objects, each once: to create each of them.

    An object of a kind that is not read needs none, since its answer has nothing of the cluster.
    """
    needed: dict[ResourceAccess, None] = {}
    for manifest in manifests:
        target, known = targets.get((manifest.group, manifest.kind)), kinds.KINDS.get(manifest.kind)
        if target is not None:
            definition = target.definition
            is_namespaced = definition.is_namespaced if definition is not None else manifest.kind != "Node"
            plural = target.plural
        elif known is not None and known.version.rpartition("/")[0] == manifest.group:
            plural, is_namespaced = known.resource, known.is_namespaced
        else:
            continue
        where = (manifest.namespace or namespace) if is_namespaced else ""
        needed[ResourceAccess("create", manifest.group, plural, where)] = None
    return tuple(needed)


def check_access(reviewer: AccessReviewer, asker: Asker, needed: Iterable[ResourceAccess]) -> None:
    """Check that an asker has all of these rights.

    Raises:
        AskError: with 403 and what he lacks; with 429 or 503 if the API server cannot be asked now.
    """
    missing = [access for access in needed if not reviewer.may(asker, access)]
    if missing:
        listed = "; ".join(map(_describe, missing[:_MAX_NAMED]))
        more = f"; and {len(missing) - _MAX_NAMED} more" if len(missing) > _MAX_NAMED else ""
        message = f"who may create an object may ask about it; {asker.username} may not {listed}{more}"
        raise AskError(HTTPStatus.FORBIDDEN, message)


def _describe(access: ResourceAccess) -> str:
    resource = f"{access.resource}.{access.group}" if access.group else access.resource
    return f"{access.verb} {resource}{f' in namespace {access.namespace}' if access.namespace else ''}"


def find_visible_names(reviewer: AccessReviewer, asker: Asker, namespaces: Iterable[str]) -> VisibleNames:
    """Return which names an asker may see: pods of these namespaces, or of all, and nodes, where he may list them.

    Raises:
        AskError: with 429 or 503 if the API server cannot be asked now.
    """
    nodes = reviewer.may(asker, ResourceAccess("list", "", kinds.NODES))
    if reviewer.may(asker, ResourceAccess("list", "", kinds.PODS)):
        return VisibleNames(nodes=nodes)
    shown = (name for name in namespaces if reviewer.may(asker, ResourceAccess("list", "", kinds.PODS, name)))
    return VisibleNames(frozenset(shown), nodes)


def find_visible_names_of_usage(reviewer: AccessReviewer, asker: Asker, namespace: str) -> VisibleNames:
    """Return which names an asker may see in the usage of a namespace: none if he may create pods there, not list them.

    Raises:
        AskError: with 403 if he may do neither; with 429 or 503 if the API server cannot be asked now.
    """
    visible = find_visible_names(reviewer, asker, (namespace,))
    create, listed = (ResourceAccess(verb, "", kinds.PODS, namespace) for verb in ("create", "list"))
    if not visible.shows(namespace) and not reviewer.may(asker, create):
        message = (
            f"who may list pods in a namespace, or create them, sees its usage; {asker.username} may not "
            f"{_describe(listed)}, nor create them"
        )
        raise AskError(HTTPStatus.FORBIDDEN, message)
    return replace(visible, events=reviewer.may(asker, ResourceAccess("list", "", "events", namespace)))


def read_hours_question(arguments: Mapping[str, str], reviewer: AccessReviewer, asker: Asker) -> HoursQuestion:
    """Return the question about hours of devices in the query of a request; all namespaces if it names none.

    Raises:
        AskError: with 400 for groups that there are not; with 403 if the asker may not list the pods there; with 429 or
            503 if the API server cannot be asked now.
    """
    by = arguments.get("by") or "namespace"
    grouping = parse_grouping(by)
    if grouping is None or len(by) > _MAX_BY_LENGTH:
        raise AskError(HTTPStatus.BAD_REQUEST, f"by names the groups of the report: {GROUPINGS}")
    if grouping.label in LABELS_OF_ONE_POD:
        message = f"the label {grouping.label} has another value on each pod: a server keeps no hours by it"
        raise AskError(HTTPStatus.BAD_REQUEST, message)
    namespace = arguments.get("namespace") or None
    _check_hours_access(reviewer, asker, namespace)
    return HoursQuestion(namespace, by, grouping)


def _check_hours_access(reviewer: AccessReviewer, asker: Asker, namespace: str | None) -> None:
    """Check that an asker may list the pods of a namespace, or of all: the report has the names of workloads.

    Raises:
        AskError: with 403 if he may not; with 429 or 503 if the API server cannot be asked now.
    """
    access = ResourceAccess("list", "", kinds.PODS, namespace or "")
    in_all = access._replace(namespace="")
    if not (reviewer.may(asker, in_all) or (namespace and reviewer.may(asker, access))):
        where = "" if namespace else " of all namespaces"
        message = f"who may list the pods of a namespace sees its hours; {asker.username} may not {_describe(access)}"
        raise AskError(HTTPStatus.FORBIDDEN, message + where)


def check_lists(reviewer: AccessReviewer, asker: Asker, resources: Iterable[str]) -> None:
    """Check that an asker may list these resources of the group "" in the whole cluster.

    Raises:
        AskError: with 403 and what he lacks; with 429 or 503 if the API server cannot be asked now.
    """
    needed = [ResourceAccess("list", "", resource) for resource in resources]
    missing = [access for access in needed if not reviewer.may(asker, access)]
    if missing:
        listed, all_of = ", ".join(map(_describe, missing)), ", ".join(access.resource for access in needed)
        message = f"who may list {all_of} in the whole cluster sees this; {asker.username} may not {listed}"
        raise AskError(HTTPStatus.FORBIDDEN, message)
