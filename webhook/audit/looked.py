"""What an audit has looked at, and what it has left out and why."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

MOST_REMARKS: Final = 20


@dataclass(slots=True)
class Looked:
    """What was looked at: objects by kind, those left out by why, and what could not be judged."""

    judged: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    idle: int = 0
    spared: Counter[str] = field(default_factory=Counter)
    unreadable: int = 0
    remarks: dict[str, None] = field(default_factory=dict)

    def remark(self, text: str) -> None:
        """Say something once, unless enough was said."""
        if len(self.remarks) < MOST_REMARKS:
            self.remarks[text] = None
