"""The transport cost of a run: the distance of features, or the network that learns it on pairs made up at every step."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from vse_pipe.ranking.engine.words import Words
from vse_pipe.train.engine.data import Batch
from vse_pipe.train.engine.schedule import Moment, share
from vse_pipe.train.engine.scheme.scheme import Setting
from vse_pipe.train.schemes.l2rm.cost import CostNetwork, cosine_distance, supervised_cost

# A share of the batch that is put among foreign images, at most.
_KEPT = 0.1


class Costs:
    """captions: of a whole batch, what the network takes; queue: positions of the pairs whose images stand for foreign ones,
    those of the mismatched batch before."""

    def __init__(self, setting: Setting, kind: Literal["learned", "cosine"], lr: float, queue: np.ndarray) -> None:
        self.setting, self.learned, self.lr, self.queue = setting, kind == "learned", lr, queue
        self.captions = min(setting.train.batch_size, len(setting.pairs))
        self.network = CostNetwork(self.captions).to(setting.device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=lr)
        self._foreign: Tensor | None = None

    def start(self, at: Moment) -> None:
        """Before an epoch, for all of which the rate stays. The images of the queue are read anew, as other epochs may show
        them otherwise."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * share(self.setting.train, at)
        self._foreign = None

    @torch.no_grad()
    def of(self, scores: Tensor, images: Tensor, texts: Tensor | Words) -> Tensor:
        """Cost of each cell. scores: of images and texts."""
        return self.network(scores) if self.learned else cosine_distance(images, texts)

    def learn(self, matched: Batch, mismatched: Batch, epoch: int, rng: np.random.Generator) -> None:
        """One step on captions of matched pairs and the images of the queue, some of which are replaced by the captions'
        own; the queue is then that of ``mismatched``. The model takes no gradient and is in evaluation mode."""
        if not self.learned:
            return
        foreign = self._images(epoch).clone()
        count = int(rng.integers(1, max(1, int(_KEPT * self.captions)) + 1))
        count = min(count, len(matched.pairs), len(foreign))
        chosen = rng.choice(len(matched.pairs), count, replace=False)
        places = rng.choice(len(foreign), count, replace=False)
        foreign[places] = matched.features[chosen]
        matching = torch.zeros(len(foreign), len(matched.pairs), device=self.setting.device)
        matching[places, chosen] = 1.0
        scores = self._scores(Batch(foreign, matched.texts, matched.owners, matched.pairs))
        self.optimizer.zero_grad(set_to_none=True)
        supervised_cost(self.network(scores), matching).backward()
        self.optimizer.step()
        self.queue, self._foreign = mismatched.pairs, mismatched.features

    def _images(self, epoch: int) -> Tensor:
        if self._foreign is None:
            pixels_of = epoch if self.setting.model.trains_on_pixels else None
            (batch,) = self.setting.pairs.batches([self.queue], pixels_of)
            self._foreign = batch.features
        return self._foreign

    @torch.no_grad()
    def _scores(self, reconstructed: Batch) -> Tensor:
        model = self.setting.model
        was_training = model.training
        model.eval()
        images, texts = model.encode(reconstructed, self.setting.device, self.setting.train.precision)
        scores = model.score(images, texts)
        model.train(was_training)
        return scores

    def state(self) -> dict[str, Tensor]:
        names: dict[Tensor, str] = {parameter: name for name, parameter in self.network.named_parameters()}
        found = {f"network/{name}": weight.detach() for name, weight in self.network.state_dict().items()}
        for parameter, moments in self.optimizer.state.items():
            found |= {f"optimizer/{names[parameter]}/{key}": value for key, value in moments.items()}
        return found | {"queue": torch.from_numpy(self.queue)}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.queue = state["queue"].numpy().copy()
        self.network.load_state_dict(
            {name.removeprefix("network/"): t for name, t in state.items() if name.startswith("network/")}
        )
        places = {name: place for place, (name, _) in enumerate(self.network.named_parameters())}
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            if name.startswith("optimizer/"):
                _, owner, key = name.split("/")
                moments.setdefault(places[owner], {})[key] = tensor
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
