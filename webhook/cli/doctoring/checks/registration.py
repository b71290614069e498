"""Whether the API server is told to ask, of all that is judged, and in time."""

from collections.abc import Iterator

from webhook.admission.change import Phase
from webhook.cli.doctoring.expected import Expected
from webhook.cli.doctoring.facts import MUTATING, VALIDATING, Facts, Unseen
from webhook.cli.doctoring.matching import NEW_POD, Request, covers, judges_pods, requests, restricts
from webhook.cli.doctoring.mending import kubectl, patched
from webhook.cli.doctoring.records import Condition, Configuration, Webhook
from webhook.cli.doctoring.verdict import Check, Said, failed, named, passed, together, unknown, warned

SHORTEST, LONGEST = 3, 10
"""Seconds within which a webhook's timeout does no harm: a write to a ledger in a busy cluster takes up to two, and
what waits for a gate that hangs waits for the whole of it."""

_PHASES = {MUTATING: Phase.MUTATING, VALIDATING: Phase.VALIDATING}


def _registered(facts: Facts) -> Said:
    said = []
    for kind, found in ((MUTATING, facts.mutating), (VALIDATING, facts.validating)):
        if isinstance(found, Unseen):
            said.append(unknown(f"the {kind} {facts.here.name} cannot be read: {found.why}"))
        elif found is None:
            without = "requests pass unjudged" if kind == VALIDATING else "nothing is filled in, and words are not ours"
            said.append(failed(f"there is no {kind} {facts.here.name}: {without}", _register(facts)))
        elif not covers(found, NEW_POD):
            said.append(failed(f"the {kind} {facts.here.name} does not speak of pods", *_rules_of(facts, kind, found)))
    return together(said, passed(f"both are there: {', '.join(kind for kind, _ in facts.configurations())}"))


def _rules(facts: Facts) -> Said:
    said = []
    expected = Expected(facts.here)
    for kind, found in facts.configurations():
        missing = [str(each) for each in _requests(expected.configuration(kind)) if not covers(found, each)]
        if missing:
            said.append(
                failed(
                    f"in the {_PHASES[kind]} phase nobody asks about {named(missing)}", *_rules_of(facts, kind, found)
                )
            )
    several = ", ".join(f"{len(list(_requests(expected.configuration(kind))))} in {kind}s" for kind in _PHASES)
    return _when_registered(facts, together(said, passed(f"every kind of request that is judged is sent: {several}")))


def _conditions(facts: Facts) -> Said:
    said = [
        each
        for kind, found in facts.configurations()
        for webhook in found.webhooks
        for each in _ways_past(facts, kind, found, webhook)
    ]
    return _when_registered(facts, together(said, passed("nothing that a tenant writes decides whether we are asked")))


def _ways_past(facts: Facts, kind: str, found: Configuration, webhook: Webhook) -> Iterator[Said]:
    def mend(field: str, value: object) -> str:
        return patched(facts.here, kind, found, webhook, field, value)

    if restricts(webhook.object_selector):
        why = f"{webhook.name} has an objectSelector: who labels his object gets past it"
        yield failed(why, mend("objectSelector", {}))
    if webhook.match_policy != "Equivalent":
        why = f"{webhook.name} has matchPolicy {webhook.match_policy}: another version of an API gets past it"
        yield warned(why, mend("matchPolicy", "Equivalent"))
    expected = Expected(facts.here)
    ours = expected.webhook(kind, webhook.name)
    if ours is not None and (strange := _strange(ours.match_conditions, webhook.match_conditions)):
        why = f"{webhook.name} has match conditions of its own, which may pass over what is to be judged: {strange}"
        yield warned(why, mend("matchConditions", expected.field(kind, webhook.name, "matchConditions") or []))


def _strange(ours: tuple[Condition, ...], found: tuple[Condition, ...]) -> str:
    return named([each.name for each in found if each not in ours])


def _timeouts(facts: Facts) -> Said:
    said = []
    for kind, found in facts.configurations():
        for webhook in found.webhooks:
            seconds = webhook.timeout_seconds
            if seconds < SHORTEST:
                why = f"{webhook.name} is given {seconds} s: under load a write to a ledger takes longer"
            elif seconds > LONGEST:
                why = f"{webhook.name} is given {seconds} s: with a gate that hangs, every create hangs for so long"
            else:
                continue
            said.append(warned(why, patched(facts.here, kind, found, webhook, "timeoutSeconds", 5)))
    given = sorted({each.timeout_seconds for _, found in facts.configurations() for each in found.webhooks})
    return _when_registered(facts, together(said, passed(f"{', '.join(map(str, given))} s")))


def _mutated_after(facts: Facts) -> Said:
    """Mutating webhooks are called by the names of their configurations (apiserver, mutating_webhook_manager.go)."""
    if not isinstance(facts.mutating, Configuration):
        return unknown(facts.unregistered or "the gate's own mutating configuration cannot be seen")
    if isinstance(facts.others, Unseen):
        return unknown(f"other configurations cannot be read: {facts.others.why}")
    ours = facts.mutating
    later = sorted(each.name for each in facts.others if each.name > ours.name and covers(each, NEW_POD))
    if not later:
        return passed("no other mutating webhook sees pods after the gate")
    said = [
        warned(
            f"{named(later)} may change pods after {webhook.name}, which is not asked again (reinvocationPolicy "
            "Never): what is then missing is refused instead of filled in",
            patched(facts.here, MUTATING, ours, webhook, "reinvocationPolicy", "IfNeeded"),
        )
        for webhook in ours.webhooks
        if judges_pods(webhook) and webhook.reinvocation_policy != "IfNeeded"
    ]
    return together(said, passed(f"{named(later)} may change pods after the gate, which is then asked again"))


def _when_registered(facts: Facts, said: Said) -> Said:
    return unknown(facts.unregistered) if facts.unregistered else said


def _requests(configuration: Configuration) -> Iterator[Request]:
    for webhook in configuration.webhooks:
        for rule in webhook.rules:
            yield from requests(rule)


def _rules_of(facts: Facts, kind: str, found: Configuration) -> Iterator[str]:
    """Commands that let every webhook have the rules that it is registered with."""
    expected = Expected(facts.here)
    for webhook in found.webhooks:
        ours = expected.webhook(kind, webhook.name)
        if ours is not None and ours.rules != webhook.rules:
            yield patched(facts.here, kind, found, webhook, "rules", expected.field(kind, webhook.name, "rules"))
    names = {webhook.name for webhook in found.webhooks}
    if any(each.name not in names for each in expected.configuration(kind).webhooks):
        yield _register(facts)


def _register(facts: Facts) -> str:
    """The overlay that deploy/README.md lets everybody write."""
    return kubectl(facts.here, "apply", "-k", "deploy/kustomize/mine")


CHECKS = (
    Check(
        "registered",
        "Both webhook configurations are there",
        "FAIL: one is missing, or does not speak of pods",
        _registered,
    ),
    Check(
        "rules",
        "They speak of every kind of request that is judged, resize and status included",
        "FAIL: something that is judged is not sent",
        _rules,
    ),
    Check(
        "conditions",
        "No label of an object and no condition lets a request past",
        "FAIL: an objectSelector; WARN: conditions that are not ours, matchPolicy Exact",
        _conditions,
    ),
    Check(
        "timeouts", "The time that is given fits", f"WARN: less than {SHORTEST} s or more than {LONGEST} s", _timeouts
    ),
    Check(
        "mutated-after",
        "What others change after us we see again",
        "WARN: others change pods after us, and reinvocationPolicy is Never",
        _mutated_after,
    ),
)
