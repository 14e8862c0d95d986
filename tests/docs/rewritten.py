"""The commands of the documentation that cannot run here as they are shown, what runs in their place, and why.

Every other command runs exactly as it stands. A rule that no shown command needs any longer fails the tests.
"""

import re
from dataclasses import dataclass

from tests.docs.pages import Command


@dataclass(frozen=True)
class Rule:
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


_NAMES = "NAME, R, FILE, ... stand for names of the reader's own"
_NO_NETWORK = "no package index is reached from a test; the extra must exist"
_NO_WEIGHTS = "no trained weights lie here: random ones"
_LONG = "minutes of measuring: the options are checked"
_CACHED = "computing the whole overlay takes minutes: the commands of its stages, of the last run alone"

TABLE = [
    Rule(r"make (demo|test|acceptance|setup|lint|docs|dist|pins)", r"make -n \1", "minutes of setting up: what it would run"),
    Rule(r"python -m benchmarks\.gpu.*", "python -m benchmarks.gpu --device cpu --only ranks", "no GPU is here: one check on the CPU"),
    Rule(r"python -m pytest tests/devices -n 8", "python -m pytest tests/devices --collect-only -q", "`make test` runs them"),
    Rule(r"cd \.\./mine", "ls ../mine/params.yaml", "commands here run in the clone, tests/acceptance/test_own_project.py in a project"),
    Rule(r"vse-pipe init --upgrade", "vse-pipe init --help", "these tests run in a clone with its own dvc.yaml"),
    Rule(r"pip install -e '\.\[(\w+)\]'", r"grep -q '^\1 = ' pyproject.toml", _NO_NETWORK),
    Rule(r"uvx pip-audit .* constraints\.txt", "grep -q '^uv==' constraints.txt",
        "no advisories are reached: the tool is pinned"),
    Rule(r"pip install --force-reinstall torch torchvision", "python -c 'import torch, torchvision'",
        "no package index is reached: it must import"),
    Rule(r"(.*)-S features\.(\w+)\.weights=\S+ -S features\.(\w+)\.weights=\S+ apply (\w+)",
        r"\1-S features.\2.weights=random -S features.\2.sha256=null -S features.\3.weights=random "
        r"-S features.\3.sha256=null apply \4", _NO_WEIGHTS),
    Rule(r"(.*)-S features\.(\w+)\.weights=\S+ apply (\w+)",
        r"\1-S features.\2.weights=random -S features.\2.sha256=null apply \3", _NO_WEIGHTS),
    Rule(r"(vse-pipe -S datasets\.mine\.source=\S+) apply strong",
        r"\1 -S features.main.weights=random -S features.main.image_size=64 "
        r"-S 'texts.both={dataset: mine, method: tfidf, size: 50}' apply strong",
        f"{_NO_WEIGHTS}, small pictures for a network of 152 layers, and no sentence encoder",
        r"README\.md|docs/recipes\.md"),
    Rule(r"(vse-pipe -S \S+) apply (flickr8k_strong|flickr8k_precomp_noise)",
        r"\1 -S 'texts={both: &t {dataset: flickr8k_precomp, method: tfidf, size: 50}, tfidf: *t, sentences: *t, three: *t}' "
        r"apply \2",
        "no sentence encoder and no word vectors lie here", r"reports/.*"),
    Rule(r"dvc repro", "@stages", _CACHED, r"README\.md|docs/(data|recipes|experiments)\.md|reports/.*", in_text=False),
    Rule(r"dvc repro", "dvc repro localize@cca", "eight runs: one shows that DVC finds the way to boxes",
        r"docs/localisation\.md", in_text=False),
    Rule(r"torchrun .* --no-python (.*)", r"torchrun --standalone --nproc-per-node 1 --no-python \1",
        "one machine: one process, which finds the run trained"),
    Rule(r"dvc exp run -S loss\.hal\.gamma=\S+", "dvc exp run -S report.examples=1",
        "training anew takes a minute: a value that the report alone reads"),
    Rule(r"(dvc exp run --queue -S '[^=']+=[^,(']+,[^,']+),.*", r"\1'", "each value takes seconds: two of them"),
    Rule(r"(dvc exp run --queue .*)range\(1,6\)'", r"\1range(1,3)'", "two of the five values, as above"),
    Rule(r"(vse-pipe -S) loss\.max\.margin=0\.1 train --run max", r"\1 loss.sum.margin=0.1 train --help",
        "the small project has no run max"),
    Rule(r"(vse-pipe extract --backbone) (NAME|resnet152)", r"\1 random_filters", f"{_NAMES}; {_NO_WEIGHTS}"),
    Rule(r"vse-pipe extract --texts NAME", "vse-pipe extract --texts words", _NAMES),
    Rule(r"vse-pipe audit --noise n60/1", "vse-pipe audit --noise clean", _NAMES),
    Rule(r"vse-pipe audit --run R", "vse-pipe audit --run hal", _NAMES),
    Rule(r"vse-pipe evaluate (?:--run nested )?--dims [\d,]+(.*)", r"vse-pipe evaluate --run hal --dims 8\1",
        "no run of these tests has nested vectors, and 16 dimensions are all"),
    Rule(r"vse-pipe audit (?:--noise cleaned|--noise half|--dataset mine)(.*)", r"vse-pipe audit --noise clean\1", _NAMES),
    Rule(r"vse-pipe review --dataset mine --auto 0\.9", "vse-pipe review --help",
        "tests/acceptance/test_cleaning.py decides", r"docs/cleaning\.md"),
    Rule(r"vse-pipe (localize(?= --run R)|evaluate(?= --run sgraf)|(?:embed|evaluate)(?=.*--dataset mine)) --run .*",
        r"vse-pipe \1 --help", "the project of these tests has no run or data set of that name"),
    Rule(r"vse-pipe apply (FILE|my-sweep\.yaml)", "vse-pipe apply sweep_k", _NAMES),
    Rule(r"vse-pipe papers PAPER", "vse-pipe papers vsepp", _NAMES),
    Rule(r"vse-pipe -S KEY=VALUE \.\.\.", "vse-pipe -S seed=2 papers", _NAMES),
    Rule(r"vse-pipe rank --images \.\.\.", "vse-pipe rank --help", _NAMES),
    Rule(r"(.*) --to faiss (.*)", r"\1 --to npy \2", "the optional package faiss-cpu is not installed"),
    Rule(r"dvc plots diff zinky-cons areal-kale", "dvc plots diff HEAD workspace", "names of somebody's experiments"),
    Rule(r"dvc queue start", "dvc queue remove --all && dvc queue start",
        "the queued experiments would run for minutes"),
    Rule(r"python -m ((?:benchmarks|tests\.faults)\.\w+)(.*)", r"python -m \1\2 --help", _LONG),
    Rule(r"python -m tests\.docs\.notebooks", "ls docs/notebooks/*.ipynb",
        "a minute, and tests/acceptance/test_site.py runs them"),
    Rule(r"python -m pytest tests/papers", "ls tests/papers/test_*.py", "they run by themselves"),
    Rule(r"python -m tests\.golden", "python -m tests.golden $(ls tests/golden/vectors/*.npz | head -1)",
        "one of many"),
    Rule(r'(vse-pipe search "?image:)\d+ (.*)', r"\g<1>90 \2", "the small data set has other ids"),
    Rule(r"vse-pipe (serve|review)", r"vse-pipe \1 --help", "a server runs until it is stopped"),
    Rule(r"vse-pipe (audit|compare|encode|export|index|localize|pack|pairs|rank|search)", r"\g<0> --help",
        "named without arguments"),
    Rule(r"dvc (gc --workspace|commit)", r"dvc \1 --force", "it asks before it does so"),
    Rule(r"seq 2 \| xargs .*--features \w+ --shard \{\}/2.*",
        "vse-pipe extract --features filters --shard 1/2 --device cpu", "there are no two GPUs: one of the shares"),
    Rule(r"srun vse-pipe extract .*", "vse-pipe extract --features filters --shard 2/2",
        "SLURM sets the share: here it is the second of two"),
    Rule(r"job=\$\(sbatch .*\)", "true", "there is no SLURM: the script's own command runs"),
    Rule(r'sbatch .* --wrap "(vse-pipe extract) .*"', r"\1 --features filters", "no SLURM: the wrapped command"),
    Rule(r"vse-pipe -S engine\.name=ray -S engine\.workers=4 extract --features resnet152.*",
        "vse-pipe extract --features filters", "half a minute, and tests/extract/test_share.py does it"),
    Rule(r"(vse-pipe extract --features) (?:NAME|photos|resnet152)( --shard 1/4)?", r"\1 filters\2",
        f"{_NAMES}; {_NO_WEIGHTS}"),
    Rule(r"vse-pipe --install-completion", "vse-pipe --show-completion", "it writes into the user's shell set-up"),
    Rule(r"vse-pipe (-[qv]) COMMAND", r"vse-pipe \1 papers", _NAMES),
    Rule(r"vse-pipe compare sum hal max (.*)", r"vse-pipe compare sum hal \1", "the small project has no run max"),
    Rule(r"vse-pipe compare before after", "vse-pipe compare --help", _NAMES),
    Rule(r"(vse-pipe pairs --dataset mine) --noise cleaned (--split .*)", r"\1 --noise clean \2",
        "the small data set has no decisions"),
    Rule(r"vse-pipe claims papers", r"\g<0> --skip-unknown", "the small project has two of their runs"),
    Rule(r"vse-pipe claims FILE", "vse-pipe claims papers --skip-unknown", _NAMES),
    Rule(r"vse-pipe compare .*", "vse-pipe compare --help", "only the overlay's last run is there", r"reports/.*"),
    Rule(r"vse-pipe (.* )?choose( --grid grid\.yaml)?", r"vse-pipe choose --help",
        "hours, and tests/tools/test_choose.py does it on a file of its own"),
    Rule(r"dvc plots|dvc queue logs", r"\g<0> --help", "a group of commands, or one that wants a name"),
    Rule(r"dvc (push|pull)( --run-cache)?",
        r"dvc checkout --force && dvc remote add --force --default --local store ../store && dvc push\2 && dvc \1\2",
        "a remote that the reader has: a folder beside the project"),
]  # fmt: skip


def of(command: Command) -> Rule | None:
    """The first rule that fits, None for a command that runs as it is shown."""
    return next((one for one in TABLE if one.fits(command)), None)


def to_run(command: Command) -> str:
    rule = of(command)
    return re.sub(rule.shown, rule.run, command.shown, count=1) if rule else command.shown
