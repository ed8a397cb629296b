"""Small models with random weights, a batch and a loss: those of the transformers library, and a
U-Net block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from torch import Tensor, nn

from benchmarks.unet import unet as unet_step

BATCH, LENGTH, VOCABULARY, WIDTH = 2, 16, 128, 64
Kind = Literal["decoder", "encoder", "state space"]
Batch = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Model:
    """A module, what it is trained on, and its loss."""

    module: nn.Module
    batch: Batch
    loss: Callable[[nn.Module, Batch], Tensor]


class Step(nn.Module):
    """A model as a module that returns its loss."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.module, self._loss = model.module, model.loss

    def forward(self, **batch: Any) -> Tensor:
        return self._loss(self.module, batch)


def _tokens() -> Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, LENGTH))


def tokens_to_themselves() -> Batch:
    tokens = _tokens()
    return {"input_ids": tokens, "labels": tokens}


def images() -> Batch:
    return {"pixel_values": torch.randn(BATCH, 3, 32, 32)}


def images_of_classes() -> Batch:
    return {**images(), "labels": torch.randint(5, (BATCH,))}


def images_with_text() -> Batch:
    return {**images(), "input_ids": _tokens(), "return_loss": torch.tensor(True)}


def waves() -> Batch:
    return {"input_values": torch.randn(BATCH, 800)}


def spectra_to_tokens() -> Batch:
    return {"input_features": torch.randn(BATCH, 16, 2 * LENGTH), "labels": _tokens()}


BATCHES: Mapping[str, Callable[[], Batch]] = {
    function.__name__: function
    for function in (
        *(tokens_to_themselves, images, images_of_classes, images_with_text),
        *(waves, spectra_to_tokens),
    )
}
LARGER: Mapping[str, int] = {
    "vocab_size": 8192,
    "hidden_size": 256,
    "intermediate_size": 512,
}
"""The models in which attention and losses take as long as what surrounds them."""
LARGER_LENGTH = 256


def transformers_model(name: str, **settings: Any) -> nn.Module:
    """A model of transformers with random weights, by the name of its class."""
    import transformers

    made = getattr(transformers, name)
    module: nn.Module = made(made.config_class(**settings))
    return module


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model of transformers: the name of its class, and the settings of its config."""

    kind: Kind
    module: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    batch: Callable[[], Batch] = tokens_to_themselves

    def build(self) -> Model:
        """The model with random weights, in training."""
        module = transformers_model(self.module, **{**SIZES, **self.settings})
        return Model(module, self.batch(), _loss)

    def build_larger(self) -> Model:
        """The model with LARGER sizes, for models of text."""
        assert self.batch is tokens_to_themselves
        # RoBERTa counts positions from behind the number of its padding token.
        positions = {"max_position_embeddings": LARGER_LENGTH + 2}
        larger = replace(self, settings={**self.settings, **LARGER, **positions})
        tokens = torch.randint(3, LARGER["vocab_size"], (BATCH, LARGER_LENGTH))
        return replace(larger.build(), batch={"input_ids": tokens, "labels": tokens})


def _loss(module: nn.Module, batch: Batch) -> Tensor:
    """The model's own loss, or, for a model that has none, the mean square of half its output.

    After a norm, the mean square of all of it would be a constant.
    """
    result = module(**batch)
    loss: Tensor | None = getattr(result, "loss", None)
    if loss is None:
        loss = result.last_hidden_state.chunk(2, -1)[0].square().mean()
    return loss


def _architecture(kind: Kind, row: Mapping[str, Any]) -> Architecture:
    """The architecture of a row of training_models.yaml."""
    return Architecture(
        kind,
        row["name"] + row.get("head", "ForCausalLM"),
        row.get("settings", {}),
        BATCHES[row.get("batch", "tokens_to_themselves")],
    )


_ROWS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
SIZES: Mapping[str, Any] = _ROWS["sizes"]
"""Settings of all configs that do not have others."""
KINDS: tuple[Kind, ...] = ("decoder", "encoder", "state space")
ARCHITECTURES: Mapping[str, Architecture] = {
    name: _architecture(kind, row) for kind in KINDS for name, row in _ROWS[kind].items()
}


def unet() -> Model:
    module, batch = unet_step(WIDTH, 8, BATCH)
    return Model(module, batch, lambda module, batch: module(**batch))


MODELS: Mapping[str, Callable[[], Model]] = {
    **{name: architecture.build for name, architecture in ARCHITECTURES.items()},
    "unet": unet,
}
