"""What the gate was started to do, as far as it can be seen."""

from webhook.cli.doctoring.facts import GateFacts, Unavailable
from webhook.cli.doctoring.records import GateDeployment
from webhook.cli.doctoring.rights import Feature, parse_features


def detect_features(facts: GateFacts) -> frozenset[Feature] | None:
    """By its Deployment's arguments, else by what its replicas check of themselves; None where neither is seen."""
    if isinstance(facts.deployment, GateDeployment):
        return parse_features(facts.deployment.arguments)
    if isinstance(facts.replicas, Unavailable):
        return None
    check_names = [{name for name, _ in replica.list_checks()} for replica in facts.replicas]
    if not any(check_names):
        return None
    features_by_check = {
        "cluster": Feature.CLUSTER,
        "leases": Feature.CLUSTER_LEDGERS,
        "events": Feature.EVENTS,
        "audit": Feature.AUDIT,
    }
    return frozenset(
        feature for name, feature in features_by_check.items() if any(name in checks for checks in check_names)
    )
