"""What an audit has looked at, and what it has left out and why."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

MAX_REMARKS: Final = 20


@dataclass(slots=True)
class AuditCoverage:
    """What was looked at: objects by kind, those left out by why, and what could not be judged."""

    evaluated: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    idle: int = 0
    excluded: Counter[str] = field(default_factory=Counter)
    unreadable: int = 0
    remarks: dict[str, None] = field(default_factory=dict)

    def add_remark(self, text: str) -> None:
        """Say something once, unless enough was said."""
        if len(self.remarks) < MAX_REMARKS:
            self.remarks[text] = None
