"""The command `tallygate schema`: the JSON schemas of documents and answers, for editors and tools."""

from importlib.resources import files

import click

from tallygate.cli.framework import Command
from tallygate.policy.schema import SCHEMA_FILE_NAME

_FILES = {
    "policy": ("tallygate.policy", SCHEMA_FILE_NAME),
    "scenario": ("tallygate.cli.scenarios", SCHEMA_FILE_NAME),
    "devices": ("tallygate.device_plugin", SCHEMA_FILE_NAME),
    "notify": ("tallygate.server.notify", SCHEMA_FILE_NAME),
    "ask": ("tallygate.answers", SCHEMA_FILE_NAME),
    "ask-headroom": ("tallygate.answers", "headroom_schema.json"),
    "ask-usage": ("tallygate.answers", "usage_schema.json"),
    "ask-hours": ("tallygate.answers", "hours_schema.json"),
}
"""The package of each schema, and its file there."""


@click.command(
    cls=Command,
    examples=(
        ("tallygate schema > policies/schema.json", "for an editor that reads the policy files of this folder"),
        ("tallygate schema scenario > policies/tests/schema.json", "for the files of `tallygate test`"),
        ("tallygate schema devices > devices.schema.json", "for the files of `tallygate device-plugin`"),
        ("tallygate schema notify > notify.schema.json", "for the file of `notify_file`, a setting of the gate"),
        ("tallygate schema ask > ask-answer.schema.json", "for programs that read answers of `tallygate ask`"),
        ("tallygate schema ask-headroom > ask-headroom.schema.json", "... that read answers of `POST /v1/headroom`"),
        ("tallygate schema ask-usage > ask-usage.schema.json", "for programs that read answers of `GET /v1/usage`"),
        ("tallygate schema ask-hours > ask-hours.schema.json", "... that read answers of `GET /v1/hours`"),
    ),
)
@click.argument(
    "document",
    metavar="[policy|scenario|devices|notify|ask|ask-headroom|ask-usage|ask-hours]",
    type=click.Choice(tuple(_FILES)),
    default="policy",
)
def schema(document: str) -> None:
    """Print the JSON schema of policies (the default), scenarios, device plugins, receivers, or answers.

    Editors with YAML support complete and check a file that names its schema in the first line. `tallygate lint` and
    `tallygate test` check the same schema, and much that a schema cannot express. The first line is:

    \b
        # yaml-language-server: $schema=schema.json
    """  # noqa: D301 -- \b keeps click from filling the example
    package, file = _FILES[document]
    click.echo(files(package).joinpath(file).read_text(encoding="utf-8"), nl=False)
