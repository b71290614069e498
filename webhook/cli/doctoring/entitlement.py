"""What the gate's ServiceAccount may do: asked of the API server, which alone knows.

authorization.k8s.io/v1: a SubjectAccessReview for another, a SelfSubjectAccessReview for who asks.
"""

import json
from collections.abc import Iterable

import msgspec

from webhook.cli.doctoring.api import Api
from webhook.cli.doctoring.facts import Answered, Unseen
from webhook.cli.doctoring.rights import Right

_API = "/apis/authorization.k8s.io/v1"
_CREATED = 201


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()


class _Me(msgspec.Struct, rename="camel", frozen=True):
    user_info: _User = _User()


class _Self(msgspec.Struct, frozen=True):
    status: _Me = _Me()


def answered(api: Api, namespace: str, account: str, rights: Iterable[Right]) -> tuple[Answered, ...] | Unseen:
    """Each right, and whether the ServiceAccount has it."""
    user = f"system:serviceaccount:{namespace}:{account}"
    is_self = _who(api) == user
    found = []
    for right in rights:
        allowed = _is_allowed(api, namespace, right, None if is_self else user)
        if isinstance(allowed, Unseen):
            return allowed
        found.append(Answered(right, allowed))
    return tuple(found)


def _who(api: Api) -> str:
    """Who asks; empty where the API server does not say."""
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    answer = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    if isinstance(answer, Unseen) or answer.status != _CREATED:
        return ""
    try:
        return msgspec.json.decode(answer.body, type=_Self).status.user_info.username
    except (ValueError, RecursionError):
        return ""


def _is_allowed(api: Api, namespace: str, right: Right, user: str | None) -> bool | Unseen:
    kind = "SelfSubjectAccessReview" if user is None else "SubjectAccessReview"
    answer = api.post(f"{_API}/{kind.lower()}s", json.dumps(_review(kind, namespace, right, user)).encode())
    if isinstance(answer, Unseen):
        return answer
    if answer.status != _CREATED:
        return answer.refusal()
    try:
        return msgspec.json.decode(answer.body, type=_Review).status.allowed
    except (ValueError, RecursionError) as error:
        return Unseen(f"a review that is none: {error}")


def _review(kind: str, namespace: str, right: Right, user: str | None) -> dict[str, object]:
    resource, _, part = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource}
    attributes |= {"subresource": part} if part else {}
    attributes |= {"namespace": namespace} if right.is_own else {}
    attributes |= {"name": right.name} if right.name else {}
    spec: dict[str, object] = {"resourceAttributes": attributes}
    if user is not None:
        spec |= {"user": user, "groups": _groups(namespace)}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


def _groups(namespace: str) -> list[str]:
    """Those of every ServiceAccount (apiserver pkg/authentication/serviceaccount, MakeGroupNames)."""
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
