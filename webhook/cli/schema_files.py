"""The command `tallygate schema`: the JSON schemas of policies and scenarios, for editors and other tools."""

from importlib.resources import files

import click

from tallygate.webhook.cli.framework import Command

_PACKAGES = {"policy": "tallygate.webhook.policy", "scenario": "tallygate.webhook.cli.scenarios"}
_FILE_NAME = "schema.json"


@click.command(
    cls=Command,
    examples=(
        ("tallygate schema > policies.schema.json", "for the first line of a policy file beside it: ..."),
        ("# yaml-language-server: $schema=policies.schema.json", "... this one"),
        ("tallygate schema scenario > scenarios.schema.json", "for the files of `tallygate test`"),
    ),
)
@click.argument("document", metavar="[policy|scenario]", type=click.Choice(tuple(_PACKAGES)), default="policy")
def schema(document: str) -> None:
    """Print the JSON schema of policies (the default), or of scenarios: that of this version.

    Editors with YAML support complete and check a file by its schema. `tallygate lint` and `tallygate test` check by
    the same schema, and much that a schema cannot express.
    """
    click.echo(files(_PACKAGES[document]).joinpath(_FILE_NAME).read_text(encoding="utf-8"), nl=False)
