"""Terminal transcripts, the cases of the end-to-end suite: parsed, replayed and written."""

import pytest

from e2e.transcript import parse, replay

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


def replay_text(text: str, *printed: str) -> tuple[str, list[object]]:
    """Return the transcript of commands that print these texts in turn, and the executed steps in order."""
    steps: list[object] = []
    texts = iter(printed)

    def run(words: list[str]) -> str:
        steps.append(words)
        return next(texts)

    return replay(parse(text), run, steps.append, {"NODE": "node-7"}).text(), steps


def test_a_parsed_transcript_is_written_unchanged() -> None:
    assert parse(WHOLE).text() == WHOLE


def test_commands_and_directions_are_executed_in_order() -> None:
    text, steps = replay_text(WHOLE, "pod/a created\n", "(exit 1)\n")
    assert text == WHOLE
    assert steps == [
        "policies strict.yaml",
        ["kubectl", "create", "-f", "a b.yaml"],
        ["kubectl", "get", "pod", "node-7"],
    ]


def test_a_direction_after_the_last_command_is_executed() -> None:
    assert replay_text("$ a\n#: with the gate\n", "")[1] == [["a"], "with the gate"]


def test_different_output_replaces_the_expected_output() -> None:
    assert replay_text("$ a\none\n\n$ b\n", "two\n\nthree  \n(exit 1)\n", "")[0] == "$ a\ntwo\nthree\n(exit 1)\n\n$ b\n"


def test_lines_of_kubectls_own_log_are_left_out() -> None:
    logged = 'I1126 19:06:30.209337   28141 reflector.go:664] "Warning: watch ended with error"\n'
    assert replay_text("$ a\none\n", f"{logged}one\n")[0] == "$ a\none\n"
    assert replay_text("$ a\n", f"{logged}two\n")[0] == "$ a\ntwo\n"


def test_names_of_a_run_are_replaced_by_variables() -> None:
    assert replay_text("$ a\n", "node-7 is ready\n")[0] == "$ a\n$NODE is ready\n"


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
def test_an_ellipsis_matches_any_text_of_a_line_or_any_lines(expected: str, printed: str) -> None:
    assert replay_text(f"$ a\n{expected}\n", printed)[0] == f"$ a\n{expected}\n"


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
def test_an_ellipsis_matches_nothing_else(expected: str, printed: str) -> None:
    text = "".join(f"{line}\n" for line in printed.splitlines())
    assert replay_text(f"$ a\n{expected}\n", printed)[0] == f"$ a\n{text}"


def test_matching_lines_with_an_ellipsis_are_kept_if_others_differ() -> None:
    assert replay_text("$ a\npod/… created\nold\n…\n", "pod/x created\nnew\n")[0] == "$ a\npod/… created\nnew\n"


def test_an_unfinished_command_ends_with_the_file() -> None:
    assert parse("$ kubectl get \\\n").steps[0].command == "kubectl get"
