"""What is compared: namespaces that differ in nothing but in who is asked about their pods."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variant:
    """One of what is compared; `asked` says whether webhooks are registered for its namespace."""

    name: str
    title: str
    asked: bool

    @property
    def namespace(self) -> str:
        """Where its pods are created."""
        return f"bench-{self.name}"

    @property
    def full(self) -> str:
        """Where no pod of its is let in, for want of room."""
        return f"bench-{self.name}-full"


NONE = Variant("none", "no webhook", asked=False)
FLOOR = Variant("floor", "constant answer in Go", asked=True)
FLOOR_HTTP2 = Variant("floor-http2", "constant answer in Go, HTTP/2", asked=True)
FLOOR_KEPT = Variant("floor-kept", "constant answer in Go, after a write to the cluster", asked=True)
FLASK = Variant("flask", "trivial Flask webhook", asked=True)
FLASK_TWICE = Variant("flask-twice", "trivial Flask webhook, called in both phases", asked=True)
RULES = Variant("rules", "tallygate, shipped rules", asked=True)
QUOTA = Variant("quota", "ResourceQuota", asked=False)
KEPT = Variant("kept", "tallygate, shipped rules and a cap kept in the cluster", asked=True)
OPEN = Variant("kept-open", "the same with 1,000 open reservations", asked=True)
CAP = Variant("cap", "tallygate, shipped rules and a cap in memory", asked=True)

VARIANTS = (NONE, FLOOR, FLOOR_HTTP2, FLOOR_KEPT, FLASK, FLASK_TWICE, RULES, QUOTA, KEPT, CAP)
"""The variants of the main table."""

RESERVING = (NONE, QUOTA, KEPT, OPEN)
"""The variants that are compared where a ledger has open reservations."""

EVERY = (*VARIANTS, OPEN)
"""All variants: each has a namespace, and all are registered at once."""

REFUSING = (FLOOR, FLOOR_HTTP2, QUOTA, KEPT, CAP)
"""Those that count, and so may be full; and those that say so of one namespace whatever comes."""

PHASES = {FLASK: ("validating",), FLASK_TWICE: ("mutating", "validating")}
"""The phases in which a trivial webhook is called; a gate is called once about pods that are complete, as these are."""
