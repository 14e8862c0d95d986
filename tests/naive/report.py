"""The histogram of N_k and the choice of examples in plain loops."""


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
