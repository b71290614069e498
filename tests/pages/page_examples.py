"""The console examples of pages: which are played where, and the text of a page with its current outputs.

A block of `console` whose commands are all of `tallygate` is played without a cluster, in a folder with the files of
the page. The other blocks, of `kubectl` and `tallygate`, are played on a control plane (`e2e/test_pages.py`).
`python -m tests.pages.page_examples` records the outputs that need no cluster: review the difference.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from click.testing import CliRunner

from e2e.transcript import parse, replay
from tallygate.cli.app import root
from tests.cli.check_case import change_directory
from tests.pages.page import Page, list_pages

PLAYED_FOLDERS = ("start/", "concepts/", "tasks/")
"""The folders of docs/ in which every console example is played."""

_PLAYED_ELSEWHERE = {
    "concepts/prediction.md",  # by tests/cli/predict/test_prediction_page.py, on larger clusters
    "concepts/why-files.md",  # by tests/deploy/test_policy_delivery.py and e2e/test_policy_config_maps.py
}

_NOTHING: dict[str, str] = {}


def is_offline(block: str) -> bool:
    """Return whether a block of commands needs no cluster."""
    return all(_get_arguments(step.command.split()) is not None for step in parse(block).steps if step.typed)


def list_played_pages() -> Iterator[Page]:
    """Yield the pages whose console examples are played."""
    for page in list_pages():
        if page.name.startswith(PLAYED_FOLDERS) and page.name not in _PLAYED_ELSEWHERE and page.list_blocks("console"):
            yield page


def play(page: Page, run: Callable[[list[str]], str], wanted: Callable[[str], bool]) -> str:
    """Return the text of a page with the outputs of the wanted blocks as they are now."""
    text = page.read()
    for block in page.list_blocks("console"):
        if wanted(block[2]):
            now = replay(parse(block[2]), run, _reject_direction, _NOTHING).text()
            text = text.replace(block[0], f"```console\n{now}```")
    return text


def play_offline(page: Page, folder: Path) -> str:
    """Return the text of a page with the outputs of its offline examples as they are now, played in this folder."""
    for name, content in page.list_files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    with change_directory(folder):
        return play(page, run_offline, is_offline)


def run_offline(words: list[str]) -> str:
    """Run a command of tallygate in this process, and return both streams, with `(exit N)` if it failed."""
    arguments = _get_arguments(words)
    assert arguments is not None, words
    result = CliRunner().invoke(root, arguments, prog_name="tallygate")
    end = f"(exit {result.exit_code})\n" if result.exit_code else ""
    return f"{result.output}{end}"


def _get_arguments(words: list[str]) -> list[str] | None:
    """Return the arguments of a command of tallygate; None for another command."""
    for program in (["tallygate"], ["kubectl", "tallygate"]):
        if words[: len(program)] == program:
            return words[len(program) :]
    return None


def _reject_direction(direction: str) -> None:
    raise AssertionError(f"a page has no stage directions: {direction}")


def record() -> None:
    """Write the current outputs of all offline examples into the pages."""
    for page in list_played_pages():
        with tempfile.TemporaryDirectory() as folder:
            page.path.write_text(play_offline(page, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    record()
