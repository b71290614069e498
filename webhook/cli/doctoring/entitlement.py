"""What the gate's ServiceAccount may do: asked of the API server, which alone knows.

authorization.k8s.io/v1: a SubjectAccessReview for another, a SelfSubjectAccessReview for who asks.
"""

import json
from collections.abc import Iterable

import msgspec

from webhook.cli.doctoring.api import DoctorClient
from webhook.cli.doctoring.facts import PermissionResult, Unavailable
from webhook.cli.doctoring.rights import Permission

_AUTHORIZATION_API = "/apis/authorization.k8s.io/v1"
_CREATED = 201


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class _ReviewUser(msgspec.Struct, frozen=True):
    username: str = ""
    groups: tuple[str, ...] = ()


class _SelfSubjectStatus(msgspec.Struct, rename="camel", frozen=True):
    user_info: _ReviewUser = _ReviewUser()


class _SelfSubjectReview(msgspec.Struct, frozen=True):
    status: _SelfSubjectStatus = _SelfSubjectStatus()


def review_permissions(
    api: DoctorClient, namespace: str, account: str, permissions: Iterable[Permission]
) -> tuple[PermissionResult, ...] | Unavailable:
    """Each right, and whether the ServiceAccount has it."""
    user = f"system:serviceaccount:{namespace}:{account}"
    is_self = _get_own_username(api) == user
    results = []
    for permission in permissions:
        allowed = _review_permission(api, namespace, permission, None if is_self else user)
        if isinstance(allowed, Unavailable):
            return allowed
        results.append(PermissionResult(permission, allowed))
    return tuple(results)


def _get_own_username(api: DoctorClient) -> str:
    """Who asks; empty where the API server does not say."""
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    response = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
    if isinstance(response, Unavailable) or response.status != _CREATED:
        return ""
    try:
        return msgspec.json.decode(response.body, type=_SelfSubjectReview).status.user_info.username
    except (ValueError, RecursionError):
        return ""


def _review_permission(
    api: DoctorClient, namespace: str, permission: Permission, user: str | None
) -> bool | Unavailable:
    kind = "SelfSubjectAccessReview" if user is None else "SubjectAccessReview"
    response = api.post(
        f"{_AUTHORIZATION_API}/{kind.lower()}s", json.dumps(_build_review(kind, namespace, permission, user)).encode()
    )
    if isinstance(response, Unavailable):
        return response
    if response.status != _CREATED:
        return response.create_unavailable()
    try:
        return msgspec.json.decode(response.body, type=_AccessReview).status.allowed
    except (ValueError, RecursionError) as error:
        return Unavailable(f"a review that is none: {error}")


def _build_review(kind: str, namespace: str, permission: Permission, user: str | None) -> dict[str, object]:
    resource, _, subresource = permission.resource.partition("/")
    attributes = {"verb": permission.verb, "group": permission.group, "resource": resource}
    attributes |= {"subresource": subresource} if subresource else {}
    attributes |= {"namespace": namespace} if permission.is_namespaced else {}
    attributes |= {"name": permission.name} if permission.name else {}
    spec: dict[str, object] = {"resourceAttributes": attributes}
    if user is not None:
        spec |= {"user": user, "groups": _list_groups(namespace)}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


def _list_groups(namespace: str) -> list[str]:
    """Those of every ServiceAccount (apiserver pkg/authentication/serviceaccount, MakeGroupNames)."""
    return ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
