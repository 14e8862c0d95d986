"""``python -m tests.benchmarks.cascade FIRST SECOND``: seconds and recall of a cascade against K, in a project whose runs FIRST and
SECOND are embedded.

A row for the first run alone, one for each K, and one for the second run alone, all under nearest neighbours on split
``--split``, both directions; pairs: how many the second run scored, in percent of all. Machines are shared: seconds vary.
``--device cuda`` measures there.
"""

import argparse
import time

from tests.benchmarks import devices
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.evaluate.ensemble import Ensemble
from vse_pipe.project import paths
from vse_pipe.ranking import criteria, evaluation
from vse_pipe.ranking.bank import BankSource
from vse_pipe.ranking.cascade import ScoredPairs, cascaded
from vse_pipe.ranking.embedded import Embedded
from vse_pipe.ranking.split import Split
from vse_pipe.ranking.trial import Trial, trials

NNS = criteria.parse("nns", {})


def measured(found: dict[str, list[Trial]]) -> tuple[float, dict[str, list[float]]]:
    """Seconds, and R@1, R@5 and R@10 by direction."""
    started = time.monotonic()
    recalls = {}
    for direction in DIRECTIONS:
        (trial,) = found[direction]
        hits = evaluation.rank(trial.under(NNS), trial.truth, "pessimistic").hits
        recalls[direction] = [100.0 * float(one.mean()) for one in hits.values()]
    return time.monotonic() - started, recalls


def rows(split: Split, first, second, ks: list[int]):
    """(name, seconds, percent of the pairs, recalls)."""
    bank = BankSource("test")
    yield "first", *measured(trials([split.part(0)], bank, first, 0, 0)), 0.0
    for k in ks:
        pairs = ScoredPairs(split.part(1).images, split.part(1).captions, second, 0)
        found = trials([split.part(0)], bank, first, 0, 0)
        turned = {"image_to_text": pairs.score, "text_to_image": pairs.turned}
        of_k = {
            direction: [
                Trial(one.scores, one.bank, one.truth, lambda of, by=turned[direction], k=k: cascaded(of, by, k))
            ]
            for direction, (one,) in found.items()
        }
        spent, recalls = measured(of_k)
        yield f"K {k}", spent, recalls, 100 * pairs.scored / (len(split.image_ids) * len(split.caption_ids))
    yield "second", *measured(trials([split.part(1)], bank, second, 0, 0)), 100.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first")
    parser.add_argument("second")
    devices.add(parser)
    parser.add_argument("--split", default="test")
    parser.add_argument("--ks", type=int, nargs="+", default=[1, 5, 10, 20, 50, 100])
    options = parser.parse_args()
    runs = tuple(Embedded.read(paths.embedded(name), name) for name in (options.first, options.second))
    split = Ensemble(runs).split(options.split, options.device)
    print(f"{len(split.image_ids)} images, {len(split.caption_ids)} captions")
    print(f"{'':8}{'seconds':>9}{'pairs %':>9}{'i2t R@1, 5, 10':>22}{'t2i R@1, 5, 10':>22}{'rsum':>8}")
    for name, spent, recalls, share in rows(split, *(run.similarity(options.device) for run in runs), options.ks):
        told = "".join(f"{' '.join(f'{one:.1f}' for one in recalls[direction]):>22}" for direction in DIRECTIONS)
        rsum = sum(sum(each) for each in recalls.values())
        print(f"{name:8}{spent:9.2f}{share:9.1f}{told}{rsum:8.1f}")


if __name__ == "__main__":
    main()
