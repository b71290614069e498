"""Whether the API server reaches the gate, and the gate judges: by pods that are sent as a dry run."""

import re

from webhook.cli.doctoring.facts import Attempt, Facts, Unseen
from webhook.cli.doctoring.matching import NEW_POD, asks
from webhook.cli.doctoring.mending import own
from webhook.cli.doctoring.verdict import Check, Said, failed, passed, unknown

_CREATED = 201
_LONGEST = 300
# apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go and pkg/admission/plugin/webhook/errors/statuserror.go
_NOT_CALLED = re.compile(r'failed calling webhook "([^"]+)"')
_DENIED = re.compile(r'admission webhook "([^"]+)" denied the request')


def _reachable(facts: Facts) -> Said:
    if facts.unregistered:
        return unknown(facts.unregistered)
    names = {webhook.name for _, found in facts.configurations() for webhook in found.webhooks}
    if isinstance(facts.attempts, Unseen):
        return unknown(f"nothing could be tried: {facts.attempts.why}")
    for attempt in facts.attempts:
        webhook = _NOT_CALLED.search(attempt.message)
        if webhook and webhook[1] in names:
            return failed(
                f"the API server cannot ask the gate: {_short(attempt.message)}", *_looks(facts, attempt.message)
            )
    proven = [each for each in facts.attempts if _proves(facts, each, names)]
    if proven:
        return passed("; ".join(_told(each) for each in proven))
    return unknown("; ".join(_open(each) for each in facts.attempts))


def _proves(facts: Facts, attempt: Attempt, names: set[str]) -> bool:
    """Whether nobody but a gate that answered can have led to this."""
    denied = _DENIED.search(attempt.message)
    if denied:
        return denied[1] in names
    fails = [
        webhook
        for _, found in facts.configurations()
        for webhook in found.webhooks
        if asks(webhook, NEW_POD) and webhook.failure_policy == "Fail"
    ]
    return attempt.status == _CREATED and bool(fails)


def _told(attempt: Attempt) -> str:
    if attempt.status == _CREATED:
        return f"of a dry run, pod {attempt.pod} would be let into {attempt.namespace}"
    return f"of a dry run, pod {attempt.pod} was refused by the gate, as it should be"


def _open(attempt: Attempt) -> str:
    if attempt.status == _CREATED:
        return f"pod {attempt.pod} would be let in, as with failurePolicy Ignore without a gate"
    return f"to pod {attempt.pod} somebody else said {attempt.status}: {_short(attempt.message)}"


def _looks(facts: Facts, message: str) -> tuple[str, ...]:
    if "x509" in message:
        return ()  # `trusted` says what to type
    if facts.is_called_by_url:
        return ()
    return (own(facts.here, "get", "deployment,pods,endpointslices", "--selector=app.kubernetes.io/name=tallygate"),)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"


CHECKS = (
    Check(
        "reachable",
        "The API server reaches the gate, and the gate judges",
        "FAIL: the API server says that it cannot call it; UNKNOWN: with failurePolicy Ignore it would not say",
        _reachable,
    ),
)
