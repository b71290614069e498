"""Transcripts of a terminal, as the end-to-end suite keeps its cases: read, played and written."""

import pytest

from e2e.transcript import parse, played

WHOLE = """\
# A comment.
#: policies strict.yaml
$ kubectl create \\
    -f 'a b.yaml'
pod/a created

# Another.
$ kubectl get pod $NODE
(exit 1)
# The end.
"""


def plays(text: str, *printed: str) -> tuple[str, list[object]]:
    """The transcript as it goes when commands print these in turn, and what was done in which order."""
    done: list[object] = []
    texts = iter(printed)

    def run(words: list[str]) -> str:
        done.append(words)
        return next(texts)

    return played(parse(text), run, done.append, {"NODE": "node-7"}).text(), done


def test_a_transcript_is_written_as_it_was_read() -> None:
    assert parse(WHOLE).text() == WHOLE


def test_commands_are_run_and_directions_followed_in_order() -> None:
    text, done = plays(WHOLE, "pod/a created\n", "(exit 1)\n")
    assert text == WHOLE
    assert done == [
        "policies strict.yaml",
        ["kubectl", "create", "-f", "a b.yaml"],
        ["kubectl", "get", "pod", "node-7"],
    ]


def test_a_direction_after_the_last_command_is_followed_too() -> None:
    assert plays("$ a\n#: with the gate\n", "")[1] == [["a"], "with the gate"]


def test_what_is_printed_otherwise_takes_the_place_of_what_was_expected() -> None:
    assert plays("$ a\none\n\n$ b\n", "two\n\nthree  \n(exit 1)\n", "")[0] == "$ a\ntwo\nthree\n(exit 1)\n\n$ b\n"


def test_the_names_of_a_run_are_not_kept() -> None:
    assert plays("$ a\n", "node-7 is ready\n")[0] == "$ a\n$NODE is ready\n"


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("pod/a-… created", "pod/a-x2x9f created"),
        ("0/… nodes: …Insufficient gpu…", "0/3 nodes: 1 Insufficient gpu. preemption: none"),
        ("…\ndone", "waiting\nstill waiting\ndone"),
        ("…\ndone", "done"),
        ("a\n…", "a\nb\nc"),
        ("a.b", "a.b"),
    ],
)
def test_dots_stand_for_anything_in_a_line_and_alone_for_any_lines(expected: str, printed: str) -> None:
    assert plays(f"$ a\n{expected}\n", printed)[0] == f"$ a\n{expected}\n"


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("pod/a-… created", "pod/a-x2x9f deleted"),
        ("a…c", "a\nb\nc"),
        ("…\ndone", "waiting\ndone\nundone"),
        ("a.b", "axb"),
        ("a", "a\n(exit 1)"),
        ("a", ""),
    ],
)
def test_dots_stand_for_nothing_else(expected: str, printed: str) -> None:
    text = "".join(f"{line}\n" for line in printed.splitlines())
    assert plays(f"$ a\n{expected}\n", printed)[0] == f"$ a\n{text}"


def test_lines_with_dots_that_still_hold_are_kept_where_others_do_not() -> None:
    assert plays("$ a\npod/… created\nold\n…\n", "pod/x created\nnew\n")[0] == "$ a\npod/… created\nnew\n"


def test_a_command_that_is_not_finished_ends_with_the_file() -> None:
    assert parse("$ kubectl get \\\n").steps[0].command == "kubectl get"
