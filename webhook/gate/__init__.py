"""The gate: the one use case. Read, decide by the rules, reserve under the caps, on conflict decide again.

The rule of this room: it knows neither web, terminal nor cluster. Ports, the clock and nonces are handed in.
"""

from webhook.gate.answering import Decision, DecisionRecord
from webhook.gate.gate import Gate, UndecidedError

__all__ = ["Decision", "DecisionRecord", "Gate", "UndecidedError"]
