"""The rules by which the counted pod of a name covers the attempts of that name."""

from tallygate.state.ledger.ledger import Ledger
from tallygate.state.ledger.recount import NO_POD, CountedPod, PodName, StaleSnapshot, UsageSnapshot


def find_holder(recounted: Ledger | StaleSnapshot, snapshot: UsageSnapshot, name: PodName, uid: str) -> CountedPod:
    """Rule 13: return the counted pod of a name in a recounted ledger, which covers the creation of another one."""
    return NO_POD if isinstance(recounted, StaleSnapshot) else snapshot.find_holder(name, uid)
