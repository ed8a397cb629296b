"""Small models with random weights, a batch and a loss: those of the transformers library, and a
U-Net block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.unet import UNetBlock

BATCH, LENGTH, VOCABULARY, WIDTH, HEADS = 2, 16, 128, 64, 4
Kind = Literal["decoder", "encoder", "state space"]
Batch = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Model:
    """A module, what it is trained on, and its loss."""

    module: nn.Module
    batch: Batch
    loss: Callable[[nn.Module, Batch], Tensor]


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model of transformers: the names of its classes, and what differs from SIZES."""

    kind: Kind
    config: str
    module: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    batch: Callable[[], Batch] | None = None

    def build(self) -> Model:
        """The model with random weights, in training."""
        import transformers

        config = getattr(transformers, self.config)(**{**SIZES, **self.settings})
        module = getattr(transformers, self.module)(config)
        return Model(module, (self.batch or _tokens_to_themselves)(), _loss)

    def build_larger(self) -> Model:
        """The same with LARGER sizes, for models of text."""
        assert self.batch is None
        # RoBERTa counts positions from behind the number of its padding token.
        positions = {"max_position_embeddings": LARGER_LENGTH + 2}
        larger = replace(self, settings={**self.settings, **LARGER, **positions})
        tokens = torch.randint(3, LARGER["vocab_size"], (BATCH, LARGER_LENGTH))
        return replace(larger.build(), batch={"input_ids": tokens, "labels": tokens})


SIZES: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "intermediate_size": 2 * WIDTH,
    "max_position_embeddings": 4 * LENGTH,
    "use_cache": False,
    "experts_implementation": "batched_mm",  # stock torch_xla runs no other one
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
"""What most configs understand. A config keeps what it does not know without using it."""


LARGER: Mapping[str, int] = {
    "vocab_size": 8192,
    "hidden_size": 256,
    "intermediate_size": 512,
}
"""Where attention and losses take as long as what surrounds them."""
LARGER_LENGTH = 256


def _loss(module: nn.Module, batch: Batch) -> Tensor:
    """The model's own loss, or, for a model that has none, the mean square of half its output.

    After a norm, the mean square of all of it would be a constant.
    """
    result = module(**batch)
    loss: Tensor | None = getattr(result, "loss", None)
    if loss is None:
        loss = result.last_hidden_state.chunk(2, -1)[0].square().mean()
    return loss


def _tokens() -> Tensor:
    return torch.randint(3, VOCABULARY, (BATCH, LENGTH))


def _tokens_to_themselves() -> Batch:
    tokens = _tokens()
    return {"input_ids": tokens, "labels": tokens}


def _images() -> Batch:
    return {"pixel_values": torch.randn(BATCH, 3, 32, 32)}


def _images_of_classes() -> Batch:
    return {**_images(), "labels": torch.randint(5, (BATCH,))}


def _images_with_text() -> Batch:
    return {**_images(), "input_ids": _tokens(), "return_loss": torch.tensor(True)}


def _waves() -> Batch:
    return {"input_values": torch.randn(BATCH, 800)}


def _spectra_to_tokens() -> Batch:
    return {"input_features": torch.randn(BATCH, 16, 2 * LENGTH), "labels": _tokens()}


def _decoder(name: str, **settings: Any) -> Architecture:
    return Architecture("decoder", f"{name}Config", f"{name}ForCausalLM", settings)


def _state_space(name: str, **settings: Any) -> Architecture:
    return Architecture("state space", f"{name}Config", f"{name}ForCausalLM", settings)


def _encoder(
    name: str, module: str, batch: Callable[[], Batch] | None = None, **settings: Any
) -> Architecture:
    return Architecture("encoder", f"{name}Config", f"{name}{module}", settings, batch)


_HEADS = {"head_dim": WIDTH // HEADS}
_EXPERTS = {"num_experts": 4, "num_local_experts": 4, "moe_intermediate_size": WIDTH}
_IMAGES = {"image_size": 32, "patch_size": 8, "num_labels": 5}
_CONVOLUTIONS = {
    "conv_dim": [32, 32],
    "conv_kernel": [10, 3],
    "conv_stride": [5, 2],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "num_feat_extract_layers": 2,
    "mask_time_prob": 0.0,
}
_ENCODER_DECODER: dict[str, Any] = {
    "d_model": WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 2 * WIDTH,
    "decoder_ffn_dim": 2 * WIDTH,
    "decoder_start_token_id": 1,
}

ARCHITECTURES: Mapping[str, Architecture] = {
    "gpt2": Architecture("decoder", "GPT2Config", "GPT2LMHeadModel"),
    "gpt_neo": _decoder("GPTNeo", attention_types=[[["global", "local"], 1]]),
    "gpt_neox": _decoder("GPTNeoX"),
    "gptj": _decoder("GPTJ", rotary_dim=8),
    "codegen": _decoder("CodeGen", rotary_dim=8),
    "gpt_bigcode": _decoder("GPTBigCode"),
    "gpt_oss": _decoder("GptOss", **_HEADS, **_EXPERTS),
    "opt": _decoder("OPT", ffn_dim=2 * WIDTH, word_embed_proj_dim=WIDTH),
    "bloom": _decoder("Bloom"),
    "mpt": _decoder("Mpt"),
    "falcon": _decoder("Falcon"),
    "falcon_alibi": _decoder("Falcon", alibi=True),
    "llama": _decoder("Llama"),
    "mistral": _decoder("Mistral"),
    "mixtral": _decoder("Mixtral", **_EXPERTS),
    "qwen2": _decoder("Qwen2"),
    "qwen2_moe": _decoder(
        "Qwen2Moe", **_EXPERTS, num_experts_per_tok=2, shared_expert_intermediate_size=WIDTH
    ),
    "qwen3": _decoder("Qwen3", **_HEADS),
    "qwen3_moe": _decoder("Qwen3Moe", **_HEADS, **_EXPERTS, num_experts_per_tok=2),
    "gemma": _decoder("Gemma", **_HEADS),
    "gemma2": _decoder("Gemma2", **_HEADS),
    "gemma3": Architecture("decoder", "Gemma3TextConfig", "Gemma3ForCausalLM", _HEADS),
    "phi": _decoder("Phi"),
    "phi3": _decoder("Phi3"),
    "olmo": _decoder("Olmo"),
    "olmo2": _decoder("Olmo2"),
    "olmoe": _decoder("Olmoe", **_EXPERTS, num_experts_per_tok=2),
    "starcoder2": _decoder("Starcoder2"),
    "stablelm": _decoder("StableLm"),
    "cohere": _decoder("Cohere"),
    "granite": _decoder("Granite"),
    "nemotron": _decoder("Nemotron"),
    "persimmon": _decoder("Persimmon"),
    "deepseek_v3": _decoder(
        "DeepseekV3",
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        moe_intermediate_size=WIDTH,
        first_k_dense_replace=1,
        kv_lora_rank=16,
        q_lora_rank=16,
        qk_nope_head_dim=16,
        qk_rope_head_dim=16,
        v_head_dim=16,
        num_key_value_heads=HEADS,
    ),
    "glm4": _decoder("Glm4", **_HEADS),
    "bert": _encoder("Bert", "ForMaskedLM"),
    "roberta": _encoder("Roberta", "ForMaskedLM", type_vocab_size=2),
    "distilbert": _encoder("DistilBert", "ForMaskedLM", n_layers=2, hidden_dim=2 * WIDTH),
    "electra": _encoder("Electra", "ForMaskedLM", embedding_size=WIDTH),
    "albert": _encoder("Albert", "ForMaskedLM", embedding_size=WIDTH),
    "deberta_v2": _encoder("DebertaV2", "ForMaskedLM", relative_attention=True),
    "modernbert": _encoder("ModernBert", "ForMaskedLM", cls_token_id=1, sep_token_id=2),
    "vit": _encoder(
        "ViT",
        "ForImageClassification",
        _images_of_classes,
        **_IMAGES,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
    ),
    "deit": _encoder("DeiT", "ForImageClassification", _images_of_classes, **_IMAGES),
    "swin": _encoder(
        "Swin",
        "ForImageClassification",
        _images_of_classes,
        **{**_IMAGES, "patch_size": 4},
        embed_dim=32,
        depths=[2, 2],
        num_attention_heads=[2, 4],
        window_size=4,
    ),
    "convnext": _encoder(
        "ConvNext",
        "ForImageClassification",
        _images_of_classes,
        num_labels=5,
        num_stages=2,
        hidden_sizes=[32, 64],
        depths=[2, 2],
    ),
    "resnet": _encoder(
        "ResNet",
        "ForImageClassification",
        _images_of_classes,
        num_labels=5,
        embedding_size=32,
        hidden_sizes=[64, 64],
        depths=[2, 2],
    ),
    "dinov2": _encoder("Dinov2", "ForImageClassification", _images_of_classes, **_IMAGES),
    "siglip": _encoder("SiglipVision", "Model", _images, **_IMAGES),
    "clip": _encoder(
        "CLIP",
        "Model",
        _images_with_text,
        text_config=SIZES,
        vision_config={**SIZES, **_IMAGES},
        projection_dim=WIDTH,
    ),
    "wav2vec2": _encoder("Wav2Vec2", "Model", _waves, **_CONVOLUTIONS),
    "hubert": _encoder("Hubert", "Model", _waves, **_CONVOLUTIONS),
    "whisper": _encoder(
        "Whisper",
        "ForConditionalGeneration",
        _spectra_to_tokens,
        **_ENCODER_DECODER,
        num_mel_bins=16,
        max_source_positions=LENGTH,
        max_target_positions=LENGTH,
    ),
    "t5": _encoder(
        "T5",
        "ForConditionalGeneration",
        d_kv=WIDTH // HEADS,
        d_ff=2 * WIDTH,
        num_layers=2,
        decoder_start_token_id=1,
    ),
    "bart": _encoder("Bart", "ForConditionalGeneration", **_ENCODER_DECODER),
    "detr": _encoder(
        "Detr",
        "Model",
        _images,
        **_ENCODER_DECODER,
        num_queries=5,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config={
            "model_type": "resnet",
            "embedding_size": 32,
            "hidden_sizes": [64, 64],
            "depths": [1, 1],
            "out_features": ["stage2"],
        },
    ),
    "mamba": _state_space("Mamba", state_size=8),
    "mamba2": _state_space(
        "Mamba2", state_size=8, head_dim=16, num_heads=8, n_groups=2, chunk_size=8
    ),
    "falcon_mamba": _state_space("FalconMamba", state_size=8),
    "recurrent_gemma": _state_space("RecurrentGemma", num_hidden_layers=3),
    "rwkv": _state_space("Rwkv", attention_hidden_size=WIDTH),
}


def unet() -> Model:
    def loss(module: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        return functional.mse_loss(module(batch["sample"], batch["time"]), batch["noise"])

    sample = torch.randn(BATCH, WIDTH, 8, 8)
    batch = {
        "sample": sample,
        "time": torch.randn(BATCH, WIDTH),
        "noise": torch.randn(BATCH, WIDTH, 16, 16),
    }
    return Model(UNetBlock(WIDTH), batch, loss)


MODELS: Mapping[str, Callable[[], Model]] = {
    **{name: architecture.build for name, architecture in ARCHITECTURES.items()},
    "unet": unet,
}
