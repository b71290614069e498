"""What all commands share: help that teaches, exit codes, and whose fault a failure is."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import click
import pytest
from click.testing import CliRunner

from webhook.cli.app import root
from webhook.cli.framework import Command, Group, RootGroup
from webhook.errors import TallygateError


def commands(command: click.Command = root, name: str = "tallygate") -> Iterator[tuple[str, click.Command]]:
    """Every command with its whole name."""
    yield name, command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for each in command.list_commands(context):
                inner = command.get_command(context, each)
                assert inner is not None
                yield from commands(inner, f"{name} {each}")


EVERY = list(commands())


@pytest.mark.parametrize(("name", "command"), EVERY, ids=[name for name, _ in EVERY])
def test_help_teaches(name: str, command: click.Command) -> None:
    """Each has a text, and examples of itself that click could read."""
    assert isinstance(command, Command | Group)
    assert command.examples
    assert any(line.find(name) >= 0 for line, _ in command.examples)
    assert command.help
    page = CliRunner().invoke(root, [*name.split()[1:], "--help"])
    assert page.exit_code == 0
    assert "\nExamples:\n" in page.output
    for line, meaning in command.examples:
        assert f"  # {meaning}\n  {line}\n" in page.output


@pytest.mark.parametrize(("name", "command"), EVERY, ids=[name for name, _ in EVERY])
def test_every_option_says_what_it_does(name: str, command: click.Command) -> None:
    """Without exception."""
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help, f"{name} {parameter.name}"


@pytest.mark.parametrize("words", [[], ["certs"]])
def test_every_command_is_listed_with_a_sentence(words: list[str]) -> None:
    page = CliRunner().invoke(root, [*words, "--help"]).output
    listed = page.partition("\nCommands:\n")[2].partition("\n\n")[0].splitlines()
    inner = [name.split()[-1] for name, _ in EVERY if name.split()[1:-1] == words and len(name.split()) > 1]
    assert [line.split()[0] for line in listed] == inner
    assert all(line.endswith(".") and len(line.split()) > 2 for line in listed)


@pytest.mark.parametrize("asked", [["--help"], ["certs", "--help"]])
def test_who_asks_what_there_is_does_not_wait_for_every_command_to_load(asked: list[str]) -> None:
    program = "import sys; from webhook.cli.app import root; root(sys.argv[1:], standalone_mode=False);"
    program += "loaded = [each for each in ('numpy', 'flask', 'kubernetes', 'jsonschema') if each in sys.modules];"
    program += "print(loaded, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program, *asked], capture_output=True, text=True, check=False)  # noqa: S603  ourselves, no shell
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_the_version_is_told() -> None:
    """As other tools do."""
    result = CliRunner().invoke(root, ["--version"], prog_name="tallygate")
    assert (result.exit_code, result.output) == (0, "tallygate 0.1.0\n")


class Failing(RootGroup):
    """The root command with commands of its own in place of modules."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Look them up as click does."""
        return click.Group.get_command(self, ctx, cmd_name)


def failing(error: BaseException) -> RootGroup:
    """The root command with a single command that fails so."""

    @click.group(cls=Failing, modules={}, examples=())
    @click.option("--traceback", is_flag=True)
    def tallygate(*, traceback: bool) -> None:
        del traceback

    def fail() -> None:
        raise error

    made = click.Command("fail", callback=fail)
    tallygate.add_command(made)
    return tallygate


def test_our_own_errors_are_misuse() -> None:
    """Every line of them is marked as ours."""
    result = CliRunner().invoke(failing(TallygateError("one\ntwo")), ["fail"])
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", "tallygate: one\ntallygate: two\n")


def test_a_crash_is_our_fault() -> None:
    """It says so, has its own exit code, and keeps the traceback for who asks."""
    result = CliRunner().invoke(failing(ValueError("surprise")), ["fail"])
    first = "tallygate: this is a fault of tallygate, not of your input: ValueError: surprise\n"
    assert (result.exit_code, result.stdout) == (70, "")
    assert result.stderr.startswith(first)
    assert "--traceback" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_crash_shows_where_when_asked() -> None:
    """With the traceback before the sentence."""
    result = CliRunner().invoke(failing(ValueError("surprise")), ["--traceback", "fail"])
    assert result.exit_code == 70
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert result.stderr.endswith("not of your input: ValueError: surprise\n")


def test_an_unforeseen_error_of_the_system_is_our_fault_too() -> None:
    """Whatever a user can cause has been turned into a sentence before."""
    result = CliRunner().invoke(failing(OSError(errno.ENOSPC, "No space left on device")), ["fail"])
    assert result.exit_code == 70


def test_an_interrupt_is_no_crash() -> None:
    """Exit code 130, as shells have it."""
    assert CliRunner().invoke(failing(KeyboardInterrupt()), ["fail"]).exit_code == 130


def tallygate(
    *arguments: str, stdout: int | IO[bytes] = subprocess.PIPE, **environment: str
) -> subprocess.Popen[bytes]:
    """A real process."""
    return subprocess.Popen(  # noqa: S603 -- this very program, no shell
        [sys.executable, "-m", "webhook.cli", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    )


def test_a_reader_that_leaves_is_no_error() -> None:
    """`tallygate explain | head -1` neither complains nor counts as findings."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        process = tallygate("explain", stdout=pipe)
    _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (141, b"")


def test_the_installed_command_and_the_module_are_one() -> None:
    """`tallygate` and `python -m webhook.cli`."""
    process = tallygate("check", str(Path(__file__).parent / "gone.yaml"))
    out, error = process.communicate(timeout=30)
    assert process.returncode == 2
    assert b"cannot be read: No such file or directory" in out
    assert b"1 error" in error


@pytest.mark.parametrize("command", ["check", "usage", "doctor"])
def test_who_asks_no_nodes_and_watches_no_files_does_not_wait_for_what_does(command: str) -> None:
    program = f"import sys, webhook.cli.{command}.command; unasked = ('numpy', 'kubernetes', 'watchfiles');"
    program += "print([each for each in unasked if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603  ourselves, no shell
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_no_thread_for_each_core_is_started_for_columns() -> None:
    program = "import os, sys; from webhook.cli import app; from contextlib import suppress;\n"
    program += "with suppress(SystemExit): app.main()\n"
    program += "print('numpy' in sys.modules, len(os.listdir('/proc/self/task')), file=sys.stderr)"
    unset = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    run = [sys.executable, "-c", program, "predict", "--help"]
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=unset)  # noqa: S603  ourselves, no shell
    assert done.stderr == "True 1\n"
