"""The framework of all commands: help with examples, common options, and the conversion of errors to exit codes.

Help, examples and messages name the program as the user has called it: `tallygate`, or `kubectl tallygate`. The options
of connections may stand before the command too, as in kubectl.
"""

import errno
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import click
from click.shell_completion import CompletionItem

from tallygate.cli.completions import GIVEN_OPTIONS, complete_context, complete_namespace
from tallygate.cli.connection import OPTION_FLAGS, create_connection
from tallygate.errors import TallygateError
from tallygate.kube.impersonation import ImpersonationError
from tallygate.policy.suggest import find_nearest

if TYPE_CHECKING:
    from importlib.metadata import Distribution

EXIT_FINDINGS = 1
EXIT_USAGE_ERROR = 2
EXIT_INTERNAL_ERROR = 70
"""EX_SOFTWARE of sysexits.h: an internal error, distinct from findings and usage errors."""
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141
_INTERNAL_ERROR = "this is a fault of tallygate, not of your input"
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The errors of a disk that is full, for this user or for one file."""

PROGRAM = "tallygate"
PLUGIN_PROGRAM = f"kubectl {PROGRAM}"
_EXTRAS = ("cluster", "server", "device-plugin")  # those that commands need: the first one that has a module is named
_EXTRA_REQUIREMENT = re.compile(r"""^([\w.-]+).*;\s*extra\s*==\s*['"]([\w-]+)['"]""")
_MODULES = {"grpcio": "grpc", "protobuf": "google"}  # the modules that do not have the name of their package
_IN_PROSE = re.compile(rf"(?<=`){PROGRAM}(?= )")
_IN_EXAMPLES = re.compile(rf"(^|\(|\| |=\S+ ){PROGRAM}(?= )", re.MULTILINE)

FINDING_FORMATS = ("table", "json", "yaml", "github", "sarif")
DATA_FORMATS = ("table", "json", "yaml")


F = TypeVar("F", bound=Callable[..., Any])
_TRACEBACK = "tallygate.cli.traceback"

_CONNECTION_SETTINGS: dict[str, dict[str, Any]] = {
    "--kubeconfig": {
        "metavar": "FILE",
        "type": click.Path(path_type=Path),
        "help": "How to reach the cluster. Default: as kubectl does, by $KUBECONFIG or ~/.kube/config.",
    },
    "--context": {
        "metavar": "NAME",
        "help": "A context of the kubeconfig. Default: its current one.",
        "shell_complete": complete_context,
    },
    "--in-cluster": {"is_flag": True, "help": "The cluster that this runs in, as the pod's service account."},
    "--as": {"metavar": "USER", "help": "Send requests as this user, as kubectl does: only with its rights."},
    "--as-group": {"metavar": "GROUP", "multiple": True, "help": "With --as: a group; may be given several times."},
    "--as-uid": {"metavar": "UID", "help": "With --as: the UID of the user."},
    "--as-user-extra": {
        "metavar": "KEY=VALUE",
        "multiple": True,
        "help": "With --as: an extra field of the user; may be given several times.",
    },
    "--namespace": {"metavar": "NAME", "shell_complete": complete_namespace},
}
_NAMESPACE_HELP = "The namespace of the command; each command describes what it means there."


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a connection to a command, which gets them as `connection`."""

    @wraps(command)
    def connect(*args: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in OPTION_FLAGS}
        try:
            connection = create_connection(given)
        except ImpersonationError as error:
            raise UsageError(f"{error}") from error
        return command(*args, connection=connection, **options)

    for name, flag in reversed(OPTION_FLAGS.items()):
        connect = click.option(flag, name, **_CONNECTION_SETTINGS[flag])(connect)
    return connect


def namespace_option(help_text: str, **settings: Any) -> Callable[[F], F]:
    """Return the decorator that adds `-n/--namespace` with the help text of the command."""
    return click.option("-n", "--namespace", help=help_text, **_CONNECTION_SETTINGS["--namespace"], **settings)


def all_namespaces_option(help_text: str) -> Callable[[F], F]:
    """Return the decorator that adds `-A/--all-namespaces` with the help text of the command."""
    return click.option("-A", "--all-namespaces", is_flag=True, help=help_text)


def create_group_options(*, hidden: bool) -> list[click.Parameter]:
    """Return the options of a group of commands, which it passes on to the command."""
    options: list[click.Parameter] = [
        click.Option(
            ["-n", flag] if flag == "--namespace" else [flag],
            **{"help": _NAMESPACE_HELP, **settings},
            hidden=hidden,
            expose_value=False,
            callback=_remember_option,
        )
        for flag, settings in _CONNECTION_SETTINGS.items()
    ]
    return [*options, create_traceback_option(hidden=hidden)]


def create_traceback_option(*, hidden: bool) -> click.Option:
    """Return the option `--traceback`, which any command accepts."""
    return click.Option(
        ["--traceback"],
        is_flag=True,
        hidden=hidden,
        expose_value=False,
        callback=_remember_traceback,
        help="Show the traceback of an internal error.",
    )


def wants_traceback(ctx: click.Context) -> bool:
    """Return whether the user has given `--traceback` anywhere in the line."""
    return bool(ctx.meta.get(_TRACEBACK))


def add_given_options(ctx: click.Context, command: click.Command, args: list[str]) -> list[str]:
    """Return the arguments of a command after the options that stood before its name.

    Raises:
        click.UsageError: if the command does not have such an option.
    """
    given: Sequence[tuple[str, list[str]]] = ctx.meta.get(GIVEN_OPTIONS, ())
    flags = {flag for parameter in command.params for flag in parameter.opts}
    for flag, _ in given:
        if flag not in flags and not (ctx.resilient_parsing or command.context_settings.get("ignore_unknown_options")):
            raise click.UsageError(f"{ctx.command_path} {command.name} has no option {flag}", ctx)
    return [*(word for flag, words in given if flag in flags for word in words), *args]


def _remember_option(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    flag = parameter.opts[-1]
    for given in value if isinstance(value, tuple) else (value,):
        if given:
            words = [flag] if given is True else [flag, str(given)]
            ctx.meta.setdefault(GIVEN_OPTIONS, []).append((flag, words))


def _remember_traceback(ctx: click.Context, _: click.Parameter, value: object) -> None:
    if value:
        ctx.meta[_TRACEBACK] = True


class UsageError(click.ClickException):
    """An error that the caller has to correct: one sentence on stderr, exit code 2."""

    exit_code = EXIT_USAGE_ERROR

    def show(self, file: IO[Any] | None = None) -> None:
        """Print every line of the message with the prefix `tallygate: `."""
        for line in self.message.splitlines():
            click.echo(f"tallygate: {line}", file=file, err=file is None)


def rename_program(text: str, program: str, pattern: re.Pattern[str] = _IN_PROSE) -> str:
    """Return a text whose commands begin with the name by which the user has called the program."""
    return text if program == PROGRAM else pattern.sub(lambda found: f"{(found.groups() or ('',))[0]}{program}", text)


class _ProgramFormatter(click.HelpFormatter):
    """A formatter of help that names the program as the user has called it."""

    program = PROGRAM

    def write_text(self, text: str) -> None:
        super().write_text(rename_program(text, self.program))

    def write_dl(self, rows: Iterable[tuple[str, str]], *args: Any, **kwargs: Any) -> None:
        """Write a list of terms with their descriptions."""
        super().write_dl([(term, rename_program(text, self.program)) for term, text in rows], *args, **kwargs)


class _ProgramContext(click.Context):
    """A context whose help names the program as the user has called it; `-h` is `--help`, as in kubectl."""

    formatter_class = _ProgramFormatter

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("help_option_names", ["-h", "--help"])
        super().__init__(*args, **kwargs)

    def make_formatter(self) -> click.HelpFormatter:
        formatter = super().make_formatter()
        if isinstance(formatter, _ProgramFormatter):
            formatter.program = get_program(self)
        return formatter


def get_program(ctx: click.Context) -> str:
    """Return the name by which the user has called the program."""
    name = ctx.find_root().info_name
    return PLUGIN_PROGRAM if name == PLUGIN_PROGRAM else PROGRAM


class _HelpWithExamples(click.Command):
    """A command whose help ends with examples; each is a line to copy and a description."""

    context_class = _ProgramContext
    examples: Sequence[tuple[str, str]] = ()

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples unwrapped, so that a user can copy them."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Examples"):
            for line, description in self.examples:
                command = rename_program(line, get_program(ctx), _IN_EXAMPLES)
                formatter.write(f"{'':{formatter.current_indent}}# {description}\n")
                formatter.write(f"{'':{formatter.current_indent}}{command}\n")


class Command(_HelpWithExamples):
    """A command of tallygate."""

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.params.append(create_traceback_option(hidden=True))


class Group(_HelpWithExamples, click.Group):
    """A command with subcommands; the options of connections may stand before the subcommand."""

    command_class = Command
    hides_group_options = True

    def __init__(self, *args: Any, examples: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.params += create_group_options(hidden=self.hides_group_options)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names, and its arguments.

        Raises:
            click.UsageError: if there is no such command; the message has the nearest one.
        """
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            flags = {flag for parameter in self.get_params(ctx) for flag in parameter.opts}
            option = f"--{name}"  # `version` and `help` are commands of kubectl
            nearest = option if option in flags else find_nearest(name, self.list_commands(ctx), cutoff=0.6)
            hint = f" Did you mean '{nearest}'?" if nearest else ""
            raise click.UsageError(f"No such command '{name}'.{hint}", ctx)
        found_name, command, rest = super().resolve_command(ctx, args)
        if command is None or isinstance(command, click.Group):
            return found_name, command, rest
        return found_name, command, add_given_options(ctx, command, rest)


class LazyCommand(NamedTuple):
    """A command that is imported when it runs; `role` is the heading under which the help lists it."""

    module: str
    help_line: str
    role: str = "Commands"


class LazyGroup(Group):
    """A group that imports some commands only when they run, and lists them by role.

    So `check` in a commit hook does not wait for the import of a web server, and neither does `--help`.
    """

    def __init__(self, *args: Any, modules: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands; commands of modules keep the order of `modules`."""
        return [*super().list_commands(ctx), *self._modules]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, which has the same name in its module, with _ for -."""
        if cmd_name not in self._modules:
            return super().get_command(ctx, cmd_name)
        module, help_line, _ = self._modules[cmd_name]
        try:
            command = getattr(import_module(module), cmd_name.replace("-", "_"))
        except ModuleNotFoundError as error:
            return _create_incomplete_command(cmd_name, help_line, error)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list of commands for each role as click does, but without an import of each command."""
        roles: dict[str, list[tuple[str, str]]] = {}
        for name, line in self._list_help(ctx):
            role = self._modules[name].role if name in self._modules else "Commands"
            roles.setdefault(role, []).append((name, line))
        width = max((len(name) for rows in roles.values() for name, _ in rows), default=0)
        for role, rows in roles.items():
            with formatter.section(role):
                formatter.write_dl([(name.ljust(width), line) for name, line in rows])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the completions that click would return, but without an import of each command."""
        items = [CompletionItem(name, help=line) for name, line in self._list_help(ctx) if name.startswith(incomplete)]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def _list_help(self, ctx: click.Context) -> Iterator[tuple[str, str]]:
        for name in self.list_commands(ctx):
            yield (
                name,
                self._modules[name].help_line if name in self._modules else self.commands[name].get_short_help_str(),
            )


class RootGroup(LazyGroup):
    """The root command, which converts exceptions to messages and exit codes."""

    hides_group_options = False

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. A `TallygateError` is a usage error; any other exception is reported as an internal error."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise UsageError(rename_program(error.message, get_program(ctx))) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except TallygateError as error:
            raise UsageError(rename_program(str(error), get_program(ctx))) from error
        except ModuleNotFoundError as error:
            message = _describe_missing_module(f"{get_program(ctx)} {ctx.invoked_subcommand}", error)
            if message is None:
                ctx.exit(_report_internal_error(error, ctx))
            raise UsageError(message) from error
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)
        except OSError as error:
            ctx.exit(_report_system_error(error, ctx))
        except Exception as error:  # noqa: BLE001 -- the one place that turns a crash of ours into an answer
            ctx.exit(_report_internal_error(error, ctx))


def _describe_missing_module(command: str, error: ModuleNotFoundError) -> str | None:
    """Return the message that names the extra to install for a command; None if no extra has the module."""
    from importlib.metadata import distribution  # noqa: PLC0415  an eighth of what a small command takes to start

    installed = distribution(PROGRAM)
    module = (error.name or "").partition(".")[0]
    matches = filter(None, map(_EXTRA_REQUIREMENT.match, installed.requires or []))
    found = {match[2] for match in matches if _MODULES.get(match[1], match[1].replace("-", "_")) == module}
    extras = [extra for extra in _EXTRAS if extra in found]
    if not extras:
        return None
    extra = next((extra for extra in extras if command.endswith(f" {extra}")), extras[0])
    return f"`{command}` needs {module} here, and it is not installed: {format_installation(extra, installed)}"


def format_installation(extra: str, installed: "Distribution") -> str:
    """Return the command that installs an extra from where the distribution came (PEP 610).

    The name `tallygate` on a package index need not be this program.
    """
    record: dict[str, Any] = json.loads(installed.read_text("direct_url.json") or "{}")
    url, requirement = record.get("url", ""), f"{PROGRAM}[{extra}]"
    if "dir_info" in record:
        folder = f"{unquote(urlsplit(url).path)}[{extra}]"
        return shlex.join(("pip", "install", *(("-e",) if record["dir_info"].get("editable") else ()), folder))
    if vcs := record.get("vcs_info"):
        return shlex.join(("pip", "install", f"{requirement} @ {vcs['vcs']}+{url}@{vcs['commit_id']}"))
    return shlex.join(("pip", "install", f"{requirement} @ {url}" if url else requirement))


def format_requirement(installed: "Distribution") -> str:
    """Return the requirement by which pip installs this version elsewhere, from where the distribution came (PEP 610).

    A folder or a file of this machine is not there elsewhere: it gives the name and the version.
    """
    record: dict[str, Any] = json.loads(installed.read_text("direct_url.json") or "{}")
    url = record.get("url", "")
    if vcs := record.get("vcs_info"):
        return f"{PROGRAM} @ {vcs['vcs']}+{url}@{vcs['commit_id']}"
    is_remote = urlsplit(url).scheme in {"http", "https"}
    return f"{PROGRAM} @ {url}" if is_remote else f"{PROGRAM}=={installed.version}"


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


def _report_system_error(error: OSError, ctx: click.Context) -> int:
    if error.errno == errno.EPIPE:
        _discard_output()
        return EXIT_PIPE
    if error.errno in _DISK_ERRORS:
        _discard_output()
        target = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "the output"
        click.echo(f"{PROGRAM}: {target} cannot be written: {error.strerror}; free some space there", err=True)
        return EXIT_USAGE_ERROR
    return _report_internal_error(error, ctx)


def _report_internal_error(error: Exception, ctx: click.Context) -> int:
    with_traceback = wants_traceback(ctx)
    if with_traceback:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    click.echo(f"{PROGRAM}: {_INTERNAL_ERROR}: {type(error).__name__}: {error}", err=True)
    if not with_traceback:
        click.echo(f"{PROGRAM}: `{get_program(ctx)} --traceback …` shows where; please report it with that", err=True)
    return EXIT_INTERNAL_ERROR


def _discard_output() -> None:
    """Replace stdout by the null device after a write has failed, so that the exit of Python reports no error."""
    with suppress(OSError):  # a stream without a descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


data_option = click.option("-o", "--output", type=click.Choice(DATA_FORMATS), default="table", help="How to print it.")
"""The option `-o` of a command that prints data (`tallygate.cli.output.tables.print_object`)."""


def strict_option(command: F) -> F:
    """Add the option `--strict` to a command that reports findings."""
    return click.option("--strict", is_flag=True, help="Also fail on warnings.")(command)
