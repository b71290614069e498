"""Reports as JUnit XML, which CI systems show beside their own tests.

One suite a file, one case a sequence; the form that Jenkins' xunit plugin and GitLab's unit test reports read.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.sax.saxutils import quoteattr

from webhook.cli.report.table import harmless
from webhook.cli.sequences import describe
from webhook.cli.sequences.play import Done, Played

_NO_XML = dict.fromkeys((*range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "\ufffd")


def text(played: Sequence[Played]) -> str:
    """The whole report."""
    return "\n".join(_lines(played)) + "\n"


def _lines(played: Sequence[Played]) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites {_counts(played)}>"
    for file, group in groupby(played, key=lambda each: each.sequence.source.file):
        cases = list(group)
        yield f'  <testsuite name={_quoted(file)} {_counts(cases)} errors="0" skipped="0">'
        for each in cases:
            yield from _case(each, file)
        yield "  </testsuite>"
    yield "</testsuites>"


def _case(played: Played, file: str) -> Iterator[str]:
    name, line = _quoted(played.sequence.name), played.sequence.source.line
    head = f'    <testcase name={name} classname={_quoted(file)} file={_quoted(file)} line="{line}"'
    if played.failed is None:
        yield f"{head}/>"
        return
    yield f"{head}>"
    yield f"      <failure message={_quoted(_said(played.failed))}/>"
    yield "    </testcase>"


def _said(done: Done) -> str:
    source = done.step.source
    head = f"{source.file}:{source.line}:{source.column}: step {done.number}: {describe.action(done.step)}"
    rows = [f"expected {each.what} {each.expected}; happened: {each.happened}" for each in done.differences]
    rows += [f"event {each}" for each in done.outcome.events]
    rows += [f"ledger {which}: {amounts}" for which, amounts in describe.ledgers(done.accounts)]
    return "\n".join((head, *rows))


def _counts(played: Sequence[Played]) -> str:
    return f'tests="{len(played)}" failures="{sum(each.failed is not None for each in played)}"'


def _quoted(written: str) -> str:
    """An attribute; line ends are kept, and what XML cannot hold is not."""
    return quoteattr(harmless(written).translate(_NO_XML))
