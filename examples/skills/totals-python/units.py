def in_units(amount: int, decimals: int) -> str:
    """An amount of smallest units as a decimal number of whole tokens."""
    digits = str(abs(amount)).zfill(decimals + 1)
    whole, part = digits[: len(digits) - decimals], digits[len(digits) - decimals :].rstrip("0")
    return ("-" if amount < 0 else "") + whole + ("." + part if decimals and part else "")
