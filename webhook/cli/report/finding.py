"""A finding: one thing about one file, from whoever found it, ready to be shown."""

from dataclasses import dataclass
from enum import StrEnum


class FindingSeverity(StrEnum):
    """An error fails the command, a warning does so under `--strict`, a note never."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, order=True)
class FindingSubject:
    """The object that a finding is about; all empty when it is about the file. `document` counts from 0."""

    document: int = 0
    kind: str = ""
    namespace: str = ""
    name: str = ""
    origin: str = ""

    def __str__(self) -> str:
        """`Pod team-a/trainer`, as short as the object is known."""
        qualified_name = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.kind} {qualified_name}".strip()


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """What is wrong where, and who says so.

    `line` and `column` count from 1, and are 0 for what is in a cluster, and not in a file. `by` is `the
    API server`, `tallygate`, `rule NAME` or `cap NAME`; `field` the path as Kubernetes prints it, empty for a whole
    file; `why` the reason that a policy's author gives.
    """

    file: str
    line: int
    column: int
    severity: FindingSeverity
    code: str
    message: str
    reporter: str = "tallygate"
    field: str = ""
    subject: FindingSubject = FindingSubject()
    why: str = ""

    @property
    def location(self) -> str:
        """`file:line:column`, clickable in editors."""
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def field_message(self) -> str:
        """The message with the field before it."""
        return f"{self.field}: {self.message}" if self.field else self.message

    @property
    def attribution(self) -> str:
        """Who says it, and the author's reason: `rule whole-gpus: GPUs cannot be split`."""
        return f"{self.reporter}: {self.why}" if self.why else self.reporter
