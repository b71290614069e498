"""The limit of a pod of a controller that rolls, with the surge of its cap, and its words in messages (rule 12)."""

from datetime import UTC, datetime

from tallygate.accounting.amounts import format_amount
from tallygate.admission.cap_index import ActiveCap
from tallygate.policy.periods import format_period
from tallygate.review.cap_charge import CapChargeResult
from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.surges import is_surge_over


def find_most(cap: ActiveCap, ledger: Ledger, name: str) -> int:
    """Return the largest amount under a name with the surge: the smaller one of policy and ledger (rule 8)."""
    limits = (cap.hard, cap.surge), (ledger.hard, ledger.surge.amounts)
    return min(hard[name] + surge.get(name, 0) for hard, surge in limits if name in hard)


def describe_limit(result: CapChargeResult, name: str, hard: int) -> tuple[str, int]:
    """Return the hard limit and the surge of a pod of a controller that rolls as text, and the largest amount now."""
    most = find_most(result.charge.cap, result.before, name)
    limits = result.charge.cap.limits
    text = f"hard {limits.describe(name, hard)}, surge {format_amount(name, max(most - hard, 0))}"
    since = result.before.surge.since
    if since is None:
        return text, most
    if is_surge_over(result.before, result.charge.surge_terms):
        return f"{text} (over, it began at {format_time(since)})", hard
    return f"{text} (since {format_time(since)})", most


def suggest_end(result: CapChargeResult, name: str, hard: int) -> str:
    """Return the advice for a pod of a controller that rolls, which exceeds the hard limit and the surge."""
    terms = result.charge.surge_terms
    if not is_surge_over(result.before, terms):
        return "Wait until old pods end"
    return (
        f"The surge has lasted {format_period(terms.seconds)}: no pod exceeds hard until no more than "
        f"{format_amount(name, hard)} is charged. Wait until old pods end, or undo the rollout"
    )


def format_time(seconds: int) -> str:
    """Return a time of the Unix epoch as Kubernetes writes it."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
