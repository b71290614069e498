"""An API server as far as policies meet one: defaults, mutating phase, validation, validating phase, and the store.

In the order of endpoints/handlers/create.go and registry/generic/registry/store.go of apiserver v1.36; what the gate
is asked has been recorded from a real one (tests/reviews).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from webhook.admission.change import CREATE, UPDATE, Phase, UserInfo
from webhook.admission.registration import DEFAULT_NAMESPACE
from webhook.admission.review import REVIEW_API_VERSION, REVIEW_KIND
from webhook.admission.workloads import REVIEW_TARGETS
from webhook.cli.checking.api_server import refusals
from webhook.cli.checking.patching import applied
from webhook.cli.sequences.defaulting import default_requests
from webhook.cli.sequences.immutable import not_changeable
from webhook.cli.sequences.model import Body
from webhook.cli.sequences.outcome import Outcome, answered, invalid, refused
from webhook.cli.sequences.store import CLUSTER_SCOPED, Key, Store
from webhook.gate.gate import Gate
from webhook.objects.meta import PartialObjectMetadata

_BARE: Final = msgspec.json.Decoder(PartialObjectMetadata).decode
_SECONDS: Final = 5.0  # as registered
_NOT_ADMITTED: Final = frozenset({"kube-system", DEFAULT_NAMESPACE})


@dataclass(frozen=True, slots=True)
class Request:
    """Who asks, in which namespace, and whether in earnest."""

    user: UserInfo
    namespace: str
    dry_run: bool = False
    subresource: str = ""


class ApiServer:
    """Takes requests one by one. `monotonic` is the clock of the gate."""

    def __init__(self, gate: Gate, store: Store, monotonic: Callable[[], float]) -> None:
        self._gate = gate
        self._store = store
        self._monotonic = monotonic
        self._reviews = 0

    def create(self, body: Body, request: Request) -> Outcome:
        """Create an object."""
        body, key = _addressed(body, request, self._store)
        if not key.name:
            return refused(f"{key.kind}: metadata.name: Required value: name or generateName is required")
        if key.namespace and Key("Namespace", "", key.namespace) not in self._store:
            return refused(f'namespaces "{key.namespace}" not found')
        if key in self._store:
            return refused(f"{key} already exists")
        outcome = self._admitted(body, None, key, request)
        if outcome.stored is not None and not request.dry_run:
            self._store.put(key, outcome.stored)
        return outcome

    def update(self, body: Body, request: Request) -> Outcome:
        """Replace a stored object."""
        body, key = _addressed(body, request, self._store)
        before = self._store.find(key)
        if before is None:
            return refused(f"{key} not found")
        body["metadata"]["uid"] = before["metadata"]["uid"]
        outcome = self._admitted(body, before, key, request)
        if outcome.stored is not None and not request.dry_run:
            self._store.put(key, outcome.stored)
        return outcome

    def _admitted(self, body: Body, before: Body | None, key: Key, request: Request) -> Outcome:
        """Put an object through everything that may refuse it; `stored` is what would be stored."""
        target = REVIEW_TARGETS.get((_group(body), key.kind))
        try:
            (target.decode if target else _BARE)(msgspec.json.encode(body))
        except msgspec.ValidationError as error:
            return refused(f"{key} in version {body['apiVersion']} cannot be handled: {error}")
        if target is None:
            return self._unjudged(body, before, key, request)
        if key.kind == "Pod":
            default_requests(body)
        mutated, patch = self._ask(body, before, key, request, Phase.MUTATING)
        if not mutated.allowed:
            return mutated
        body = json.loads(applied(msgspec.json.encode(body), patch))
        if key.kind == "Pod":
            default_requests(body)
        self._prepare(body, before, key)
        judged = target.decode(msgspec.json.encode(body))
        if problems := refusals(judged, target.find_pod(judged)):
            return invalid(str(key), problems).after(mutated)
        if before is not None and (forbidden := not_changeable(judged, before, request.subresource)):
            return refused(f"{key} is invalid: {forbidden}").after(mutated)
        validated, _ = self._ask(body, before, key, request, Phase.VALIDATING)
        outcome = validated.after(mutated)
        return replace(outcome, stored=body) if outcome.allowed else outcome

    def _unjudged(self, body: Body, before: Body | None, key: Key, request: Request) -> Outcome:
        """A kind that no rule knows. The validating webhook alone is told of a namespace that changes."""
        self._prepare(body, before, key)
        if key.kind != "Namespace" or before is None:
            return Outcome(stored=body)
        outcome, _ = self._ask(body, before, key, request, Phase.VALIDATING)
        return replace(outcome, stored=body) if outcome.allowed else outcome

    def _prepare(self, body: Body, before: Body | None, key: Key) -> None:
        """Give a new object its uid; its status is nobody's to set in this way, but that of a new node."""
        body["metadata"].setdefault("uid", self._store.uid())
        status = (before or {}).get("status")
        if status is not None:
            body["status"] = status
        elif before is not None or key.kind != "Node":
            body.pop("status", None)

    def _ask(
        self, body: Body, before: Body | None, key: Key, request: Request, phase: Phase
    ) -> tuple[Outcome, tuple[dict[str, object], ...]]:
        """Ask the gate, as the registered webhooks are asked: not about what runs the cluster or the gate."""
        if key.namespace in _NOT_ADMITTED:
            return Outcome(), ()
        self._reviews += 1
        body, name = _as_seen(body, key, phase, is_new=before is None)
        asked = {
            "uid": f"review-{self._reviews}",
            "kind": {"group": _group(body), "version": "v1", "kind": key.kind},
            "operation": CREATE if before is None else UPDATE,
            "subResource": request.subresource,
            "namespace": key.namespace if key.kind != "Namespace" else key.name,
            "name": name,
            "userInfo": {"username": request.user.name, "groups": request.user.groups},
            "object": body,
            "oldObject": before,
            "dryRun": request.dry_run,
        }
        review = msgspec.json.encode({"apiVersion": REVIEW_API_VERSION, "kind": REVIEW_KIND, "request": asked})
        return answered(self._gate.admit(review, phase, self._monotonic() + _SECONDS))


def _addressed(body: Body, request: Request, store: Store) -> tuple[Body, Key]:
    """A copy of the object with its namespace and name, and its key."""
    metadata = dict(body.get("metadata") or {})
    kind, group = str(body["kind"]), _group(body)
    if (group, kind) not in REVIEW_TARGETS and (group, kind) != ("", "Namespace"):
        kind = f"{kind}.{group}"
    namespace = "" if kind in CLUSTER_SCOPED else str(metadata.get("namespace") or request.namespace)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}{store.suffix()}"
    if namespace:
        metadata["namespace"] = namespace
    copied: Body = msgspec.json.decode(msgspec.json.encode({**body, "metadata": metadata}))
    return copied, Key(kind, namespace, str(metadata.get("name") or ""))


def _as_seen(body: Body, key: Key, phase: Phase, *, is_new: bool) -> tuple[Body, str]:
    """The object and its name as a webhook sees them: a name is made from `generateName` after the mutating phase."""
    if not is_new or phase is not Phase.MUTATING or not body["metadata"].get("generateName"):
        return body, key.name
    metadata = {name: each for name, each in body["metadata"].items() if name != "name"}
    return {**body, "metadata": metadata}, ""


def _group(body: Body) -> str:
    return str(body["apiVersion"]).rpartition("/")[0]
