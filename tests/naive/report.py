"""Hubness measures and the choice of examples in plain loops."""


def robin_hood(n: list[int]) -> float:
    mean = sum(n) / len(n)
    surplus = 0.0
    for value in n:
        if value > mean:
            surplus += value - mean
    return surplus / sum(n) if sum(n) else 0.0


def gini(n: list[int]) -> float:
    """Half the mean absolute difference of all pairs, divided by the mean."""
    if not sum(n):
        return 0.0
    total = 0
    for one in n:
        for other in n:
            total += abs(one - other)
    return total / (2 * len(n) * sum(n))


def hub_share(n: list[int]) -> float:
    to_hubs = 0
    for value in n:
        if value * len(n) >= 2 * sum(n):
            to_hubs += value
    return to_hubs / sum(n) if sum(n) else 0.0


def log_histogram(n: list[int]) -> list[tuple[int, int, int]]:
    bins = []
    low = 1
    while low <= max(n):
        end = low + 1
        while end <= low * 1.25:
            end += 1
        items = 0
        for value in n:
            if low <= value < end:
                items += 1
        if items:
            bins.append((low, end - 1, items))
        low = end
    return bins


def attracted(lists: list[list[int]], item: int) -> list[int]:
    """Rows whose list holds the item: those that have it first, then those that have it second, and so on."""
    rows = []
    for place in range(max(map(len, lists), default=0)):
        for row, held in enumerate(lists):
            if place < len(held) and held[place] == item:
                rows.append(row)
    return rows


def kind(before: bool, after: bool) -> str:
    if before:
        return "right" if after else "broken"
    return "repaired" if after else "wrong"
