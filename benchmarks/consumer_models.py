"""Small models of many kinds, with random weights, for the matrix of consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.consumers import MODELS as NAMES
from benchmarks.training_models import (
    ARCHITECTURES,
    BATCH,
    WIDTH,
    Architecture,
    Batch,
    Model,
    unet,
)
from benchmarks.unet import UNetBlock


def _images(size: int = 16) -> Batch:
    return {"image": torch.randn(BATCH, 3, size, size)}


def _squares(module: nn.Module, batch: Batch) -> Tensor:
    result: Tensor = module(**batch)
    return result.square().mean()


def architecture(name: str) -> Model:
    """A model of transformers without dropout. Its norms of batches learn."""
    model = ARCHITECTURES[name].build()
    return Model(model.module.train(name == "resnet"), model.batch, model.loss)


def clip() -> Model:
    """`return_loss` as a Python value: as a tensor the model would read it."""
    model = architecture("clip")
    return Model(model.module, {**model.batch, "return_loss": True}, model.loss)  # type: ignore[dict-item]


def mobilenet() -> Model:
    """With a smooth activation, and norms of enough elements, gradients are well conditioned."""
    model = Architecture(
        "encoder",
        "MobileNetV2ForImageClassification",
        {
            "image_size": 64,
            "num_labels": 5,
            "depth_multiplier": 0.25,
            "hidden_act": "silu",
            "classifier_dropout_prob": 0,
        },
        lambda: {"pixel_values": torch.randn(8, 3, 64, 64), "labels": torch.randint(5, (8,))},
    ).build()
    # Without statistics, norms leave so little of an image that inference gives zeros.
    with torch.no_grad():
        model.module(**model.batch)
    return model


class RecommendationNet(nn.Module):
    """DLRM: dense features, embeddings of categories, and the products of all pairs."""

    pairs: Tensor

    def __init__(self, categories: int = 3, width: int = 16) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20, width) for _ in range(categories))
        self.dense = nn.Sequential(nn.Linear(8, width), nn.ReLU())
        self.register_buffer("pairs", torch.tril_indices(categories + 1, categories + 1, -1))
        count = categories * (categories + 1) // 2
        self.top = nn.Sequential(nn.Linear(width + count, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, dense: Tensor, categories: Tensor) -> Tensor:
        x = self.dense(dense)
        rows = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        every = torch.stack([x, *rows], 1)
        products = every @ every.transpose(1, 2)
        interactions = products[:, self.pairs[0], self.pairs[1]]
        result: Tensor = self.top(torch.cat([x, interactions], 1))[:, 0]
        return result


def dlrm() -> Model:
    def loss(module: nn.Module, batch: Batch) -> Tensor:
        clicks = batch["dense"][:, 0].gt(0).float()
        return functional.binary_cross_entropy_with_logits(module(**batch), clicks)

    batch = {"dense": torch.randn(4, 8), "categories": torch.randint(20, (4, 3))}
    return Model(RecommendationNet(), batch, loss)


class GraphNet(nn.Module):
    """Two rounds of messages along edges, added up at their ends."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.message = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))
        self.update = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        for message, update in zip(self.message, self.update, strict=True):
            ends = torch.cat([nodes[edges[0]], nodes[edges[1]]], -1)
            sums = torch.zeros_like(nodes).index_add(0, edges[1], torch.relu(message(ends)))
            nodes = nodes + update(torch.cat([nodes, sums], -1)).tanh()
        return nodes


def gnn() -> Model:
    batch = {"nodes": torch.randn(10, 16), "edges": torch.randint(10, (2, 24))}
    return Model(GraphNet(), batch, _squares)


class LowRankLinear(nn.Module):
    """LoRA: a frozen weight of int8 with a scale for each row, and a product that learns."""

    weight: Tensor
    scale: Tensor

    def __init__(self, width: int, rank: int = 4) -> None:
        super().__init__()
        weight = torch.randint(-127, 128, (width, width), dtype=torch.int8)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", torch.rand(width) / 1000)
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        frozen = functional.linear(x, self.weight.to(x.dtype) * self.scale[:, None])
        result: Tensor = frozen + self.up(self.down(x))
        return result


def lora_int8() -> Model:
    module = nn.Sequential(LowRankLinear(WIDTH), nn.GELU(), LowRankLinear(WIDTH))
    return Model(module, {"input": torch.randn(4, WIDTH)}, _squares)


class Adversaries(nn.Module):
    """A GAN: images of noise, and what the discriminator says of them."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(width, width, 4),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1),
            nn.Tanh(),
        )
        self.discriminator = nn.Sequential(
            nn.Conv2d(3, width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 1, 4),
        )

    def forward(self, noise: Tensor) -> Tensor:
        result: Tensor = self.discriminator(self.generator(noise)).flatten(1)
        return result


def gan() -> Model:
    def loss(module: nn.Module, batch: Batch) -> Tensor:
        return functional.softplus(-module(**batch)).mean()

    return Model(Adversaries(), {"noise": torch.randn(BATCH, 8, 1, 1)}, loss)


class SpatialTransformer(nn.Module):
    """An image, sampled where a small net says (grid_sample)."""

    def __init__(self) -> None:
        super().__init__()
        self.localize = nn.Sequential(
            nn.Conv2d(3, 4, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(4 * 8 * 8, 6),
        )
        self.classify = nn.Linear(3 * 16 * 16, 5)

    def forward(self, image: Tensor) -> Tensor:
        theta = torch.eye(2, 3, device=image.device) + self.localize(image).unflatten(1, (2, 3))
        grid = functional.affine_grid(theta, list(image.shape), align_corners=False)
        sampled = functional.grid_sample(image, grid, align_corners=False)
        result: Tensor = self.classify(sampled.flatten(1))
        return result


def stn() -> Model:
    return Model(SpatialTransformer(), _images(), _squares)


class PhysicsNet(nn.Module):
    """A PINN of the equation u'' = -u: what the second derivative leaves of it."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        with torch.enable_grad():  # type: ignore[no-untyped-call]
            x = x.detach().requires_grad_()
            u = self.net(x)
            (first,) = torch.autograd.grad(u.sum(), x, create_graph=True)
            (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
        result: Tensor = second + u
        return result


def pinn() -> Model:
    return Model(PhysicsNet(), {"x": torch.rand(8, 1)}, _squares)


class Recurrent(nn.Module):
    """A GRU over tokens."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.table = nn.Embedding(20, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = self.head(self.gru(self.table(tokens))[0])
        return result


def gru() -> Model:
    def loss(module: nn.Module, batch: Batch) -> Tensor:
        return functional.cross_entropy(module(**batch).flatten(0, 1), batch["tokens"].flatten())

    return Model(Recurrent(), {"tokens": torch.randint(20, (BATCH, 8))}, loss)


class DiffusionStep(nn.Module):
    """One step of a diffusion: noise is added by a schedule, and the net says which."""

    kept: Tensor

    def __init__(self, channels: int = 16, steps: int = 50) -> None:
        super().__init__()
        self.register_buffer("kept", (1 - torch.linspace(1e-4, 0.02, steps)).cumprod(0))
        self.times = nn.Embedding(steps, channels)
        self.net = UNetBlock(channels)

    def forward(self, image: Tensor, noise: Tensor, time: Tensor) -> Tensor:
        kept = self.kept[time][:, None, None, None]
        noisy = kept.sqrt() * image + (1 - kept).sqrt() * noise
        found: Tensor = self.net(noisy, self.times(time))
        return functional.avg_pool2d(found, 2)


def diffusion() -> Model:
    def loss(module: nn.Module, batch: Batch) -> Tensor:
        return functional.mse_loss(module(**batch), batch["noise"])

    image, noise = torch.randn(2, BATCH, 16, 8, 8)
    batch = {"image": image, "noise": noise, "time": torch.randint(50, (BATCH,))}
    return Model(DiffusionStep().eval(), batch, loss)


def unet_without_dropout() -> Model:
    model = unet()
    return Model(model.module.eval(), model.batch, model.loss)


class SegmentationNet(nn.Module):
    """Classes of pixels, from half the size, upsampled both ways that `interpolate` aligns."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.up = nn.Conv2d(16, classes, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        x = functional.gelu(self.down(image))
        y = functional.gelu(self.middle(x))
        y = functional.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=True)
        z = self.up(torch.cat([x, y], 1))
        return functional.interpolate(z, size=image.shape[-2:], mode="bilinear")


def segmentation() -> Model:
    def loss(module: nn.Module, batch: Batch) -> Tensor:
        return functional.cross_entropy(module(**batch), batch["image"].argmax(1))

    return Model(SegmentationNet(), _images(), loss)


OWN: Mapping[str, Callable[[], Model]] = {
    "unet": unet_without_dropout,
    **{
        function.__name__: function
        for function in (
            *(mobilenet, dlrm, gnn, lora_int8, gan, stn, pinn, clip, gru, diffusion, segmentation),
        )
    },
}
MODELS: Mapping[str, Callable[[], Model]] = {
    name: OWN.get(name) or partial(architecture, name) for name in NAMES
}
UNREAD = ("labels", "return_loss")
"""Of a batch, what inference does without."""


class Prediction(nn.Module):
    """A model as a module that returns one tensor: what it predicts."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.module = model.module

    def forward(self, **batch: Any) -> Tensor:
        if isinstance(self.module, UNetBlock):
            batch.pop("noise", None)
        result = self.module(**batch)
        if isinstance(result, Tensor):
            return result
        for name in ("logits", "logits_per_image"):
            if (found := getattr(result, name, None)) is not None:
                logits: Tensor = found
                return logits
        last: Tensor = result.last_hidden_state
        return last


def prediction(model: Model) -> tuple[nn.Module, dict[str, Any]]:
    """The module of inference, in evaluation, and its arguments."""
    # An encoder and decoder makes the decoder's tokens of the labels.
    given = dict(model.batch)
    config = getattr(model.module, "config", None)
    decoded = getattr(config, "is_encoder_decoder", False)
    kept = {name: value for name, value in given.items() if decoded or name not in UNREAD}
    return Prediction(model).eval(), kept
