"""The commands of the documentation that cannot run here as they are shown, what runs in their place, and why.

Every other command runs exactly as it stands. A rule that no shown command needs any longer fails the tests.
"""

import re
from dataclasses import dataclass

from tests.docs.pages import Command


@dataclass(frozen=True)
class Rewriting:
    """shown: a regular expression for the whole command; run: what runs instead, with groups; pages: where it
    holds; in_text: in code spans too, not in blocks alone."""

    shown: str
    run: str
    why: str
    pages: str = ".*"
    in_text: bool = True

    def fits(self, command: Command) -> bool:
        here = re.fullmatch(self.pages, command.page) and (self.in_text or not command.inline)
        return bool(here and re.fullmatch(self.shown, command.shown))


_NO_PLACEHOLDER = "NAME, R, FILE, ... stand for names of the reader's own"
_NO_NETWORK = "no package index is reached from a test; the extra must exist"
_NO_WEIGHTS = "no trained weights lie here: random ones"
_LONG = "minutes of measuring: the options are checked"
_CACHED = "computing the whole overlay takes minutes: the commands of its stages, of the last run alone"

TABLE = [
    Rewriting(
        r"make (demo|test|acceptance|setup|lint|pins)",
        r"make -n \1",
        "sets up an environment and takes minutes: what it would run",
    ),
    Rewriting(
        r"pip install \.", "grep -q '^name = .vse-pipe.' pyproject.toml", "no package index is reached from a test"
    ),
    Rewriting(
        r"vse-pipe init --upgrade",
        "vse-pipe init --help",
        "these tests run in a clone, whose dvc.yaml comes with its code",
    ),
    Rewriting(r"pip install ['\"]vse-pipe\[(\w+)\]['\"]", r"grep -q '^\1 = ' pyproject.toml", _NO_NETWORK),
    Rewriting(
        r"uvx pip-audit .* constraints\.txt",
        "grep -q '^uv==' constraints.txt",
        "no advisories are reached from a test: the tool that runs it is pinned, and so is what it reads",
    ),
    Rewriting(
        r"pip install --force-reinstall torch torchvision",
        "python -c 'import torch, torchvision'",
        "no package index is reached from a test: the pair that is installed must import",
    ),
    Rewriting(
        r"(.*)-S features\.(\w+)\.weights=\S+ apply (\w+)",
        r"\1-S features.\2.weights=random -S features.\2.sha256=null apply \3",
        _NO_WEIGHTS,
    ),
    Rewriting(
        r"(vse-pipe -S datasets\.mine\.source=\S+) apply strong",
        r"\1 -S features.main.weights=random -S features.main.image_size=64 "
        r"-S 'texts.both={dataset: mine, method: tfidf, size: 50}' apply strong",
        f"{_NO_WEIGHTS}, small pictures for a network of 152 layers, and no sentence encoder",
        r"README\.md|docs/recipes\.md",
    ),
    Rewriting(
        r"(vse-pipe -S \S+) apply (flickr8k_strong|flickr8k_precomp_noise)",
        r"\1 -S 'texts={both: &t {dataset: flickr8k_precomp, method: tfidf, size: 50}, tfidf: *t, sentences: *t, three: *t}' "
        r"apply \2",
        "no sentence encoder and no word vectors lie here",
        r"reports/.*",
    ),
    Rewriting(r"dvc repro", "@stages", _CACHED, r"README\.md|docs/(data|recipes|sweeps)\.md|reports/.*", in_text=False),
    Rewriting(
        r"dvc repro",
        "dvc repro localize@cca",
        "eight runs, of which one shows that DVC finds the way from scenes to boxes",
        r"docs/localisation\.md",
        in_text=False,
    ),
    Rewriting(
        r"for s in 1 2 3; do (vse-pipe -S seed=)\$s train; \1\$s embed; \1\$s evaluate; done",
        r"\g<1>2 train --run sum; \g<1>2 embed --run sum; \g<1>2 evaluate --run sum",
        "twenty runs, three times: one of them with one seed",
    ),
    Rewriting(
        r"(vse-pipe -S evaluate\.\w+=\w+ evaluate)",
        r"\1 --run hal",
        "the overlay's last run alone has been computed",
        r"reports/.*",
    ),
    Rewriting(
        r"torchrun .* --no-python (.*)",
        r"torchrun --standalone --nproc-per-node 1 --no-python \1",
        "there is one machine: one process of it, which finds the run trained",
    ),
    Rewriting(
        r"dvc exp run -S loss\.hal\.gamma=\S+",
        "dvc exp run -S report.examples=1",
        "training anew takes a minute, and tests/acceptance/test_pipeline.py does it: a value that the report alone reads",
    ),
    Rewriting(
        r"(dvc exp run --queue -S '[^=']+=[^,(']+,[^,']+),.*",
        r"\1'",
        "each value becomes an experiment of its own, and takes seconds: two of them",
    ),
    Rewriting(r"(dvc exp run --queue .*)range\(1,6\)'", r"\1range(1,3)'", "two of the five values, as above"),
    Rewriting(
        r"(vse-pipe -S) loss\.max\.margin=0\.1 train --run max",
        r"\1 loss.sum.margin=0.1 train --help",
        "the project of these tests has no run max",
    ),
    Rewriting(
        r"(vse-pipe extract --backbone) (NAME|resnet152)", r"\1 random_filters", f"{_NO_PLACEHOLDER}; {_NO_WEIGHTS}"
    ),
    Rewriting(r"vse-pipe extract --texts NAME", "vse-pipe extract --texts words", _NO_PLACEHOLDER),
    Rewriting(r"vse-pipe audit --run R", "vse-pipe audit --run hal", _NO_PLACEHOLDER),
    Rewriting(
        r"vse-pipe (localize(?= --run R)|train(?= --run theirs)|evaluate(?= --run sgraf)|(?:embed|evaluate)(?=.*--dataset mine)) --run .*",
        r"vse-pipe \1 --help",
        "the project of these tests has no run or data set of that name",
    ),
    Rewriting(r"vse-pipe apply (FILE|my-sweep\.yaml)", "vse-pipe apply sweep_k", _NO_PLACEHOLDER),
    Rewriting(r"vse-pipe papers PAPER", "vse-pipe papers vsepp", _NO_PLACEHOLDER),
    Rewriting(r"vse-pipe -S KEY=VALUE \.\.\.", "vse-pipe -S seed=2 papers", _NO_PLACEHOLDER),
    Rewriting(r"dvc exp run -S KEY=VALUE", "dvc exp run --help", _NO_PLACEHOLDER),
    Rewriting(r"vse-pipe evaluate --images \.\.\.", "vse-pipe evaluate --help", _NO_PLACEHOLDER),
    Rewriting(
        r"(vse-pipe evaluate .* --more-images) c\.parquet --more-captions d\.parquet (.*)",
        r"\1 a.parquet --more-captions b.parquet \2",
        "there is one model: it is fused with itself",
    ),
    Rewriting(r"(.*) --to faiss (.*)", r"\1 --to npy \2", "the optional package faiss-cpu is not installed"),
    Rewriting(
        r"dvc plots diff zinky-cons areal-kale", "dvc plots diff HEAD workspace", "names of somebody's experiments"
    ),
    Rewriting(
        r"dvc queue start", "dvc queue remove --all && dvc queue start", "the queued experiments would run for minutes"
    ),
    Rewriting(r"python -m (tests\.(?:benchmarks|faults)\.\w+)(.*)", r"python -m \1\2 --help", _LONG),
    Rewriting(r"python -m pytest tests/papers", "ls tests/papers/test_*.py", "they run by themselves"),
    Rewriting(
        r"python -m tests\.golden",
        "python -m tests.golden $(ls tests/golden/vectors/*.npz | head -1)",
        "one file of many",
    ),
    Rewriting(r'(vse-pipe search (?:"image:|--image-id ))\d+ (.*)', r"\g<1>90 \2", "the small data set has other ids"),
    Rewriting(r"vse-pipe serve", "vse-pipe serve --help", "a server runs until it is stopped"),
    Rewriting(
        r"vse-pipe (audit|compare|encode|export|index|localize|pack|search)", r"\g<0> --help", "named without arguments"
    ),
    Rewriting(r"dvc (gc --workspace|commit)", r"dvc \1 --force", "it asks before it does so"),
    Rewriting(
        r"seq 2 \| xargs .*--features \w+ --shard \{\}/2.*",
        "vse-pipe extract --features filters --shard 1/2 --device cpu",
        "there are no two GPUs: one of the shares",
    ),
    Rewriting(
        r"srun vse-pipe extract .*",
        "vse-pipe extract --features filters --shard 2/2",
        "SLURM sets the share and starts the command: here it is the second of two",
    ),
    Rewriting(r"job=\$\(sbatch .*\)", "true", "there is no SLURM: the script's own command runs"),
    Rewriting(
        r'sbatch .* --wrap "(vse-pipe extract) .*"', r"\1 --features filters", "there is no SLURM: the wrapped command"
    ),
    Rewriting(
        r"vse-pipe extract --features (resnet152|F) --engine ray .*",
        "vse-pipe extract --features filters --engine local",
        "starting Ray takes half a minute, and tests/project/engines does it",
    ),
    Rewriting(
        r"vse-pipe (embed|evaluate) --run hal --engine ray .*", r"vse-pipe \1 --run hal --engine local", "as above"
    ),
    Rewriting(
        r"vse-pipe -S engine\.memory=512 evaluate --images a\.npy .*",
        "vse-pipe -S engine.memory=512 evaluate --help",
        _NO_PLACEHOLDER,
    ),
    Rewriting(
        r"(vse-pipe extract --features) (?:NAME|photos|resnet152)( --shard 1/4| --find-batch-size)?",
        r"\1 filters\2",
        f"{_NO_PLACEHOLDER}; {_NO_WEIGHTS}",
    ),
    Rewriting(r"vse-pipe --install-completion", "vse-pipe --show-completion", "it writes into the user's shell set-up"),
    Rewriting(r"vse-pipe (-[qv]) COMMAND", r"vse-pipe \1 papers", _NO_PLACEHOLDER),
    Rewriting(r"vse-pipe compare sum hal max (.*)", r"vse-pipe compare sum hal \1", "the small project has no run max"),
    Rewriting(r"vse-pipe claims papers", r"\g<0> --skip-unknown", "the small project has two of their runs"),
    Rewriting(r"vse-pipe claims FILE", "vse-pipe claims papers --skip-unknown", _NO_PLACEHOLDER),
    Rewriting(
        r"vse-pipe compare .*", "vse-pipe compare --help", "the overlay's last run alone was computed", r"reports/.*"
    ),
    Rewriting(
        r"vse-pipe (.* )?choose( --grid grid\.yaml)?",
        r"vse-pipe choose --help",
        "trains for hours, on a file of the reader's: tests/tools/test_choose.py chooses among four settings",
    ),
    Rewriting(r"dvc plots|dvc queue logs", r"\g<0> --help", "a group of commands, or one that wants a name"),
    Rewriting(
        r"dvc (push|pull)( --run-cache)?",
        r"dvc checkout --force && dvc remote add --force --default --local store ../store && dvc push\2 && dvc \1\2",
        "a remote that the reader has: a folder beside the project, in which other commands have been at work",
    ),
]


def of(command: Command) -> Rewriting | None:
    """The first rule that fits, None for a command that runs as it is shown."""
    return next((one for one in TABLE if one.fits(command)), None)


def to_run(command: Command) -> str:
    rule = of(command)
    return re.sub(rule.shown, rule.run, command.shown, count=1) if rule else command.shown
