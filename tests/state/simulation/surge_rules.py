"""The rules by which pods may surge: which attempts, and which pods show that their controller rolls (rule 12)."""

from collections.abc import Iterable

from tallygate.state.ledger.ledger import Operation
from tests.state.simulation.stored_objects import Pod, Template


def may_surge(operation: Operation, is_claim: bool) -> bool:  # noqa: FBT001  # the two properties that count
    """Rule 12: return whether a surge may guard an attempt: the creation of a pod only."""
    return operation is Operation.CREATE and not is_claim


def shows_rollout(pod: Pod, is_counted: bool) -> bool:  # noqa: FBT001  # a property of the pod under a cap
    """Rule 12: return whether a pod may show that its controller rolls: the cap counts it, and it has not ended."""
    return is_counted and not pod.ended


def is_rolling(template: Template, others: Iterable[Template]) -> bool:
    """Rule 12: return whether the controller of a pod rolls: it has a pod of another revision, newer or older."""
    return bool(template.workload) and any(
        each.workload == template.workload and each.number != template.number for each in others
    )
