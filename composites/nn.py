"""Helpers for training: gradients accumulated in f32."""

from lowering.gradient_accumulation import MainParameters, accumulate_gradients_in_fp32

__all__ = ["MainParameters", "accumulate_gradients_in_fp32"]
