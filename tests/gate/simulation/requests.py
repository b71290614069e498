"""Requests to the API server, from their first call on until their pods are stored or they are given up."""

from dataclasses import dataclass
from enum import StrEnum

from tests.gate.simulation.tasks import Task
from webhook.state.ledger.ledger import Operation
from webhook.state.ports import LedgerKey


class State(StrEnum):
    """Where the API server is with a request."""

    CALLING = "calling"
    ALLOWED = "allowed"
    SENT = "sent"


@dataclass(eq=False)
class Request:
    """A creation or a change; `seen` is the revision of the pod that it would replace.

    It was judged by the namespaces as of revision `judged`.
    """

    kind: Operation
    uid: str
    namespace: str
    old: int
    new: int
    arrived: float
    token: int
    seen: int = 0
    state: State = State.CALLING
    task: Task | None = None
    promised: frozenset[LedgerKey] = frozenset()
    judged: int = 0
