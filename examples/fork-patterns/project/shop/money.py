"""Amounts of money, in cents."""


def split(cents, shares):
    """Splits an amount by shares: the parts add up to it, and each is less than a cent from its exact share."""
    whole = sum(shares)
    return [round(cents * share / whole) for share in shares]
