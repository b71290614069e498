"""Hostile text is rejected in limited time and memory, and without recursion."""

import time
import tracemalloc
from collections.abc import Callable

import pytest

from tallygate.policy import comparison_effort
from tallygate.policy.lint_findings import Severity
from tallygate.policy.load import load_policies
from tallygate.policy.parse import (
    MAX_DOCUMENTS,
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_FINDINGS_PER_FILE,
    MAX_NODES,
    ParseResult,
    parse,
)

RULE = "apiVersion: tallygate.dev/v1alpha1\nkind: ResourceRule\nmetadata: {name: a}\nspec: {resources: [a.b/c]}\n"


def _laughs() -> str:
    """Return nine lists, each ten times the previous one."""
    lists = [f"  k{at}: &l{at} [{', '.join([f'*l{at - 1}'] * 10)}]" for at in range(1, 10)]
    return "\n".join([RULE + "laughs:", "  k0: &l0 [ha, ha]", *lists, ""])


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a million brackets": (lambda: b"[" * 1_000_000, "TG302"),
    "a million braces": (lambda: b"{" * 1_000_000, "TG302"),
    "half a million dashes on one line": (lambda: b"- " * 500_000, "TG302"),
    "half a million question marks": (lambda: b"? " * 500_000, "TG302"),
    "nesting by indentation": (lambda: "\n".join(f"{' ' * at}a:" for at in range(1_000)).encode(), "TG302"),
    "nesting of JSON": (lambda: b'{"a":' * 100_000, "TG302"),
    "fifty megabytes": (lambda: b"a: b\n" * 10_000_000, "TG302"),
    "a billion laughs": (lambda: _laughs().encode(), "TG302"),
    "a thousand aliases of a large list": (
        f"a: &a [{'x, ' * 900}]\nb: [{'*a, ' * 1000}]\n".encode,
        "TG302",
    ),
    "a NUL byte": (lambda: RULE.encode() + b"\0", "TG301"),
    "a control character": (lambda: RULE.encode() + b"# \x1b[31m", "TG301"),
    "a control character beyond ASCII": (lambda: RULE.encode() + "# \x9b".encode(), "TG301"),
    "bytes that are no UTF-8": (lambda: RULE.encode() + b"# \xff\xfe", "TG301"),
    "UTF-16": (lambda: RULE.encode("utf-16"), "TG301"),
    "an executable": (lambda: b"\x7fELF\x02\x01\x01" + bytes(1000), "TG301"),
    "a tag that constructs": (lambda: b'!!python/object/apply:os.system ["true"]', "TG304"),
    "a tag that constructs a mapping": (lambda: b"!!python/object:os.environ {a: b}", "TG304"),
    "a number of a million digits": (lambda: RULE.encode() + b"x: " + b"9" * 1_000_000, "TG307"),
    "a text of a million letters": (lambda: RULE.replace("a.b/c", "a" * 1_000_000).encode(), "TG315"),
    "a key of a million letters": (lambda: RULE.encode() + b"? " + b"k" * 1_000_000 + b"\n: v\n", "TG307"),
    "a name of a million letters": (lambda: RULE.replace("name: a", "name: " + "a" * 1_000_000).encode(), "TG315"),
    "an escape of half a character": (lambda: RULE.encode() + b'"\\ud800": 1\n', "TG303"),
    "an escape of two halves": (lambda: RULE.encode() + b'x: "\\ud83d\\ude00"\n', "TG303"),
    "an escape beyond Unicode": (lambda: RULE.encode() + b'x: "\\U00110000"\n', "TG303"),
    "a version of a million digits": (lambda: b"%YAML 1." + b"9" * 1_000_000 + b"\n---\n" + RULE.encode(), "TG303"),
    "directives without end": (lambda: b"%a b\n" * 40_000, "TG303"),
    "a million lines": (lambda: b"\n" * 1_000_000, "TG302"),
    "a million line ends of old": (lambda: b"\r" * 1_000_000, "TG302"),
    "a text of half a million lines": (lambda: b"a\n" * 500_000, "TG302"),
}


def _codes(parsed: ParseResult) -> set[str]:
    return {finding.code for finding in parsed.findings if finding.severity is Severity.ERROR}


@pytest.mark.parametrize(("make", "code"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_rejected_quickly(make: Callable[[], bytes], code: str) -> None:
    content = make()
    started_at = time.process_time()
    parsed = parse([("hostile.yaml", content)])
    assert time.process_time() - started_at < 5  # ten times the usual time, and far below the time without limits
    assert code in _codes(parsed)
    assert not parsed.is_usable
    assert all(len(str(finding)) < 2_000 for finding in parsed.findings)


@pytest.mark.parametrize("name", ["a million brackets", "fifty megabytes", "a billion laughs", "an executable"])
def test_hostile_text_takes_little_memory(name: str) -> None:
    content = HOSTILE[name][0]()
    tracemalloc.start()
    try:
        parse([("hostile.yaml", content)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


def test_the_position_of_invalid_bytes_is_reported() -> None:
    (finding,) = parse([("a.yaml", b"a: b\nc: \xff\n")]).findings
    assert (finding.line, finding.column) == (2, 4)
    (finding,) = parse([("a.yaml", b"a: b\nc: d\0\n")]).findings
    assert (finding.line, finding.column) == (2, 5)


def test_too_many_values_are_rejected() -> None:
    (finding,) = parse([("a.yaml", b"[" + b"1," * MAX_NODES + b"1]")]).findings
    assert "more than" in finding.message
    assert finding.code == "TG302"


def test_documents_are_counted_over_all_files() -> None:
    remarks = "{}\n---\n" * (MAX_DOCUMENTS // 2)
    found = parse([("a.yaml", remarks.encode()), ("b.yaml", remarks.encode()), ("c.yaml", RULE.encode())]).findings
    assert ("c.yaml", "TG302") in {(finding.file, finding.code) for finding in found}


def test_files_are_counted() -> None:
    found = parse([(f"{at}.yaml", b"") for at in range(MAX_FILES + 1)]).findings
    assert [finding.code for finding in found] == ["TG302"]


def test_bytes_are_counted_over_all_files() -> None:
    found = parse([(f"{at}.yaml", b"#" * MAX_FILE_BYTES) for at in range(9)]).findings
    assert [finding.code for finding in found] == ["TG302"]


def test_a_file_of_the_maximum_size_is_read() -> None:
    padded = RULE.encode() + b"#" * (MAX_FILE_BYTES - len(RULE))
    assert parse([("a.yaml", padded)]).is_usable
    assert not parse([("a.yaml", padded + b"#")]).is_usable


def test_findings_of_one_file_are_limited() -> None:
    """Show findings of a second file after a file with a thousand."""
    many = RULE + "".join(f"x{at}: 1\n" for at in range(1_000))
    found = parse([("a.yaml", many.encode()), ("b.yaml", b"x: 1")]).findings
    of_a = [finding for finding in found if finding.file == "a.yaml"]
    assert len(of_a) == MAX_FINDINGS_PER_FILE + 1
    assert of_a[-1].message.endswith("not shown")
    assert any(finding.file == "b.yaml" for finding in found)


_CAP = "apiVersion: tallygate.dev/v1alpha1\nkind: NamespaceCap\n"
_IMPLIED = """\
apiVersion: tallygate.dev/v1alpha1
kind: ImpliedRequest
metadata: {{name: a{0}}}
spec: {{resource: a.b/c, match: {{namespaces: {{include: [t{0}]}}}}}}
"""
_NAMED_CAP = "metadata: {{name: a{0}}}\nspec: {{namespaces: {{include: [a, b, c, '*{0}']}}, hard: {{a.b/c: 1}}}}\n"


@pytest.mark.parametrize(
    ("number", "policies"),
    [
        (3, [RULE.replace("name: a", f"name: a{index}") for index in range(9)]),
        (2, [RULE.replace("name: a", f"name: a{index}").replace("a.b/c", "'*?.b/c', '*.b/c'") for index in range(9)]),
        (6, [_CAP + f"metadata: {{name: a{index}}}\nspec: {{hard: {{a.b/c: {index}}}}}\n" for index in range(9)]),
        (0, [_CAP + _NAMED_CAP.format(index) for index in range(9)]),
        (3, [_IMPLIED.format(index) for index in range(9)]),
    ],
    ids=["rules", "rules with wildcards", "caps of one selection", "caps with names", "implied requests"],
)
def test_the_effort_of_comparing_policies_is_limited(
    number: int, policies: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "TG302" not in _codes(parse([("a.yaml", "---\n".join(policies).encode())]))
    monkeypatch.setattr(comparison_effort, "MAX_STEPS", 20)
    (finding,) = [
        each
        for each in load_policies((), extra_files=(("a.yaml", "---\n".join(policies).encode()),)).findings
        if each.code == "TG302"
    ]
    assert f'"a{number}": the policies up to this one have too many names' in finding.message


@pytest.mark.parametrize("glob", ["*a" * 150, "*?a" * 100, "*" + "a?" * 150])
def test_globs_of_many_wildcards_are_compared_in_limited_time(glob: str) -> None:
    rules = [
        RULE.replace("name: a", f"name: a{index}").replace("a.b/c", f"'{glob}.b/c{index}*'") for index in range(60)
    ]
    started_at = time.process_time()
    assert load_policies((), extra_files=(("a.yaml", "---\n".join(rules).encode()),)).findings
    assert time.process_time() - started_at < 10


def test_the_number_of_syntax_errors_is_limited() -> None:
    found = parse([("a.yaml", b"a: [\n---\n" * 1_000)]).findings
    assert 1 < len(found) < 50


def test_thousands_of_unknown_fields_are_checked_in_limited_time() -> None:
    content = (RULE + "".join(f"field{at}: 1\n" for at in range(4_000))).encode()
    started_at = time.process_time()
    assert not parse([("a.yaml", content)]).is_usable
    assert time.process_time() - started_at < 10
