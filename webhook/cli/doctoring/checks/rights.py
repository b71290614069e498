"""Whether the gate may do what it is started to do."""

from webhook.admission.registration import DEFAULT_NAMESPACE
from webhook.cli.doctoring.asked_for import asked_for
from webhook.cli.doctoring.facts import Facts, Unseen
from webhook.cli.doctoring.mending import kubectl
from webhook.cli.doctoring.verdict import Check, Said, failed, named, passed, unknown, warned

_OVERLAY = "deploy/kustomize/mine"


def _rights(facts: Facts) -> Said:
    if isinstance(facts.rights, Unseen):
        return unknown(f"what the gate's ServiceAccount may do could not be asked: {facts.rights.why}")
    features = asked_for(facts)
    needed = [each for each in facts.rights if features is None or each.right.feature in features]
    account = f"{facts.here.namespace}/tallygate"
    if not needed:
        return passed(f"ServiceAccount {account} needs none: the gate follows no cluster")
    lacking = [str(each.right) for each in needed if not each.allowed]
    if not lacking:
        return passed(f"ServiceAccount {account} has all {len(needed)} rights that it needs")
    said = warned if features is None else failed
    files = dict.fromkeys(each.right.feature.grants for each in needed if not each.allowed)
    why = f"ServiceAccount {account} lacks {len(lacking)} of {len(needed)} rights: {named(lacking)}"
    if facts.here.namespace != DEFAULT_NAMESPACE:  # another overlay has put it there, and knows how
        return said(why, kubectl(facts.here, "apply", "-k", _OVERLAY))
    return said(why, *(kubectl(facts.here, "apply", f"--filename={file}") for file in files))


CHECKS = (
    Check(
        "rights",
        "The gate's ServiceAccount may do what it must",
        "FAIL: it lacks a right; WARN: it lacks one, and whether the gate needs it cannot be seen",
        _rights,
    ),
)
