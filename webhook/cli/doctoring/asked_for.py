"""What the gate was started to do, as far as it can be seen."""

from webhook.cli.doctoring.facts import Facts, Unseen
from webhook.cli.doctoring.records import Deployment
from webhook.cli.doctoring.rights import Feature, features


def asked_for(facts: Facts) -> frozenset[Feature] | None:
    """By its Deployment's arguments, else by what its replicas check of themselves; None where neither is seen."""
    if isinstance(facts.deployment, Deployment):
        return features(facts.deployment.arguments)
    if isinstance(facts.replicas, Unseen):
        return None
    told = [{name for name, _ in replica.checks()} for replica in facts.replicas]
    if not any(told):
        return None
    by_check = {"cluster": Feature.FOLLOWS, "leases": Feature.KEEPS, "events": Feature.TELLS, "audit": Feature.AUDITS}
    return frozenset(feature for name, feature in by_check.items() if any(name in checks for checks in told))
