"""Memoized results: short texts only, and a limited number."""

from tallygate.accounting.result_cache import MAX_RESULTS, MAX_TEXT_LENGTH, memoize


class Counter:
    """A function with a counter of its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def compute_length(self, text: str, plus: int) -> int:
        """Return the length of a text plus a number."""
        self.calls += 1
        return len(text) + plus


def test_the_result_of_a_short_text_is_computed_once() -> None:
    counter = Counter()
    length = memoize(counter.compute_length)
    assert [length("gpu", 1), length("gpu", 1), length("gpu", 2)] == [4, 4, 5]
    assert counter.calls == 2


def test_results_of_longer_texts_are_not_memoized() -> None:
    counter = Counter()
    length = memoize(counter.compute_length)
    for _ in range(3):
        assert length("x" * MAX_TEXT_LENGTH, 0) == MAX_TEXT_LENGTH
    assert counter.calls == 1
    for _ in range(3):
        assert length("x" * (MAX_TEXT_LENGTH + 1), 0) == MAX_TEXT_LENGTH + 1
    assert counter.calls == 4


def test_the_number_of_memoized_results_is_limited() -> None:
    counter = Counter()
    length = memoize(counter.compute_length)
    for number in range(MAX_RESULTS + 1):
        length(str(number), 0)
    length(str(MAX_RESULTS), 0)
    assert counter.calls == MAX_RESULTS + 1
    length("0", 0)
    assert counter.calls == MAX_RESULTS + 2
