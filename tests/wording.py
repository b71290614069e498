"""Recorded texts, compared by their facts: a message with other words breaks the first case that has it.

A *fact* of a line is a code, a path, an amount, a time, a name, a key or a verdict, in its order; a cell of a table
that is one word is one too. What is left of a clause is its *wording*. The first case of all that has a wording is
compared with it in full, the others by their facts alone.

A test that is written by hand states the facts of a message (`join_facts`). One such test states a wording that no
recorded text has.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_CELLS = re.compile(r"\s{2,}")
_CLAUSES = re.compile(r"(?<=[.;:,])\s+|\s{2,}|\n")
_KEY = re.compile(r'\s*(?:- )?"?([\w.-]+)"?: ')
_VALUES = re.compile(r"""(?:^|[:\[{,=-])\s*["']?([A-Za-z][\w.-]*)["']?\s*(?=[,}\]\n#]|$)""", re.MULTILINE)
_VERDICTS = frozenset(
    ("allowed", "denied", "error", "exit", "failed", "fits", "never", "ok", "rejected", "remark", "unknown", "warning")
)
_OF_KUBERNETES = re.compile(r"((?:nodes are available|^Insufficient |^node\(s\) ).*?)(?=; | \(TG\d|$)")
"""The words of the scheduler, which are those of Kubernetes."""
_LIMITS = re.compile(r"\b(allocated|charged|free|hard|requested|reserved|soft|surge|used) (?=\d|none\b)")
"""The keys of a quota or cap, before their amounts."""
_NOT_NOW = re.compile(r"\bnot now\b")
_EDGES = "\"'()[]{},.;:!?…"


class Recorded(NamedTuple):
    """The expected text of a case, and the names in what it reads, which are words like any other."""

    case: str
    text: str
    names: frozenset[str] = frozenset()


def find_names(texts: Iterable[str]) -> frozenset[str]:
    """Return the values in YAML and JSON that are one word."""
    return frozenset(name for text in texts for name in _VALUES.findall(text))


def find_names_in(folder: Path) -> frozenset[str]:
    """Return the names in the files of a folder, without what is expected of it."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("expected"))
    return find_names(path.read_text("utf-8", "replace") for path in paths)


def list_facts(line: str, names: frozenset[str]) -> list[str]:
    """Return the facts of a line, in their order."""
    facts: list[str] = []
    for cell in _CELLS.split(line.strip()):
        key = _KEY.match(cell)
        if key is not None:
            facts.append(f"{key[1]}:")
        value = _NOT_NOW.sub("not_now", cell[key.end() :] if key is not None else cell)
        for index, part in enumerate(_OF_KUBERNETES.split(value)):
            words = part.split()
            is_whole = index % 2 == 1 or len(words) == 1
            facts += words if is_whole else [word.strip(_EDGES) for word in words if _is_fact(word, names)]
    return facts


def join_facts(message: str, names: frozenset[str]) -> str:
    """Return the facts of a message, divided by spaces, with the keys of a limit at their amounts, as in `hard=4`."""
    return " ".join(list_facts(_LIMITS.sub(r"\1=", message), names))


class Wordings:
    """The wordings of all recorded texts, each with the first case that has it."""

    def __init__(self, recorded: Iterable[Recorded]) -> None:
        owners: dict[str, str] = {}
        for each in recorded:
            for wording, _ in _list_wordings(each):
                owners.setdefault(wording, each.case)
        self._owners: Mapping[str, str] = owners

    def reduce(self, recorded: Recorded, actual: str) -> tuple[list[str], list[str]]:
        """Return what must be equal of the actual and of the expected text: the facts of each line, and wordings."""
        forms = [
            [" ".join(list_facts(line, recorded.names)) for line in text.splitlines()]
            for text in (actual, recorded.text)
        ]
        owned = [clause for wording, clause in _list_wordings(recorded) if self._owners[wording] == recorded.case]
        return [*forms[0], *(clause for clause in owned if clause in actual)], [*forms[1], *owned]


def _is_fact(word: str, names: frozenset[str]) -> bool:
    core = word.strip(_EDGES)
    is_word = core.replace("-", "").replace("'", "").isalpha() and core[1:].islower()
    return bool(core) and (core in names or core in _VERDICTS or not (is_word or (core.isalpha() and len(core) == 1)))


def _list_wordings(recorded: Recorded) -> Iterator[tuple[str, str]]:
    """Yield the wording of each clause of a text that has one, and the clause."""
    for clause in _CLAUSES.split(recorded.text):
        words = clause.split()
        wording = " ".join(word for word in words if not _is_fact(word, recorded.names))
        if len(words) > 1 and wording:
            yield wording, clause
