"""`tallygate explain`: what a code means, and how a pod's request adds up."""

import sys

import click
from click.shell_completion import CompletionItem
from rich.console import Group as Lines
from rich.text import Text

from webhook.accounting.problem import Code
from webhook.cli import catalogue
from webhook.cli.arithmetic import render_calculation
from webhook.cli.command import Command, UsageError
from webhook.cli.explain_pod import calculate_pods
from webhook.cli.report import write
from webhook.cli.report.table import create_table

_POD = "pod"


def _complete_subject(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Codes that begin so, each with what it is."""
    codes = [CompletionItem(code.number, help=code.summary) for code in catalogue.ALL_CODES]
    return [item for item in (CompletionItem(_POD), *codes) if str(item.value).startswith(incomplete)]


@click.command(
    cls=Command,
    examples=(
        ("tallygate explain", "every code in one line"),
        ("tallygate explain TG101", "one code: what, why, what fails, what passes; `not-whole` names it too"),
        ("tallygate explain pod -f pod.yaml", "how the request of a pod, or of a Deployment's pods, adds up"),
        ("helm template . | tallygate explain pod -f - -o json", "the same of rendered manifests, for a program"),
    ),
)
@click.argument("subject", metavar="[CODE|pod]", required=False, shell_complete=_complete_subject)
@click.option(
    "-f",
    "--filename",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="With `pod`: the manifests to explain; - is stdin.",
)
@click.option("-o", "--output", type=click.Choice(write.DATA_FORMATS), default="table", help="How to print it.")
def explain(subject: str | None, filename: str | None, output: str) -> None:
    """Explain a code that tallygate said, or the arithmetic of a pod's effective request.

    A pod asks for what it needs at its most demanding moment: containers and sidecars add up, an init step counts above
    the sidecars before it, overhead comes on top. `explain pod` shows each term, and what a ResourceQuota would charge.
    """
    if subject == _POD:
        _explain_pods(filename, output)
        return
    if filename is not None:
        raise UsageError("-f belongs to `tallygate explain pod -f FILE`")
    if subject is None:
        _list_codes(output)
    else:
        _explain_codes(catalogue.find_codes(subject), output)


def _list_codes(output: str) -> None:
    if output == "table":
        write.print_content(
            create_table(
                ("CODE", "NAME", "WHAT"), [(code.number, code.slug, code.summary) for code in catalogue.ALL_CODES]
            )
        )
    else:
        write.print_data([_code_to_dict(code) for code in catalogue.ALL_CODES], output)


def _explain_codes(codes: tuple[Code, ...], output: str) -> None:
    if output != "table":
        write.print_data([_code_to_dict(code) for code in codes], output)
        return
    for code in codes:
        write.print_content(_render_code(code))


def _render_code(code: Code) -> Lines:
    return Lines(
        Text(f"{code.number} {code.slug}", "bold"),
        Text(code.summary),
        Text(f"\n{code.explanation}\n"),
        Text("This fails:", "red"),
        Text(_indent(code.invalid_example)),
        Text("This passes:", "green"),
        Text(_indent(code.valid_example)),
    )


def _code_to_dict(code: Code) -> dict[str, str]:
    return {
        "code": code.number,
        "name": code.slug,
        "what": code.summary,
        "why": code.explanation,
        "fails": code.invalid_example,
        "passes": code.valid_example,
    }


def _indent(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def _explain_pods(filename: str | None, output: str) -> None:
    if filename is None:
        raise UsageError("which pod? name a file: `tallygate explain pod -f FILE`, or -f - for stdin")
    calculations = calculate_pods(filename, sys.stdin.buffer)
    if output == "table":
        for calculation in calculations:
            write.print_content(render_calculation(calculation))
    else:
        write.print_data([each.to_dict() for each in calculations], output)
