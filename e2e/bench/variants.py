"""The compared variants: namespaces that differ only in the webhooks and quotas of their pods."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variant:
    """A compared variant; `is_registered` is True if webhooks are registered for its namespace."""

    name: str
    title: str
    is_registered: bool

    @property
    def namespace(self) -> str:
        """Namespace of its pods."""
        return f"bench-{self.name}"

    @property
    def full(self) -> str:
        """Namespace in which all its pods are rejected."""
        return f"bench-{self.name}-full"


NONE = Variant("none", "no webhook", is_registered=False)
FLOOR = Variant("floor", "constant answer in Go", is_registered=True)
FLOOR_HTTP2 = Variant("floor-http2", "constant answer in Go, HTTP/2", is_registered=True)
FLOOR_KEPT = Variant("floor-kept", "constant answer in Go, after a write to the cluster", is_registered=True)
FLASK = Variant("flask", "trivial Flask webhook", is_registered=True)
FLASK_TWICE = Variant("flask-twice", "trivial Flask webhook, called in both phases", is_registered=True)
RULES = Variant("rules", "tallygate, shipped rules", is_registered=True)
QUOTA = Variant("quota", "ResourceQuota", is_registered=False)
KEPT = Variant("kept", "tallygate, shipped rules and a cap kept in the cluster", is_registered=True)
OPEN = Variant("kept-open", "the same with 1,000 open reservations", is_registered=True)
CAP = Variant("cap", "tallygate, shipped rules and a cap in memory", is_registered=True)

UNCOUNTED = Variant("uncounted", "tallygate, asked about what twenty policies concern", is_registered=True)
NEVER = Variant("never", "the same webhooks with one condition that is false", is_registered=True)
READING = Variant("reading", "the same webhooks with one condition that reads a field", is_registered=True)
BACKSTOP = Variant("backstop", "twenty policies as compiled objects, no webhook", is_registered=False)

VARIANTS = (NONE, FLOOR, FLOOR_HTTP2, FLOOR_KEPT, FLASK, FLASK_TWICE, RULES, QUOTA, KEPT, CAP)
"""The variants of the main table."""

RESERVING = (NONE, QUOTA, KEPT, OPEN)
"""The variants that are compared where a ledger has open reservations."""

COMPILED = (NONE, QUOTA, KEPT, BACKSTOP)
"""The variants that are compared with compiled objects; the gate has the policies that these are compiled from."""

UNASKED = (NONE, UNCOUNTED, READING, NEVER)
"""The variants that are compared for pods that no policy concerns.

The last two are floors: of any condition that reads the object, and of any condition.
"""

EVERY = (*VARIANTS, OPEN, UNCOUNTED, READING, NEVER, BACKSTOP)
"""All variants: each has a namespace, and all are registered at once."""

REFUSING = (FLOOR, FLOOR_HTTP2, QUOTA, KEPT, CAP)
"""The variants that can reject: those that count, and those that reject in one namespace always."""

CONDITIONS = {NEVER: "false", READING: "has(object.metadata.never)"}
"""The conditions in place of those of the policies, which no object passes."""

PHASES: dict[Variant, tuple[str, ...]] = {
    FLASK: ("validating",),
    FLASK_TWICE: ("mutating", "validating"),
    **dict.fromkeys(CONDITIONS, ()),
}
"""The phases in which a trivial webhook is called; a gate is called once for complete pods like these."""
