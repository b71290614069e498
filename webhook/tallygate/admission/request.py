"""Admission requests, their decoder from an AdmissionReview, and the verdict of the rules on a request.

An `AdmissionRequest` is one write to one object, in the form that rules evaluate. The server decodes it from an
AdmissionReview, the command line creates it from a manifest; the rules make no difference between them.

The decoder reads admission.k8s.io/v1 only (k8s.io/api/admission/v1/types.go). It ignores unknown fields, uses the last
of duplicate keys, and leaves `uid` unchanged for the response.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec

from tallygate.accounting.problem import Problem
from tallygate.errors import TallygateError


class Phase(StrEnum):
    """The webhook that the API server calls. Caps are charged in the validating phase only."""

    MUTATING = "mutate"
    VALIDATING = "validate"


CREATE = "CREATE"
UPDATE = "UPDATE"


class UserInfo(msgspec.Struct, frozen=True):
    """The user of a request (authentication.k8s.io/v1 UserInfo)."""

    name: str = ""
    groups: tuple[str, ...] = ()


class AdmissionRequest(msgspec.Struct, frozen=True):
    """One write to one object; `object` and `old_object` are raw JSON.

    `uid` identifies the review, and its response must carry it; it is empty for a manifest.
    `group` and `kind` are as sent (`apps`, `Deployment`). `old_object` is the stored object: None on CREATE.
    `namespace` is empty for cluster-scoped objects. `resource` is the group and plural of the written resource (`apps`,
    `deployments`), which the kind of a subresource does not reveal; it is empty for a manifest.
    """

    kind: str
    operation: str
    object: msgspec.Raw | bytes
    old_object: msgspec.Raw | bytes | None = None
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: UserInfo = UserInfo()
    dry_run: bool = False
    resource: tuple[str, str] = ("", "")
    uid: str = ""


REVIEW_API_VERSION = "admission.k8s.io/v1"
REVIEW_KIND = "AdmissionReview"
_NULL = msgspec.Raw(b"null")


class ReviewError(TallygateError):
    """A body that is not an AdmissionReview with a possible response: an error of the sender, HTTP 400."""


class _GroupVersionKind(msgspec.Struct, frozen=True):
    group: str = ""
    kind: str = ""


class _GroupVersionResource(msgspec.Struct, frozen=True):
    group: str = ""
    resource: str = ""


class _ReviewUserInfo(msgspec.Struct, frozen=True):
    username: str | None = None
    groups: tuple[str, ...] | None = None


class _ReviewRequest(msgspec.Struct, rename="camel", frozen=True):
    uid: str
    kind: _GroupVersionKind
    operation: str
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    user_info: _ReviewUserInfo | None = None
    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL
    dry_run: bool | None = None
    resource: _GroupVersionResource = _GroupVersionResource()


class _Review(msgspec.Struct, rename="camel", frozen=True):
    api_version: str
    kind: str
    request: _ReviewRequest


_REVIEW_DECODER = msgspec.json.Decoder(_Review)


def decode_review(body: bytes) -> AdmissionRequest:
    """Decode a review, and return its request.

    Raises:
        ReviewError: if the body is not JSON, nests too deep, lacks a required field, or is of another version.
    """
    try:
        if not body.isascii():  # a decoder checks only the strings that it reads, and several decoders read parts of it
            body.decode("utf-8")
        review = _REVIEW_DECODER.decode(body)
    except RecursionError:
        raise ReviewError("the AdmissionReview nests too deep") from None
    except ValueError as error:  # msgspec.DecodeError and UnicodeDecodeError
        raise ReviewError(f"the body is not an {REVIEW_API_VERSION} AdmissionReview: {error}") from None
    if review.api_version != REVIEW_API_VERSION or review.kind != REVIEW_KIND:
        raise ReviewError(
            f"cannot answer a {review.kind} of {review.api_version}: send an {REVIEW_KIND} of {REVIEW_API_VERSION} "
            f"(admissionReviewVersions: [v1])"
        )
    if not review.request.uid:
        raise ReviewError("request.uid is empty: without it no answer can be matched to its request")
    return _create_request(review.request)


def _create_request(review_request: _ReviewRequest) -> AdmissionRequest:
    user = review_request.user_info
    old_object = review_request.old_object
    return AdmissionRequest(
        uid=review_request.uid,
        kind=review_request.kind.kind,
        group=review_request.kind.group,
        operation=review_request.operation,
        object=review_request.object,
        old_object=None if bytes(old_object) == b"null" else old_object,
        subresource=review_request.sub_resource or "",
        namespace=review_request.namespace or "",
        name=review_request.name or "",
        user=UserInfo(user.username or "", user.groups or ()) if user else UserInfo(),
        dry_run=bool(review_request.dry_run),
        resource=(review_request.resource.group, review_request.resource.resource),
    )


PatchOperation = dict[str, Any]
"""One operation of a JSON Patch (RFC 6902)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of evaluating rules on a request.

    `problems` deny (sorted by path; an empty tuple allows), `warnings` and `audits` come from rules with weaker
    enforcement, `unknown` names the rules that were not evaluated and the reason, `patch` fills in missing entries
    (mutating phase only), `exceeded` names the caps that a privileged user exceeded. `cluster_age_seconds` is the age
    of the cluster data that the verdict depends on. `implied` are the implied requests that the patch adds.
    """

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    audits: tuple[Problem, ...] = ()
    unknown: tuple[str, ...] = ()
    patch: tuple[PatchOperation, ...] = ()
    exceeded: tuple[str, ...] = ()
    cluster_age_seconds: float | None = None
    implied: tuple[str, ...] = ()

    @property
    def is_allowed(self) -> bool:
        """True if no problem denies the request."""
        return not self.problems

    def merge(self, other: "Verdict") -> "Verdict":
        """Return a verdict with the problems, warnings, audits and unknown rules of both."""
        return replace(
            self,
            problems=(*self.problems, *other.problems),
            warnings=(*self.warnings, *other.warnings),
            audits=(*self.audits, *other.audits),
            unknown=(*self.unknown, *other.unknown),
            cluster_age_seconds=other.cluster_age_seconds,
        )


ALLOWED = Verdict()
"""The verdict without problems, warnings or a patch."""
