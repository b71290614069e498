"""The command `tallygate test`: a test of policies by scenarios."""

from collections.abc import Sequence

import click

from tallygate.cli.framework import DATA_FORMATS, EXIT_FINDINGS, Command, UsageError
from tallygate.cli.output import tables
from tallygate.cli.progress import track
from tallygate.cli.scenarios import scenario_report
from tallygate.cli.scenarios.run import ScenarioResult, run_scenario
from tallygate.cli.scenarios.scenario_files import load_scenarios
from tallygate.cli.sources.options import combine_files, files_options


@click.command(
    cls=Command,
    examples=(
        ("tallygate test policies/examples/tests/", "every scenario in a folder, at any depth"),
        ("tallygate test -v team-caps.yaml", "every step with its verdict, and the ledgers after it"),
        ("tallygate test -o json policies/tests/ > report.json", "everything for a program"),
        ("tallygate test -o github policies/tests/", "failures next to their lines in a pull request"),
    ),
)
@files_options("[FILE|FOLDER|-]...", "A file of scenarios, a folder of them at any depth, or - for stdin.")
@click.option("-v", "--verbose", is_flag=True, help="Show every step, with its verdict and the ledgers after it.")
@click.option(
    "-o",
    "--output",
    type=click.Choice((*DATA_FORMATS, "github", "junit")),
    default="table",
    show_default=True,
    help="How to print it: for people, programs, GitHub's workflow log, or as the XML that CI systems show.",
)
@click.pass_context
def test(ctx: click.Context, paths: tuple[str, ...], filenames: tuple[str, ...], output: str, *, verbose: bool) -> None:
    """Test policies with scenarios: requests in a given order, each with its expected result.

    A scenario is a YAML document: its name, the policies, the namespaces with their labels, and steps (create, update,
    resize, scale, delete, finish, fail, label, annotate, allocate, wait), each with the expected result: the verdict,
    codes, a part of the message, warnings, fields that the gate sets, and the used, reserved and free amounts of the
    ledger of a cap. The command runs the scenario without a cluster, with the code of the gate and a clock that only
    `wait` moves:

    \b
        name: a team has eight GPUs
        policies: [../cap-per-team.yaml]
        namespaces: {team-a: {labels: {team: vision}}}
        steps:
        - create: {pod: one, resources: {nvidia.com/gpu: 6, memory: 8Gi}}
        - create: {pod: two, resources: {nvidia.com/gpu: 4, memory: 8Gi}}
          expect: {verdict: denied, codes: [TG201], message: free 2}
        - finish: {pod: one}
        - create: {pod: two, resources: {nvidia.com/gpu: 4, memory: 8Gi}}

    Objects of other projects, and of kinds that a WorkloadKind defines, get the pods of each pod set, named
    OBJECT-SET-1, OBJECT-SET-2 and so on.

    The first step with an unexpected result ends its scenario; a step without `expect` must be allowed. Folders are
    read at any depth, without files and folders whose name begins with a dot; policies in them are skipped.

    Exit codes: 0 all results as expected, 1 an unexpected result, 2 a file cannot be read.
    """  # noqa: D301 -- \b keeps click from filling the example
    loaded = load_scenarios(combine_files(paths, filenames))
    if loaded.findings:
        raise UsageError("\n".join(map(str, loaded.findings)))
    results = [run_scenario(scenario) for scenario in track("running scenarios", loaded.scenarios)]
    if output == "junit":
        click.echo(scenario_report.format_junit(results), nl=False)
    elif output == "github":
        for line in scenario_report.format_github_failures(results):
            click.echo(line)
        click.echo(scenario_report.format_summary(results, loaded.files), err=True)
    else:
        tables.print_object(
            "TestReport",
            lambda: scenario_report.convert_report(results),
            output,
            lambda: _print_report(results, loaded.files, verbose=verbose),
        )
    ctx.exit(EXIT_FINDINGS if any(result.failed_step for result in results) else 0)


def _print_report(results: Sequence[ScenarioResult], file_count: int, *, verbose: bool) -> None:
    tables.print_content(scenario_report.render_report(results, verbose=verbose))
    click.echo(scenario_report.format_summary(results, file_count), err=True)
