"""What is remembered, and what is not."""

from webhook.accounting.result_cache import MAX_RESULTS, MAX_TEXT_LENGTH, memoize


class Counter:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def length(self, text: str, plus: int) -> int:
        """The length of a text and something more."""
        self.calls += 1
        return len(text) + plus


def test_a_short_text_is_answered_once() -> None:
    counter = Counter()
    length = memoize(counter.length)
    assert [length("gpu", 1), length("gpu", 1), length("gpu", 2)] == [4, 4, 5]
    assert counter.calls == 2


def test_the_longest_short_text_is_remembered_and_a_longer_one_is_not() -> None:
    counter = Counter()
    length = memoize(counter.length)
    for _ in range(3):
        assert length("x" * MAX_TEXT_LENGTH, 0) == MAX_TEXT_LENGTH
    assert counter.calls == 1
    for _ in range(3):
        assert length("x" * (MAX_TEXT_LENGTH + 1), 0) == MAX_TEXT_LENGTH + 1
    assert counter.calls == 4


def test_only_so_many_answers_are_remembered() -> None:
    counter = Counter()
    length = memoize(counter.length)
    for number in range(MAX_RESULTS + 1):
        length(str(number), 0)
    length(str(MAX_RESULTS), 0)
    assert counter.calls == MAX_RESULTS + 1
    length("0", 0)
    assert counter.calls == MAX_RESULTS + 2
