"""The largest count that passes, whatever was guessed, with few questions about large ones."""

from __future__ import annotations

import itertools

from vgpu_cfg.planning.pool.quotas import most_that


def asked(answer: int, most: int, guess: int) -> tuple[int, list[int]]:
    questions: list[int] = []

    def passes(count: int) -> bool:
        questions.append(count)
        return count <= answer

    return most_that(passes, most, guess), questions


def test_the_largest_that_passes_is_found_from_every_guess() -> None:
    for answer, most, guess in itertools.product(range(14), range(14), range(16)):
        found, questions = asked(answer, most, guess)
        assert found == min(answer, most), (answer, most, guess)
        assert all(0 < count <= most for count in questions)


def test_a_good_guess_takes_two_questions_and_none_costs_no_large_one() -> None:
    assert asked(7900, 8000, 7900)[1] == [7900, 7901]
    assert max(asked(10, 100_000, 0)[1]) < 30
