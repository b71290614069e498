"""Results of plugins (kube-scheduler v0.36.3 framework/interface.go: Code, Status)."""

from dataclasses import dataclass
from enum import Enum, auto


class Code(Enum):
    """The code of a result."""

    SUCCESS = auto()
    ERROR = auto()
    UNSCHEDULABLE = auto()
    UNRESOLVABLE = auto()
    """UnschedulableAndUnresolvable: the removal of pods does not help."""
    SKIP = auto()


@dataclass(frozen=True, slots=True)
class Status:
    """A code and its reasons; filters also set the plugin."""

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
        """Status.IsRejected, without Pending, which no plugin here returns."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """Return NewStatus(Unschedulable, …)."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """Return NewStatus(UnschedulableAndUnresolvable, …)."""
    return Status(Code.UNRESOLVABLE, reasons)


def error_status(error: str) -> Status:
    """Return AsStatus(err)."""
    return Status(Code.ERROR, (error,))
