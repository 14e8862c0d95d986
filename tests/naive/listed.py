"""A ranking that is a list of answers, in plain loops."""

import math


def order(scores, grades, above, ties="pessimistic"):
    """Items of one query, best first; of the same score the wrong ones first and then the worse ones, or the other way round.
    scores: by item; grades: by judged item."""

    def key(item):
        grade = grades.get(item, 0.0)
        return (grade > above, grade)

    sign = 1 if ties == "pessimistic" else -1
    return sorted(scores, key=lambda item: (-scores[item], *(sign * part for part in key(item))))


def places(scores, grades, above, ties="pessimistic"):
    """Of the correct items; infinite for those that are not in the list."""
    listed = order(scores, grades, above, ties)
    found = [place for place, item in enumerate(listed) if grades.get(item, 0.0) > above]
    return found + [math.inf] * (sum(grade > above for grade in grades.values()) - len(found))


def graded_ndcg(scores, grades, k, ties="pessimistic"):
    listed = order(scores, grades, 0.0, ties)[:k]
    gained = sum(grades.get(item, 0.0) / math.log2(place + 2) for place, item in enumerate(listed))
    ideal = sorted(grades.values(), reverse=True)[:k]
    return gained / sum(grade / math.log2(place + 2) for place, grade in enumerate(ideal))
