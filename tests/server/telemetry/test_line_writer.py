"""The writer of the log: it keeps the order of lines, and never lets a caller wait for the reader."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tallygate.server.telemetry.json_log import LineWriter
from tests.server.process import eventually

MIB = 1 << 20


class RecordingFile:
    """A file that records what is written."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, content: bytes | memoryview) -> int:
        """Record the content."""
        self.writes.append(bytes(content))
        return len(content)

    @property
    def lines(self) -> list[bytes]:
        """Every line that was written."""
        return b"".join(self.writes).splitlines()


class StuckFile(RecordingFile):
    """A file that takes nothing while it is stuck."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.released = threading.Event(), threading.Event()

    def write(self, content: bytes | memoryview) -> int:
        """Wait until the file is not stuck, and record the content."""
        self.entered.set()
        self.released.wait()
        return super().write(content)


class SlowFile(RecordingFile):
    """A non-blocking file: every second write takes nothing, the others take three bytes."""

    def write(self, content: bytes | memoryview) -> int | None:  # type: ignore[override]  # as `io.FileIO`
        """Record up to three bytes."""
        if self.writes and self.writes[-1]:
            self.writes.append(b"")
            return None
        return super().write(content[:3])


class BrokenPipe(RecordingFile):
    """A pipe without a reader."""

    def write(self, content: bytes | memoryview) -> int:
        """Raise an error."""
        raise BrokenPipeError(len(content))


@contextmanager
def fill_log(dropped: list[int]) -> Iterator[tuple[LineWriter, StuckFile]]:
    """Yield a writer whose file is stuck, with a queue that takes no more lines of 1 MiB."""
    file = StuckFile()
    lines = LineWriter(file, dropped.append, clock=lambda: 1_700_000_000_123_456_789)
    lines.error(b"first")
    assert file.entered.wait(60)
    for _ in range(4):
        lines.info(b"x" * MIB)
    try:
        yield lines, file
    finally:
        file.released.set()
        assert lines.flush(60)


def test_lines_keep_their_order_and_a_flush_waits_for_them() -> None:
    file = RecordingFile()
    lines = LineWriter(file)
    lines.info(b"1")
    lines.error(b"2")
    lines.info(b"3")
    assert lines.flush()
    assert file.lines == [b"1", b"2", b"3"]


def test_a_warning_is_written_without_a_flush() -> None:
    file = RecordingFile()
    lines = LineWriter(file)
    lines.info(b"1")
    lines.warning(b"2")
    assert eventually(lambda: file.lines == [b"1", b"2"])


def test_a_file_that_takes_parts_gets_every_byte_once() -> None:
    file = SlowFile()
    lines = LineWriter(file)
    lines.error(b"12345")
    assert lines.flush(60)
    assert file.lines == [b"12345"]


def test_lines_beyond_the_bound_are_dropped_and_counted_while_the_reader_is_stuck() -> None:
    dropped: list[int] = []
    with fill_log(dropped) as (lines, file):
        for _ in range(20_000):
            lines.info(b"more")
        assert sum(dropped) == 20_000
    assert file.lines[:5] == [b"first", *[b"x" * MIB] * 4]


def test_the_log_says_how_many_lines_were_dropped_once_it_goes_on() -> None:
    dropped: list[int] = []
    with fill_log(dropped) as (lines, file):
        lines.info(b"lost")
        lines.info(b"lost")
    lines.info(b"next")
    assert lines.flush(60)
    report = {"time": "2023-11-14T22:13:20.123Z", "level": "warning", "event": "log-lines-dropped", "number": 2}
    assert [json.loads(file.lines[5]), *file.lines[6:]] == [report, b"next"]


def test_a_warning_has_room_where_other_lines_have_none() -> None:
    dropped: list[int] = []
    with fill_log(dropped) as (lines, file):
        lines.info(b"lost")
        lines.error(b"kept")
        lines.error(b"y" * MIB)
    assert dropped == [1, 1]
    assert file.lines[5] == b"kept"


def test_a_flush_does_not_wait_longer_than_it_may() -> None:
    with fill_log([]) as (lines, _):
        assert not lines.flush(0.01)


@pytest.mark.parametrize("level", ["info", "error"])
def test_lines_that_a_broken_pipe_does_not_take_are_counted(level: str) -> None:
    dropped: list[int] = []
    lines = LineWriter(BrokenPipe(), dropped.append)
    for _ in range(20_000):
        getattr(lines, level)(b"x")
    assert lines.flush(60)
    assert sum(dropped) == 20_000


def test_lines_of_many_threads_all_arrive_whole() -> None:
    file = RecordingFile()
    lines = LineWriter(file)

    def write(writer: int) -> None:
        for number in range(500):
            (lines.info if number % 50 else lines.error)(b"%d-%d" % (writer, number))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines.flush()
    written = file.lines
    assert len(written) == 4000
    for writer in range(8):
        assert [line for line in written if line.startswith(b"%d-" % writer)] == [
            b"%d-%d" % (writer, n) for n in range(500)
        ]
