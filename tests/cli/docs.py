"""The generated pages of the documentation. `python -m tests.cli.docs` writes them; `test_docs` compares them."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from tallygate.answers import code_catalog
from tallygate.answers.code_catalog import Code
from tallygate.cli.app import root
from tallygate.cli.framework import Command, Group

DOCS = Path(__file__).parents[2] / "docs"

_GROUPS = {
    "TG1": ("Rules", "What a ResourceRule denies, in the cluster and in `tallygate check`."),
    "TG2": ("Caps", "What a NamespaceCap denies or warns about, and what a ResourceQuota will deny."),
    "TG3": ("Policy files", "What `tallygate lint` finds. Errors keep a set from being loaded."),
    "TG4": ("Manifests", "What prevents `tallygate check` from checking a file, or changes the meaning of a file."),
    "TG0": ("Kubernetes", "What the API server's own validation rejects about resources, and what it accepts."),
}
_PREFORMATTED = "\b\n"
_ABOUT_CODES = """\
Every problem has a code. `tallygate explain CODE` prints the same text. This page is generated from the code
(`python -m tests.cli.docs`).
"""
_ABOUT_COMMANDS = """\
This page is generated from the commands' own help (`python -m tests.cli.docs`).

`-n`, `-A`, `-l`, `-w`, `-f`, `-o`, `--context`, `--kubeconfig` and `--as` mean what they mean in kubectl, in every
command that has them. `-n` and the options of connections may also stand before the command. Without `-n`, a command
that concerns one namespace uses that of the kubeconfig's context; `usage` and `audit` show all namespaces.

`kubectl tallygate COMMAND` is the same program, as a kubectl plugin: `pip install` or `pipx install` places
`kubectl-tallygate` and `kubectl_complete-tallygate` into a folder of `$PATH`. So does the archive without Python, which
krew and Homebrew install too ([Install the command](../operate/command.md)). kubectl accepts no option before the name
of a plugin, so `kubectl tallygate -n team-a usage` works and `kubectl -n team-a tallygate usage` does not.

`tallygate completion SHELL` prints a script that completes commands, options, codes, contexts, namespaces, pending pods
and caps; `kubectl tallygate` gets the same from kubectl's own completion. A completion waits at most two seconds for a
cluster, and prints no error.

Exit codes: 0 no findings, 1 findings, 2 a usage error (arguments, unreadable files, broken policies), 70 an internal
error of tallygate, 130 interrupted, 141 the reader has closed the output. Only terminals get colours, and NO_COLOR
switches them off.

In a pipe each row is one line with every column. In a terminal names are never broken. If a table is too wide, `usage`
omits UTILIZATION, and `predict -v` omits USED, BALANCE, FIT and COPIES, in this order. If that is not enough, the last
column is below its row, and then the first column above the others.

## Output for programs

`-o json` and `-o yaml` print one object with `apiVersion: tallygate.dev/v1` and a `kind`. A kind that ends in `List`
has its content in `items`. Within `v1` no key is removed or changes its meaning or type. New keys may be added, so
ignore unknown keys. Exit codes and codes of findings are stable too. The texts of messages, tables and stderr are for
people, and may change in every version.

| command | kind |
| --- | --- |
| `check`, `lint`, `test` | `CheckReport`, `LintReport`, `TestReport` |
| `ask` | `AskAnswer`, whose schema `tallygate schema ask` prints |
| `audit`, `doctor` | `AuditReport`, `DoctorReport` |
| `usage`, `usage --explain`, `usage --verify` | `UsageList`, `ConsumerList`, `DriftList` |
| `predict`, `headroom` | `PredictionList`, `HeadroomList` |
| `compile --gaps`, `compile --check` | `GapList`, `DifferenceList` |
| `advertise` | `AdvertisedResourceList` |
| `explain`, `explain pod` | `CodeList`, `PodRequestList` |
| `certs status`, `certs status FOLDER` | `CertificateStatus`, `CertificateReport` |

`-o github`, `-o sarif` and `-o junit` follow the formats of other programs. `snapshot` and
`compile -o json` write a `List` of Kubernetes objects.
"""


def create_pages() -> dict[Path, str]:
    """Return the text of every generated page by its path."""
    return {DOCS / "reference" / "codes.md": _codes(), DOCS / "reference" / "commands.md": _commands()}


def _codes() -> str:
    parts = ["# Codes\n", _ABOUT_CODES]
    for prefix, (title, about) in _GROUPS.items():
        codes = [code for code in code_catalog.list_codes() if code.number.startswith(prefix)]
        parts += [f"## {title}\n", f"{about}\n", "| code | name | what |\n| --- | --- | --- |"]
        parts += [f"| [{code.number}](#{_anchor(code)}) | {code.slug} | {_cell(code.summary)} |" for code in codes]
        parts.append("")
        parts += [_code(code) for code in codes]
    return "\n".join(parts)


def _anchor(code: Code) -> str:
    return f"{code.number.lower()}-{code.slug}"


def _code(code: Code) -> str:
    return (
        f"### {code.number} {code.slug}\n\n{code.summary}\n\n{code.explanation}\n\n"
        f"Fails:\n\n{_format_code_block(code.invalid_example)}\nPasses:\n\n{_format_code_block(code.valid_example)}"
    )


def _format_code_block(text: str) -> str:
    return f"```yaml\n{text.rstrip()}\n```\n"


def _commands() -> str:
    parts = ["# Commands\n", _ABOUT_COMMANDS]
    parts += [_command(name, command) for name, command in _list_commands(root, "tallygate")]
    return "\n".join(parts)


def _list_commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for each in command.list_commands(context):
                inner = command.get_command(context, each)
                assert inner is not None
                yield from _list_commands(inner, f"{name} {each}")


def _command(name: str, command: click.Command) -> str:
    assert isinstance(command, Command | Group)
    with click.Context(command, info_name=name) as context:
        usage = " ".join([name, *command.collect_usage_pieces(context)])
    examples = "\n".join(f"# {meaning}\n{line}" for line, meaning in command.examples)
    help_text = "\n\n".join(map(_paragraph, (command.help or "").split("\n\n")))
    parts = [f"## {name}\n", f"```text\n{usage}\n```\n", f"{help_text}\n", _options(command)]
    return "\n".join(part for part in (*parts, f"```sh\n{examples}\n```\n") if part)


def _paragraph(text: str) -> str:
    """Format a paragraph of help; a preformatted one is an example of a file."""
    if text.startswith(_PREFORMATTED):
        return _format_code_block(textwrap.dedent(text.removeprefix(_PREFORMATTED))).rstrip()
    return " ".join(text.split())


def _options(command: click.Command) -> str:
    rows = [_row(option) for option in command.params if isinstance(option, click.Option) and not option.hidden]
    return "\n".join(["| option | meaning |", "| --- | --- |", *rows, ""]) if rows else ""


def _row(option: click.Option) -> str:
    flags = " ".join(f"`{flag}`" for flag in option.opts)
    return f"| {flags}{_metavar(option)} | {_cell(option.help or '')}{_default(option)} |"


def _metavar(option: click.Option) -> str:
    if option.is_flag:
        return ""
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    return f" `{option.metavar or '|'.join(map(str, choices))}`".replace("|", "\\|")


def _default(option: click.Option) -> str:
    return f" Default: {option.default}." if option.show_default and option.default else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    for path, text in create_pages().items():
        path.write_text(text)
