"""The root command `tallygate` with its version and the list of its commands, and the command `completion`.

The program is also installed as the kubectl plugin `kubectl tallygate`, with the completion that kubectl asks for
(pkg/cmd/plugin/plugin_completion.go in k8s.io/kubectl).
"""

import os
import sys
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from tallygate.cli import framework

_SHELLS = ("bash", "zsh", "fish")
_COMPLETE_VARIABLE = "_TALLYGATE_COMPLETE"
_PLUGIN = "kubectl-tallygate"
_DEVELOPERS = "Commands for developers"
_ADMINS = "Commands for admins"
_OPERATORS = "Commands for operators"
_NODES = "Commands for nodes"
_SHELL = "Commands for your shell"
_COMPLETE_FILES, _COMPLETE_NO_FILES, _COMPLETE_FOLDERS = 0, 4, 16
"""Cobra's ShellCompDirectiveDefault, ShellCompDirectiveNoFileComp and ShellCompDirectiveFilterDirs."""


@click.command(
    cls=framework.Command,
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
        raise framework.UsageError(f"there is no completion for {shell}")
    click.echo(completion_class(ctx.find_root().command, {}, framework.PROGRAM, _COMPLETE_VARIABLE).source())


def _print_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:  # noqa: FBT001 -- click's order
    """Print the version: a line for people, or with the rules by version of Kubernetes as data."""
    if not is_asked or ctx.resilient_parsing:
        return
    # Other commands start without these modules.
    from importlib.metadata import version  # noqa: PLC0415

    from tallygate.accounting.kubernetes_versions.version_data import describe_versions  # noqa: PLC0415
    from tallygate.cli.output.tables import print_data  # noqa: PLC0415

    own_version, output = version(framework.PROGRAM), ctx.params["output"]
    if output == "table":
        click.echo(f"{framework.get_program(ctx)} {own_version}")
    else:
        print_data({"version": own_version, "kubernetes": describe_versions()}, output)
    ctx.exit()


@click.group(
    cls=framework.RootGroup,
    modules={
        "check": framework.LazyCommand("tallygate.cli.check", "Check manifests as the cluster would.", _DEVELOPERS),
        "ask": framework.LazyCommand(
            "tallygate.cli.ask.command", "Ask the gate what would happen to manifests.", _DEVELOPERS
        ),
        "page": framework.LazyCommand(
            "tallygate.cli.ask.page_command", "Show the pages of the gate in a browser.", _DEVELOPERS
        ),
        "explain": framework.LazyCommand(
            "tallygate.cli.explain", "Explain a code, or the calculation of a pod's request.", _DEVELOPERS
        ),
        "predict": framework.LazyCommand(
            "tallygate.cli.predict.command", "Predict whether pods will find a node, and why not.", _DEVELOPERS
        ),
        "init": framework.LazyCommand(
            "tallygate.cli.init.command", "Write a folder of policies with tests and a workflow.", _ADMINS
        ),
        "lint": framework.LazyCommand("tallygate.cli.lint", "Check policy files.", _ADMINS),
        "test": framework.LazyCommand(
            "tallygate.cli.scenarios.command", "Run scenarios of requests against policies.", _ADMINS
        ),
        "usage": framework.LazyCommand(
            "tallygate.cli.usage.command", "Show the limits of caps, and what is used and reserved.", _ADMINS
        ),
        "headroom": framework.LazyCommand(
            "tallygate.cli.headroom", "Show the number of further copies of a pod that fit.", _ADMINS
        ),
        "audit": framework.LazyCommand(
            "tallygate.cli.audit.command", "Evaluate the stored objects of a cluster.", _ADMINS
        ),
        "compile": framework.LazyCommand(
            "tallygate.cli.compile.command", "Print objects that enforce policies while no gate answers.", _ADMINS
        ),
        "schema": framework.LazyCommand(
            "tallygate.cli.schema_files", "Print the JSON schema of policies, scenarios or answers.", _ADMINS
        ),
        "serve": framework.LazyCommand(
            "tallygate.cli.serve.command", "Answer a cluster's admission reviews.", _OPERATORS
        ),
        "serve-ask": framework.LazyCommand(
            "tallygate.cli.serve.ask_command", "Answer what would happen to objects, to those who ask.", _OPERATORS
        ),
        "doctor": framework.LazyCommand(
            "tallygate.cli.doctor.command", "Check whether the gate works in a cluster, and show fixes.", _OPERATORS
        ),
        "certs": framework.LazyCommand(
            "tallygate.cli.certs.command", "Make, look at, renew and publish serving certificates.", _OPERATORS
        ),
        "snapshot": framework.LazyCommand(
            "tallygate.cli.snapshot", "Write the current state of a cluster into one file.", _OPERATORS
        ),
        "advertise": framework.LazyCommand(
            "tallygate.cli.advertise.command", "Advertise counted resources on nodes, and withdraw them.", _NODES
        ),
        "device-plugin": framework.LazyCommand(
            "tallygate.cli.device_plugin", "Publish devices of a node to its kubelet.", _NODES
        ),
        "completion": framework.LazyCommand(
            "tallygate.cli.app", "Print a script that completes in your shell.", _SHELL
        ),
    },
    examples=(
        ("tallygate check deploy/", "what is wrong with the manifests of a folder"),
        ("tallygate init --for gpus", "a folder of policies with tests, and a workflow that runs them"),
        ("tallygate lint policies/", "whether policy files are right"),
        ("tallygate test policies/tests/", "whether policies have the results that scenarios expect"),
        ("tallygate explain TG101", "what a code means, with an example that fails and one that passes"),
        ("tallygate predict pod/NAME", "why a pod is Pending, which pods use the resources, what would help"),
        ("tallygate ask -f job.yaml", "would this be accepted, and run? Without rights in the cluster"),
        ("tallygate usage --policies policies/", "limits of caps in your cluster, and what is used and reserved"),
        ("tallygate serve --tls-cert tls.crt --tls-key tls.key", "answer a cluster's admission reviews"),
    ),
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit; with -o json the rules that differ by version of Kubernetes, too.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(framework.DATA_FORMATS),
    default="table",
    is_eager=True,  # read before --version
    help="With --version: how to print it.",
)
@click.pass_context
def root(ctx: click.Context, output: str) -> None:
    """Gate the resources that Kubernetes counts but does not understand.

    The gate reads every request for GPUs, licences and other countable resources exactly, denies malformed requests,
    and enforces the caps of namespaces: in the cluster as a webhook, and before it as a check of manifests.

    Exit codes: 0 clean, 1 findings, 2 a usage error, 70 an internal error of tallygate.
    """
    if output != "table":
        raise framework.UsageError(f"-o {output} stands after the command: {ctx.invoked_subcommand} -o {output}")


def main() -> None:
    """Run the command that the arguments name, and exit with its code."""
    # OpenBLAS, which numpy loads, would start a thread for each core; no command multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    root(prog_name=framework.PLUGIN_PROGRAM if Path(sys.argv[0]).stem == _PLUGIN else framework.PROGRAM)


def print_plugin_completions() -> None:
    """Print the completions of the last argument, one on each line, then what the shell does besides."""
    *words, incomplete = sys.argv[1:] or [""]
    items = ShellComplete(root, {}, framework.PLUGIN_PROGRAM, _COMPLETE_VARIABLE).get_completions(words, incomplete)
    for item in items:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else str(item.value))
    types = {item.type for item in items}
    other = _COMPLETE_FOLDERS if "dir" in types else _COMPLETE_NO_FILES
    click.echo(f":{_COMPLETE_FILES if 'file' in types else other}")
