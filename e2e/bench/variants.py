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
RULES = Variant("rules", "tallygate, shipped rules", asked=True)
CAP = Variant("cap", "tallygate, shipped rules and a cap", asked=True)
KEPT = Variant("kept", "tallygate, shipped rules and a cap kept in the cluster", asked=True)
QUOTA = Variant("quota", "ResourceQuota", asked=False)

VARIANTS = (NONE, FLOOR, FLOOR_HTTP2, FLOOR_KEPT, FLASK, RULES, CAP, KEPT, QUOTA)

REFUSING = (FLOOR, FLOOR_HTTP2, CAP, KEPT, QUOTA)
"""Those that count, and so may be full; and those that say so of one namespace whatever comes."""
