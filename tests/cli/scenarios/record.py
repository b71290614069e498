"""Write down what the cases give now: `python -m tests.cli.scenarios.record`. Read the difference before committing."""

from tests.cli.scenarios.case import expectations

if __name__ == "__main__":
    for case, form in expectations():
        (case.folder / f"expected.{form}").write_text(case.run(form))
