"""Figures of the audit and best partners in plain loops over lists."""


def auc(values, mismatched):
    """Of all pairs of one mismatched and one matched pair: how often the mismatched one has the higher value."""
    wrong = [value for value, is_wrong in zip(values, mismatched, strict=True) if is_wrong]
    right = [value for value, is_wrong in zip(values, mismatched, strict=True) if not is_wrong]
    won = sum(1.0 if bad > good else 0.5 if bad == good else 0.0 for bad in wrong for good in right)
    return won / (len(wrong) * len(right))


def average_precision(values, mismatched):
    """Lower the threshold from value to value; at each, the precision times what the recall has gained."""
    total, recall_before = 0.0, 0.0
    for threshold in sorted(set(values), reverse=True):
        flagged = [is_wrong for value, is_wrong in zip(values, mismatched, strict=True) if value >= threshold]
        recall = sum(flagged) / sum(mismatched)
        total += sum(flagged) / len(flagged) * (recall - recall_before)
        recall_before = recall
    return total


def precision_and_recall(probability, mismatched, threshold):
    flagged = [value > threshold for value in probability]
    hits = sum(1 for is_flagged, is_wrong in zip(flagged, mismatched, strict=True) if is_flagged and is_wrong)
    return (hits / sum(flagged) if any(flagged) else None, hits / sum(mismatched) if any(mismatched) else None)


def partners(scores, owners):
    """scores[i][j]: image of pair i against caption of pair j. For each pair the best caption of a pair that shows
    another image, and the best image other than its own, as (caption pair, score, image, score); None where none."""
    found = []
    for i, owner in enumerate(owners):
        caption = image = None
        for j, other in enumerate(owners):
            if other == owner:
                continue
            if caption is None or scores[i][j] > scores[i][caption]:
                caption = j
            if image is None or scores[j][i] > scores[image][i]:
                image = j
        if caption is None:
            found.append((None, None, None, None))
        else:
            found.append((caption, scores[i][caption], owners[image], scores[image][i]))
    return found


def pair_losses(scores, owners, margin):
    """Mean violation by the captions of other images, plus that by other images; 0 where there are none."""
    losses = []
    for i, owner in enumerate(owners):
        own = scores[i][i]
        others = [j for j, other in enumerate(owners) if other != owner]
        by_captions = sum(max(0.0, margin - own + scores[i][j]) for j in others)
        by_images = sum(max(0.0, margin - own + scores[j][i]) for j in others)
        losses.append((by_captions + by_images) / max(1, len(others)))
    return losses
