"""What a plugin says (kube-scheduler v0.36.3 framework/interface.go: Code, Status)."""

from dataclasses import dataclass
from enum import Enum, auto


class Code(Enum):
    """How a plugin ended."""

    SUCCESS = auto()
    ERROR = auto()
    UNSCHEDULABLE = auto()
    UNRESOLVABLE = auto()
    """UnschedulableAndUnresolvable: the leaving of pods does not help."""
    SKIP = auto()


@dataclass(frozen=True, slots=True)
class Status:
    """A code and the reasons for it; who said so is known of filters."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        """Status.Message."""
        return ", ".join(self.reasons)

    @property
    def is_success(self) -> bool:
        """Status.IsSuccess."""
        return self.code is Code.SUCCESS

    @property
    def is_rejected(self) -> bool:
        """Status.IsRejected, without Pending, which no plugin here says."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """NewStatus(Unschedulable, …)."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """NewStatus(UnschedulableAndUnresolvable, …)."""
    return Status(Code.UNRESOLVABLE, reasons)


def failed(error: str) -> Status:
    """AsStatus(err)."""
    return Status(Code.ERROR, (error,))
