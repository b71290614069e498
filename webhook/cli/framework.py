"""The framework of all commands: help with examples, common options, and the conversion of errors to exit codes."""

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import IO, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from tallygate.webhook.errors import TallygateError

EXIT_FINDINGS = 1
EXIT_USAGE_ERROR = 2
EXIT_INTERNAL_ERROR = 70
"""EX_SOFTWARE of sysexits.h: an internal error, distinct from findings and usage errors."""
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141
_INTERNAL_ERROR = "this is a fault of tallygate, not of your input"

_EXTRA_REQUIREMENT = re.compile(r"""^([\w.-]+).*;\s*extra\s*==\s*['"]([\w-]+)['"]""")

FINDING_FORMATS = ("table", "json", "yaml", "github", "sarif")
DATA_FORMATS = ("table", "json", "yaml")


class UsageError(click.ClickException):
    """An error that the caller has to correct: one sentence on stderr, exit code 2."""

    exit_code = EXIT_USAGE_ERROR

    def show(self, file: IO[Any] | None = None) -> None:
        """Print every line of the message with the prefix `tallygate: `."""
        for line in self.message.splitlines():
            click.echo(f"tallygate: {line}", file=file, err=file is None)


class _HelpWithExamples(click.Command):
    """A command whose help ends with examples; each is a line to copy and a description."""

    examples: Sequence[tuple[str, str]] = ()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples unwrapped, so that a user can copy them."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Examples"):
            for line, description in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}# {description}\n")
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Command(_HelpWithExamples):
    """A command of tallygate."""

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples


class Group(_HelpWithExamples, click.Group):
    """A command with subcommands."""

    command_class = Command

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples


class LazyGroup(Group):
    """A group that imports some commands only when they run; each has a module and a help line.

    So `check` in a commit hook does not wait for the import of a web server, and neither does `--help`.
    """

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands; commands of modules keep the order of `modules`, the most used first."""
        return [*super().list_commands(ctx), *self._modules]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, which has the same name in its module."""
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        module, help_line = self._modules[cmd_name]
        try:
            command = getattr(import_module(module), cmd_name)
        except ModuleNotFoundError as error:
            return _create_incomplete_command(cmd_name, help_line, error)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands as click does, but without an import of each command."""
        with formatter.section("Commands"):
            formatter.write_dl([*self._list_help(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the completions that click would return, but without an import of each command."""
        items = [CompletionItem(name, help=line) for name, line in self._list_help(ctx) if name.startswith(incomplete)]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def _list_help(self, ctx: click.Context) -> Iterator[tuple[str, str]]:
        for name in self.list_commands(ctx):
            yield name, self._modules[name][1] if name in self._modules else self.commands[name].get_short_help_str()


class RootGroup(LazyGroup):
    """The root command, which converts exceptions to messages and exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. A `TallygateError` is a usage error; any other exception is reported as an internal error."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except TallygateError as error:
            raise UsageError(str(error)) from error
        except ModuleNotFoundError as error:
            message = _describe_missing_module(f"tallygate {ctx.invoked_subcommand}", error)
            if message is None:
                ctx.exit(_report_internal_error(error, with_traceback=bool(ctx.params.get("traceback"))))
            raise UsageError(message) from error
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)
        except OSError as error:
            if error.errno != errno.EPIPE:
                ctx.exit(_report_internal_error(error, with_traceback=bool(ctx.params.get("traceback"))))
            _close_pipe()
            ctx.exit(EXIT_PIPE)
        except Exception as error:  # noqa: BLE001 -- the one place that turns a crash of ours into an answer
            ctx.exit(_report_internal_error(error, with_traceback=bool(ctx.params.get("traceback"))))


def _describe_missing_module(command: str, error: ModuleNotFoundError) -> str | None:
    """Return the message that names the extra to install for a command; None if no extra has the module."""
    from importlib.metadata import requires  # noqa: PLC0415  an eighth of what a small command takes to start

    module = (error.name or "").partition(".")[0]
    for requirement in requires("tallygate") or []:
        found = _EXTRA_REQUIREMENT.match(requirement)
        if found and found[1].replace("-", "_") == module:
            return f"`{command}` needs {module} here, and it is not installed: pip install 'tallygate[{found[2]}]'"
    return None


def _create_incomplete_command(name: str, help_line: str, error: ModuleNotFoundError) -> Command:
    """Return the replacement of a command without its extra: its help works, and its run is a usage error.

    Raises:
        ModuleNotFoundError: if no extra has the missing module.
    """
    message = _describe_missing_module(f"tallygate {name}", error)
    if message is None:
        raise error

    def refuse() -> None:
        raise UsageError(message)

    install = message.rpartition(": ")[2]
    return Command(
        name,
        callback=refuse,
        help=f"{help_line}\n\n{message}",
        examples=((install, "install the command with its options"), (f"tallygate {name} --help", "then show them")),
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


def _report_internal_error(error: Exception, *, with_traceback: bool) -> int:
    if with_traceback:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    click.echo(f"tallygate: {_INTERNAL_ERROR}: {type(error).__name__}: {error}", err=True)
    if not with_traceback:
        click.echo("tallygate: `tallygate --traceback …` shows where; please report it with that", err=True)
    return EXIT_INTERNAL_ERROR


def _close_pipe() -> None:
    """Replace stdout by the null device after its reader has closed it, so that the exit of Python reports no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


F = TypeVar("F", bound=Callable[..., Any])


def output_option(command: F) -> F:
    """Add the option `-o` to a command that reports findings."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FINDING_FORMATS),
        default="table",
        show_default=True,
        help="How to print findings: for people, programs, GitHub's workflow log, or code scanners.",
    )(command)


def strict_option(command: F) -> F:
    """Add the option `--strict` to a command that reports findings."""
    return click.option("--strict", is_flag=True, help="Let warnings fail too.")(command)
