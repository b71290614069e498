"""Decoding of reviews and encoding of responses: those of the API server, invalid ones, and hostile bytes."""

import base64
import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tallygate.accounting.problem import Problem, Reason
from tallygate.admission.request import ALLOWED, AdmissionRequest, Phase, ReviewError, Verdict, decode_review
from tallygate.admission.response import (
    UNPROCESSABLE,
    Response,
    ResponseSubject,
    create_denial_status,
    create_response,
    create_retry_status,
    encode_response,
)
from tests.effort import examples

POD = {"kind": "Pod", "metadata": {"name": "p"}}


def review(**request: Any) -> bytes:
    """Return a review of a pod's creation, with the given parts of the request."""
    whole = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "team-a",
        "userInfo": {"username": "jane", "groups": ["devs"]},
        "object": POD,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions"},
    } | request
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": whole}).encode()


def problem(number: int = 1, field: str = "spec", message: str = "is wrong", rule: str = "r") -> Problem:
    """Return a problem."""
    return Problem(field, f"TG{number}", Reason.INVALID, message, rule=rule)


CHANGE = AdmissionRequest("Pod", "CREATE", b"{}", name="p", namespace="team-a", uid="u")
SUBJECT = ResponseSubject(CHANGE, {})


def test_a_review_is_decoded_into_a_request() -> None:
    asked = decode_review(review())
    assert asked.uid == "u-1"
    assert (asked.kind, asked.operation, asked.namespace) == ("Pod", "CREATE", "team-a")
    assert asked.user.name == "jane"
    assert asked.user.groups == ("devs",)
    assert asked.old_object is None
    assert json.loads(bytes(asked.object)) == POD


def test_missing_optional_fields_are_empty() -> None:
    minimal = {"uid": "u", "kind": {"kind": "Node"}, "operation": "CREATE"}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": minimal}
    change = decode_review(json.dumps(body).encode())
    assert (change.namespace, change.name, change.subresource, change.user.name, change.dry_run) == ("",) * 4 + (False,)


def test_a_user_may_have_no_groups() -> None:
    user = decode_review(review(userInfo={"username": "jane", "groups": None})).user
    assert (user.name, user.groups) == ("jane", ())


def test_unknown_fields_are_ignored() -> None:
    assert decode_review(review(somethingNew={"deep": [1, 2]})).uid == "u-1"


def test_the_last_of_duplicate_keys_counts() -> None:
    body = review().replace(b'"uid": "u-1"', b'"uid": "u-0", "uid": "u-1"')
    assert decode_review(body).uid == "u-1"


def test_a_uid_is_echoed_exactly() -> None:
    uid = 'A-"quoted"-\\-ü-\u2028'
    assert json.loads(encode_response(decode_review(review(uid=uid)).uid, Response()))["response"]["uid"] == uid


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "truncated"),
        (b"null", "Expected `object`"),
        (b"[]", "Expected `object`"),
        (b"{}", "missing required field"),
        (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', "missing required field `request`"),
        (review(uid=7), "Expected `str`"),
        (review(uid=""), "uid is empty"),
        (review(kind=None), "Expected `object`"),
        (review(dryRun="yes"), "Expected `bool | null`"),
        (review().replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"), "admissionReviewVersions: [v1]"),
        (review().replace(b"AdmissionReview", b"ConversionReview"), "cannot answer a ConversionReview"),
        (review()[:-9], "truncated"),
        (review() + b"x", "malformed"),
        (b"\xef\xbb\xbf" + review(), "malformed"),
        (b"\xff\xfe", "utf-8"),
        (review().replace(b"jane", b"\xff"), "utf-8"),
        (review(object={"apiVersion": "v1"}).replace(b'"v1"}', b'"v\xde1"}'), "utf-8"),  # in a field that is read later
        (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nests too deep"),
        (review(options=0).replace(b'"options": 0', b'"options": ' + b"[" * 100_000), "nests too deep"),
    ],
)
def test_an_invalid_review_is_rejected_in_one_sentence(body: bytes, message: str) -> None:
    with pytest.raises(ReviewError) as error:
        decode_review(body)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@given(st.binary(max_size=400))
@settings(max_examples=examples(300))
def test_any_bytes_are_rejected(body: bytes) -> None:
    with pytest.raises(ReviewError):
        decode_review(body)


@given(st.integers(0, 1200), st.binary(min_size=1, max_size=4))
@settings(max_examples=examples(300))
def test_a_review_with_replaced_bytes_is_decoded_or_rejected(at: int, noise: bytes) -> None:
    whole = review()
    at %= len(whole)
    try:
        decode_review(whole[:at] + noise + whole[at + len(noise) :])
    except ReviewError as error:
        assert str(error)  # noqa: PT017  # either outcome is right; an error has a message


def respond(subject: ResponseSubject, verdict: Verdict, phase: Phase = Phase.VALIDATING) -> bytes:
    """Return the response by the verdict of rules."""
    status = create_denial_status(subject, UNPROCESSABLE, "Invalid", verdict.problems) if verdict.problems else None
    return encode_response(subject.request.uid, create_response(subject, verdict, phase, status))


def decode_response(body: bytes) -> dict[str, Any]:
    """Return the response of a body, and check the envelope that the API server requires."""
    review = json.loads(body)
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = review["response"]
    return response


def test_an_allowing_response_has_no_message() -> None:
    assert decode_response(respond(SUBJECT, ALLOWED, Phase.VALIDATING)) == {"uid": "u", "allowed": True}


def test_a_denial_has_every_problem_in_message_and_causes() -> None:
    wrong = (problem(1), *(problem(2, f"spec.containers[{index}]", rule="whole") for index in (0, 1)))
    verdict = Verdict(problems=wrong)
    answer = decode_response(
        respond(ResponseSubject(CHANGE, {("rule", "whole"): "ask the\n platform team"}), verdict, Phase.VALIDATING)
    )
    assert answer["allowed"] is False
    assert (answer["status"]["code"], answer["status"]["reason"], answer["status"]["status"]) == (
        422,
        "Invalid",
        "Failure",
    )
    assert answer["status"]["message"] == (
        'Pod "p" has 3 problems:\n- spec: is wrong (TG1, rule r)\n'
        "- spec.containers[0]: is wrong (TG2, rule whole: ask the platform team)\n"
        "- spec.containers[1]: is wrong (TG2, rule whole)"
    )
    assert answer["status"]["details"]["causes"] == [
        {"field": "spec", "reason": "FieldValueInvalid", "message": "is wrong (TG1, rule r)"},
        {
            "field": "spec.containers[0]",
            "reason": "FieldValueInvalid",
            "message": "is wrong (TG2, rule whole: ask the platform team)",
        },
        {"field": "spec.containers[1]", "reason": "FieldValueInvalid", "message": "is wrong (TG2, rule whole)"},
    ]
    assert answer["status"]["details"]["kind"] == "Pod"


def test_a_single_problem_is_a_single_sentence() -> None:
    status = create_denial_status(SUBJECT, 403, "Forbidden", [problem()])
    assert status["message"] == 'Pod "p": spec: is wrong (TG1, rule r)'


def test_a_pod_without_a_name_is_called_by_its_generate_name() -> None:
    body = b'{"metadata": {"generateName": "web-", "name": "web-x2x9f"}}'
    unnamed = replace(CHANGE, name="", object=body), replace(CHANGE, name="web-x2x9f", object=body)
    answer = [create_denial_status(ResponseSubject(change, {}), 403, "Forbidden", [problem()]) for change in unnamed]
    assert {each["message"] for each in answer} == {'Pod "web-…": spec: is wrong (TG1, rule r)'}
    assert [each["details"]["name"] for each in answer] == ["web-", "web-x2x9f"]


def test_an_existing_pod_is_called_by_its_full_name() -> None:
    body = b'{"metadata": {"generateName": "web-", "name": "web-x2x9f"}}'
    change = replace(CHANGE, operation="UPDATE", subresource="resize", name="web-x2x9f", object=body)
    assert create_denial_status(ResponseSubject(change, {}), 403, "Forbidden", [problem()])["message"].startswith(
        'Pod "web-x2x9f": '
    )


@pytest.mark.parametrize("body", [b'{"metadata": {"generateName": 7}}', b"{}", b'{"metadata": null}'])
def test_an_object_without_a_readable_name_is_called_by_its_kind(body: bytes) -> None:
    status = create_denial_status(
        ResponseSubject(replace(CHANGE, name="", object=body), {}), 403, "Forbidden", [problem()]
    )
    assert status["message"] == "Pod: spec: is wrong (TG1, rule r)"


def test_a_thousand_problems_are_counted_in_a_small_response() -> None:
    verdict = Verdict(problems=tuple(problem(n) for n in range(1000)))
    body = respond(SUBJECT, verdict, Phase.VALIDATING)
    message = decode_response(body)["status"]["message"]
    assert message.startswith('Pod "p" has 1000 problems:')
    assert message.endswith("and 980 more, the first 200 of all among the causes in the status")
    assert len(decode_response(body)["status"]["details"]["causes"]) == 200
    assert len(body) < 50_000


@pytest.mark.parametrize(
    ("count", "ends"), [(20, "- TG19 is wrong"), (21, "- and 1 more, among the causes in the status")]
)
def test_twenty_problems_are_listed_and_more_are_counted(count: int, ends: str) -> None:
    problems = tuple(Problem("", "TG", Reason.INVALID, f"TG{number} is wrong") for number in range(count))
    message = decode_response(respond(SUBJECT, Verdict(problems=problems), Phase.VALIDATING))["status"]["message"]
    assert message.splitlines()[-1].removesuffix(" (TG)") == ends


def test_a_validating_response_never_has_a_patch() -> None:
    verdict = Verdict(patch=({"op": "add", "path": "/a", "value": 1},))
    assert "patch" not in decode_response(respond(SUBJECT, verdict, Phase.VALIDATING))


def test_a_mutating_response_has_patch_and_patch_type() -> None:
    verdict = Verdict(patch=({"op": "add", "path": "/a", "value": 1},))
    answer = decode_response(respond(SUBJECT, verdict, Phase.MUTATING))
    assert answer["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(answer["patch"])) == [{"op": "add", "path": "/a", "value": 1}]


def test_a_denial_has_no_patch() -> None:
    verdict = Verdict(problems=(problem(),), patch=({"op": "add", "path": "/a", "value": 1},))
    assert "patch" not in decode_response(respond(SUBJECT, verdict, Phase.MUTATING))


def test_warned_and_audited_problems_are_warnings_and_annotations() -> None:
    verdict = Verdict(warnings=(problem(1),), audits=(problem(2), problem(3)), unknown=("rule x was not judged",))
    answer = decode_response(respond(SUBJECT, verdict, Phase.VALIDATING))
    assert answer["allowed"] is True
    assert answer["warnings"] == ['Pod "p": spec: is wrong (TG1, rule r)', "rule x was not judged"]
    assert answer["auditAnnotations"] == {"audit": "spec: is wrong (TG2, rule r); spec: is wrong (TG3, rule r)"}


def test_a_rule_and_a_cap_of_one_name_have_their_own_reasons() -> None:
    found = (problem(1), dataclasses.replace(problem(2), policy_kind="cap"))
    reasons = {("rule", "r"): "odd shapes", ("cap", "r"): "ask ann"}
    answer = decode_response(respond(ResponseSubject(CHANGE, reasons), Verdict(warnings=found), Phase.VALIDATING))
    assert answer["warnings"] == [
        'Pod "p": spec: is wrong (TG1, rule r: odd shapes)',
        'Pod "p": spec: is wrong (TG2, cap r: ask ann)',
    ]


def test_the_reason_of_a_rule_is_in_its_first_warning_only() -> None:
    verdict = Verdict(warnings=(problem(1), problem(2)))
    answer = decode_response(
        respond(ResponseSubject(CHANGE, {("rule", "r"): "refused from Monday on"}), verdict, Phase.VALIDATING)
    )
    assert answer["warnings"] == [
        'Pod "p": spec: is wrong (TG1, rule r: refused from Monday on)',
        'Pod "p": spec: is wrong (TG2, rule r)',
    ]


def test_control_characters_in_a_warning_are_removed() -> None:
    verdict = Verdict(warnings=(problem(message="a\nb\x1b[31mc\x7fd"),))
    (warning,) = decode_response(respond(SUBJECT, verdict, Phase.VALIDATING))["warnings"]
    assert warning == 'Pod "p": spec: a b [31mc d (TG1, rule r)'


def test_many_short_warnings_fill_the_limit_and_the_rest_is_counted() -> None:
    verdict = Verdict(warnings=tuple(problem(message="x" * 80) for _ in range(100)))
    warnings = decode_response(respond(SUBJECT, verdict, Phase.VALIDATING))["warnings"]
    assert 3900 < sum(map(len, warnings)) <= 4096
    assert warnings[-1].startswith(f"and {100 - len(warnings) + 1} more ")


@given(st.lists(st.text(max_size=3000), max_size=30))
@settings(max_examples=examples(60))
def test_warnings_always_stay_below_the_limit_of_the_api_server(texts: list[str]) -> None:
    verdict = Verdict(warnings=tuple(problem(message=text) for text in texts))
    answer = decode_response(respond(SUBJECT, verdict, Phase.VALIDATING)).get("warnings", [])
    assert sum(map(len, answer)) <= 4096
    assert not any(ord(char) < 32 for warning in answer for char in warning)
    if len(answer) < len(texts):
        assert answer[-1].startswith(f"and {len(texts) - len(answer) + 1} more")


def test_a_retry_response_has_status_429_and_the_delay() -> None:
    status = create_retry_status(CHANGE, 1, "cap gpus: wait")
    answer = decode_response(encode_response("u", create_response(SUBJECT, Verdict(), Phase.VALIDATING, status)))
    assert answer["status"]["code"] == 429
    assert answer["status"]["details"]["retryAfterSeconds"] == 1
