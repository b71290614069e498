"""Record the current output of cases: `python -m tests.cli.scenarios.record_scenarios`. Review the difference."""

from tests.cli.scenarios.scenario_case import list_expectations

if __name__ == "__main__":
    for case, output_format in list_expectations():
        (case.folder / f"expected.{output_format}").write_text(case.run(output_format))
