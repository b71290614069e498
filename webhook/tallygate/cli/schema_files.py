"""The command `tallygate schema`: the JSON schemas of policies, scenarios and device plugins, for editors and tools."""

from importlib.resources import files

import click

from tallygate.cli.framework import Command
from tallygate.policy.schema import SCHEMA_FILE_NAME

_PACKAGES = {
    "policy": "tallygate.policy",
    "scenario": "tallygate.cli.scenarios",
    "devices": "tallygate.device_plugin",
    "ask": "tallygate.answers",
}


@click.command(
    cls=Command,
    examples=(
        ("tallygate schema > policies/schema.json", "for an editor that reads the policy files of this folder"),
        ("tallygate schema scenario > policies/tests/schema.json", "for the files of `tallygate test`"),
        ("tallygate schema devices > devices.schema.json", "for the files of `tallygate device-plugin`"),
        ("tallygate schema --ask > ask-answer.schema.json", "for programs that read answers of `tallygate ask`"),
    ),
)
@click.argument(
    "document", metavar="[policy|scenario|devices|ask]", type=click.Choice(tuple(_PACKAGES)), default="policy"
)
@click.option("--ask", "of_answers", is_flag=True, help="The same as `ask`: that of an AskAnswer.")
def schema(document: str, *, of_answers: bool) -> None:
    """Print the JSON schema of policies (the default), scenarios, device plugins, or answers: that of this version.

    Editors with YAML support complete and check a file that names its schema in the first line. `tallygate lint` and
    `tallygate test` check by the same schema, and much that a schema cannot express. The first line is:

    \b
        # yaml-language-server: $schema=schema.json
    """  # noqa: D301 -- \b keeps click from filling the example
    document = "ask" if of_answers else document
    click.echo(files(_PACKAGES[document]).joinpath(SCHEMA_FILE_NAME).read_text(encoding="utf-8"), nl=False)
