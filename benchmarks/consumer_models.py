"""Small models of many kinds, with random weights, for the matrix of consumers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.consumers import MODELS as NAMES
from benchmarks.training_models import ARCHITECTURES, BATCH, WIDTH, Architecture, Batch, Model, unet
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
    """A MobileNet with a smooth activation and large norms, for well conditioned gradients."""
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
    **{build.__name__: build for build in (mobilenet, lora_int8, stn, clip, segmentation)},
}
MODELS: Mapping[str, Callable[[], Model]] = {
    name: OWN.get(name) or partial(architecture, name) for name in NAMES
}
UNREAD = ("labels", "return_loss")
"""The arguments of a batch that inference does without."""


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
            if (value := getattr(result, name, None)) is not None:
                logits: Tensor = value
                return logits
        last: Tensor = result.last_hidden_state
        return last


def prediction(model: Model) -> tuple[nn.Module, dict[str, Any]]:
    """The module of inference, in evaluation, and its arguments."""
    # An encoder and decoder makes the decoder's tokens of the labels.
    batch = dict(model.batch)
    config = getattr(model.module, "config", None)
    decoded = getattr(config, "is_encoder_decoder", False)
    kept = {name: value for name, value in batch.items() if decoded or name not in UNREAD}
    return Prediction(model).eval(), kept
