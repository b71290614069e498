"""Properties of all commands: help with examples, exit codes, and messages of errors and crashes."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import click
import pytest
from click.testing import CliRunner

from tallygate.accounting.kubernetes_versions.switches import Switch
from tallygate.cli.app import root
from tallygate.cli.framework import Command, Group, RootGroup
from tallygate.errors import TallygateError


def list_commands(command: click.Command = root, name: str = "tallygate") -> Iterator[tuple[str, click.Command]]:
    """Yield every command with its full name."""
    yield name, command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for each in command.list_commands(context):
                inner = command.get_command(context, each)
                assert inner is not None
                yield from list_commands(inner, f"{name} {each}")


COMMANDS = list(list_commands())


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_the_help_has_examples(name: str, command: click.Command) -> None:
    """Print a text and examples that click can parse."""
    assert isinstance(command, Command | Group)
    assert command.examples
    assert any(line.find(name) >= 0 for line, _ in command.examples)
    assert command.help
    page = CliRunner().invoke(root, [*name.split()[1:], "--help"])
    assert page.exit_code == 0
    assert "\nExamples:\n" in page.output
    for line, meaning in command.examples:
        assert f"  # {meaning}\n  {line}\n" in page.output


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_every_option_has_a_description(name: str, command: click.Command) -> None:
    """Leave out hidden ones, such as those of settings that were removed."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{name} {parameter.name}"


@pytest.mark.parametrize("words", [[], ["certs"]])
def test_every_command_is_listed_with_a_sentence(words: list[str]) -> None:
    page = CliRunner().invoke(root, [*words, "--help"]).output
    sections = re.findall(r"^Commands[^\n]*:\n((?:  .*\n)+)", page, re.MULTILINE)
    listed = [line for section in sections for line in section.splitlines()]
    inner = [name.split()[-1] for name, _ in COMMANDS if name.split()[1:-1] == words and len(name.split()) > 1]
    assert [line.split()[0] for line in listed] == inner
    assert all(line.endswith(".") and len(line.split()) > 2 for line in listed)


def test_the_help_groups_commands_by_role() -> None:
    page = CliRunner().invoke(root, ["--help"]).output
    roles = re.findall(r"^Commands for (.*):$", page, re.MULTILINE)
    assert roles == ["developers", "admins", "operators", "nodes", "your shell"]
    indented = re.findall(r"^  [a-z][a-z-]*  +(?=[A-Z])", page, re.MULTILINE)
    assert len(indented) == len([name for name, _ in COMMANDS if len(name.split()) == 2])
    assert len({len(text) for text in indented}) == 1


@pytest.mark.parametrize("arguments", [["--help"], ["certs", "--help"]])
def test_the_help_does_not_load_every_command(arguments: list[str]) -> None:
    program = "import sys; from tallygate.cli.app import root; root(sys.argv[1:], standalone_mode=False);"
    program += "loaded = [each for each in ('numpy', 'flask', 'kubernetes', 'jsonschema') if each in sys.modules];"
    program += "print(loaded, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)  # noqa: S603  ourselves, no shell
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_the_version_is_printed() -> None:
    result = CliRunner().invoke(root, ["--version"], prog_name="tallygate")
    assert (result.exit_code, result.output) == (0, "tallygate 0.1.0\n")


def test_the_version_has_the_rules_by_version_of_kubernetes_as_data() -> None:
    result = CliRunner().invoke(root, ["--version", "-o", "json"], prog_name="tallygate")
    kubernetes = json.loads(result.output)["kubernetes"]
    assert (result.exit_code, kubernetes["preliminary"]) == (0, ["1.38"])
    assert kubernetes["modelled"] == ["1.36", "1.37", "1.38"]
    assert [each["name"] for each in kubernetes["switches"]] == [switch.name for switch in Switch]
    assert {each["since"] for each in kubernetes["switches"] if each["preliminary"]} == {"1.38"}
    gate = next(each for each in kubernetes["featureGates"] if each["name"] == "DRADeviceTaintRules")
    assert gate["onByDefault"] == {"1.36": False, "1.37": True, "1.38": True}


def test_the_output_of_the_version_is_no_option_of_commands() -> None:
    """Point to the option of the command: before the command it would have no effect."""
    result = CliRunner().invoke(root, ["-o", "json", "check", "x.yaml"], prog_name="tallygate")
    assert (result.exit_code, result.stderr) == (2, "tallygate: -o json stands after the command: check -o json\n")


class FailingGroup(RootGroup):
    """The root command with fixed subcommands in place of modules."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Look up a command as click does."""
        return click.Group.get_command(self, ctx, cmd_name)


def create_failing_command(error: BaseException) -> RootGroup:
    """Return the root command with a single command that raises this error."""

    @click.group(cls=FailingGroup, modules={}, examples=())
    def tallygate() -> None:
        pass

    def fail() -> None:
        raise error

    made = Command("fail", callback=fail, examples=())
    tallygate.add_command(made)
    return tallygate


def test_errors_of_tallygate_are_usage_errors() -> None:
    """Prefix every line of the message."""
    result = CliRunner().invoke(create_failing_command(TallygateError("one\ntwo")), ["fail"])
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", "tallygate: one\ntallygate: two\n")


def test_a_crash_is_an_internal_error() -> None:
    """Print that it is internal, exit with its own code, and print the traceback only on request."""
    result = CliRunner().invoke(create_failing_command(ValueError("surprise")), ["fail"])
    first = "tallygate: this is a fault of tallygate, not of your input: ValueError: surprise\n"
    assert (result.exit_code, result.stdout) == (70, "")
    assert result.stderr.startswith(first)
    assert "--traceback" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_crash_prints_the_traceback_on_request() -> None:
    """Print the traceback before the message."""
    result = CliRunner().invoke(create_failing_command(ValueError("surprise")), ["--traceback", "fail"])
    assert result.exit_code == 70
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert result.stderr.endswith("not of your input: ValueError: surprise\n")


def test_the_traceback_may_be_requested_after_the_command() -> None:
    result = CliRunner().invoke(create_failing_command(ValueError("surprise")), ["fail", "--traceback"])
    assert result.stderr.startswith("Traceback (most recent call last):\n")


def test_an_unexpected_system_error_is_an_internal_error() -> None:
    """Expect that commands turn every system error that a user can cause into a usage error."""
    result = CliRunner().invoke(create_failing_command(OSError(errno.EBADF, "Bad file descriptor")), ["fail"])
    assert result.exit_code == 70


@pytest.mark.parametrize("arguments", [["explain"], ["explain", "-o", "json"], ["schema"]])
def test_a_full_disk_is_no_fault_of_tallygate(arguments: list[str]) -> None:
    """Print one sentence, and nothing of Python's own at the exit."""
    with Path("/dev/full").open("wb") as full:
        process = start_tallygate(*arguments, stdout=full)
    _, error = process.communicate(timeout=120)
    sentence = b"tallygate: the output cannot be written: No space left on device; free some space there\n"
    assert (process.returncode, error) == (2, sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["chek"], "No such command 'chek'. Did you mean 'check'?"),
        (["certs", "isue"], "No such command 'isue'. Did you mean 'issue'?"),
        (["zzz"], "No such command 'zzz'."),
        (["version"], "No such command 'version'. Did you mean '--version'?"),
        (["help", "check"], "No such command 'help'. Did you mean '--help'?"),
        (["check", "--polices", "x"], "No such option '--polices'. Did you mean '--policies'?"),
        (["--contxt", "x", "usage"], "No such option '--contxt'. (Did you mean one of: '--context', '--output'?)"),
    ],
)
def test_a_mistyped_name_is_met_with_the_nearest(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(root, arguments, prog_name="tallygate")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {sentence}")


def test_an_interrupt_is_not_a_crash() -> None:
    """Exit with code 130, as shells do."""
    assert CliRunner().invoke(create_failing_command(KeyboardInterrupt()), ["fail"]).exit_code == 130


def start_tallygate(
    *arguments: str, stdout: int | IO[bytes] = subprocess.PIPE, **environment: str
) -> subprocess.Popen[bytes]:
    """Start a real process."""
    return subprocess.Popen(  # noqa: S603 -- this very program, no shell
        [sys.executable, "-m", "tallygate.cli", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    )


def test_a_closed_output_is_no_error() -> None:
    """Exit without a message, as in `tallygate explain | head -1`, and with another code than findings have."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        process = start_tallygate("explain", stdout=pipe)
    _, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (141, b"")


def test_the_module_is_the_installed_command() -> None:
    """Run `python -m tallygate.cli` in place of `tallygate`."""
    process = start_tallygate("check", str(Path(__file__).parent / "missing.yaml"))
    out, error = process.communicate(timeout=120)
    assert process.returncode == 2
    assert b"cannot be read: No such file or directory" in out
    assert b"1 error" in error


@pytest.mark.parametrize("command", ["check", "usage.command", "doctor.command"])
def test_commands_without_nodes_and_watches_do_not_load_their_modules(command: str) -> None:
    program = f"import sys, tallygate.cli.{command}; unasked = ('numpy', 'kubernetes', 'watchfiles');"
    program += "print([each for each in unasked if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603  ourselves, no shell
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_check_without_a_snapshot_does_not_load_numpy() -> None:
    """Load numpy only for placements, since its import takes as long as all others together."""
    program = "import sys; from tallygate.cli.app import root; root(['check', '-'], standalone_mode=False)"
    program += "; sys.exit('numpy' in sys.modules)"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "a"}]}}
    whole = json.dumps(pod).encode()
    done = subprocess.run([sys.executable, "-c", program], input=whole, capture_output=True, check=False)  # noqa: S603  ourselves, no shell
    assert done.returncode == 0, done.stderr
    assert b"1 object in 1 file" in done.stderr


def test_certs_loads_the_client_only_for_a_cluster() -> None:
    """Avoid the client, whose import takes longer than all others together."""
    program = "import sys; from tallygate.cli.app import root; root(sys.argv[1:], standalone_mode=False);"
    program += "assert 'tallygate.cli.certs.command' in sys.modules; sys.exit('kubernetes' in sys.modules)"
    for arguments in (["certs", "issue", "--help"], ["certs", "renew", "--help"]):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, check=False)  # noqa: S603  ourselves, no shell
        assert done.returncode == 0, done.stderr


def test_a_gate_without_a_cluster_loads_no_module_that_only_a_cluster_needs() -> None:
    """Keep the start short: these modules would take a third of it."""
    program = "import sys; import tallygate.cli.serve.command;"
    program += "print([each for each in ('kubernetes', 'numpy', 'urllib3', 'tallygate.audit') if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603  ourselves, no shell
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_numpy_starts_no_thread_for_each_core() -> None:
    program = "import os, sys; from tallygate.cli import app; from contextlib import suppress;\n"
    program += "with suppress(SystemExit): app.main()\n"
    program += "print('numpy' in sys.modules, len(os.listdir('/proc/self/task')), file=sys.stderr)"
    unset = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    run = [sys.executable, "-c", program, "predict", "--help"]
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=unset)  # noqa: S603  ourselves, no shell
    assert done.stderr == "True 1\n"
