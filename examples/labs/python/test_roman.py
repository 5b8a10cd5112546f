"""A function and its tests: silk run -p lab:python --dir examples/labs/python -- pytest -q test_roman.py"""

import pytest

NUMERALS = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]


def roman(n):
    if not 0 < n < 4000:
        raise ValueError(f"{n} has no Roman numeral")
    text = ""
    for value, letters in NUMERALS:
        times, n = divmod(n, value)
        text += letters * times
    return text


@pytest.mark.parametrize("n, want", [(4, "IV"), (1990, "MCMXC"), (2026, "MMXXVI"), (3999, "MMMCMXCIX")])
def test_numbers(n, want):
    assert roman(n) == want


@pytest.mark.parametrize("n", [0, -1, 4000])
def test_refuses(n):
    with pytest.raises(ValueError, match="no Roman numeral"):
        roman(n)
