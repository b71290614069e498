"""Questions of drawn rules, and of the recorded cases of rules, for `tests/oracle/policies`.

`python -m tests.backstop.drawn_questions 2000` prints them.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings

from tallygate.admission.kinds import BUILT_IN_TARGETS
from tallygate.admission.request import AdmissionRequest
from tallygate.backstop.admission_policies import create_admission_policies
from tallygate.backstop.compiled_objects import CompiledObject
from tallygate.backstop.gaps import Gap
from tallygate.policy.model import PolicySet
from tallygate.policy.parse import parse
from tests.admission import case
from tests.backstop.drawn_rules import DRAWN_REQUESTS, REQUESTS_OF_RULES, DrawnRequests, Object

_ENDLESS = re.compile(rb"[0-9][eE][+]?[0-9]{4,}")  # Go computes such a number for hours

EXCLUDED = ("kube-system",)
"""The excluded namespaces of the compiled objects."""


def compile_documents(
    documents: Iterable[Object],
) -> tuple[PolicySet, tuple[CompiledObject, ...], tuple[Gap, ...]] | None:
    """Return the policies of documents, their compiled objects and the gaps; None if they have mistakes."""
    stream = "".join(f"---\n{json.dumps(document)}\n" for document in documents)
    parsed = parse([("policies.yaml", stream.encode())])
    if not parsed.is_usable:
        return None
    return (parsed.policies, *create_admission_policies(parsed.policies, EXCLUDED))


def list_questions(drawn: DrawnRequests) -> Iterator[Object]:
    """Yield the questions about drawn requests; none if the policies have mistakes."""
    compiled = compile_documents(drawn.policies)
    for labels, request in drawn.requests if compiled else ():
        yield create_question(drawn.policies, labels, request, compiled[1] if compiled else ())


def create_question(
    documents: Iterable[Object], labels: Mapping[str, str], request: Object, objects: Iterable[CompiledObject]
) -> Object:
    """Return one question."""
    return {"policies": [*documents], "objects": [*objects], "namespaceLabels": labels, "request": request}


def draw_questions(count: int) -> Iterator[Object]:
    """Yield about this number of questions of drawn rules and requests."""
    for requests in draw_requests(count):
        yield from list_questions(requests)


def draw_requests(count: int, first: int | None = None) -> list[DrawnRequests]:
    """Return about this number of drawn requests with their rules; the same ones again with the same `first` seed."""
    drawn: list[DrawnRequests] = []

    @settings(
        max_examples=count // REQUESTS_OF_RULES,
        deadline=None,
        database=None,
        suppress_health_check=[*HealthCheck],
        phases=[Phase.generate],
    )
    @given(DRAWN_REQUESTS)
    def collect(requests: DrawnRequests) -> None:
        drawn.append(requests)

    (collect if first is None else seed(first)(collect))()
    return drawn


def list_recorded_questions() -> Iterator[Object]:
    """Yield a question for each recorded case of rules about an object in a namespace."""
    for path in sorted(case.FOLDER.glob("*.yaml")):
        content = yaml.safe_load(path.read_text("utf-8"))
        documents = [document for document in yaml.safe_load_all(content["policies"]) if document]
        compiled = compile_documents(documents)
        assert compiled
        for recorded in content["cases"].values():
            request = _create_review(case.create_request(recorded))
            if request is not None:
                yield create_question(documents, recorded.get("labels") or {}, request, compiled[1])


def _create_review(request: AdmissionRequest) -> Object | None:
    """Return a request as JSON values; None if its kind is not compiled."""
    target = BUILT_IN_TARGETS.get((request.group, request.kind))
    is_endless = _ENDLESS.search(bytes(request.object) + bytes(request.old_object or b""))
    if target is None or not request.namespace or is_endless:
        return None
    kind = {"apiVersion": "/".join(filter(None, (request.group, "v1"))), "kind": request.kind}
    old = request.old_object
    return {
        "kind": {"group": request.group, "version": "v1", "kind": request.kind},
        "resource": target.plural,
        "subResource": request.subresource,
        "namespace": request.namespace,
        "name": request.name,
        "operation": request.operation,
        "userInfo": {"username": request.user.name, "groups": [*request.user.groups]},
        "object": kind | json.loads(bytes(request.object)),
        **({} if old is None else {"oldObject": kind | json.loads(bytes(old))}),
    }


if __name__ == "__main__":
    for question in (*list_recorded_questions(), *draw_questions(int(sys.argv[1]))):
        sys.stdout.write(f"{json.dumps(question)}\n")
