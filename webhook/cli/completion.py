"""`tallygate completion`: the script that makes a shell complete commands, options and codes."""

import click
from click.shell_completion import get_completion_class

from webhook.cli.command import Command, UsageError

_SHELLS = ("bash", "zsh", "fish")
_COMPLETE_VARIABLE = "_TALLYGATE_COMPLETE"


@click.command(
    cls=Command,
    examples=(
        ("source <(tallygate completion bash)", "bash, for this shell; put it into ~/.bashrc for all"),
        ("tallygate completion zsh > ~/.zfunc/_tallygate", "zsh, with ~/.zfunc in $fpath before compinit"),
        ("tallygate completion fish > ~/.config/fish/completions/tallygate.fish", "fish"),
    ),
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands, options and codes in your shell."""
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise UsageError(f"there is no completion for {shell}")
    click.echo(completion_class(ctx.find_root().command, {}, "tallygate", _COMPLETE_VARIABLE).source())
