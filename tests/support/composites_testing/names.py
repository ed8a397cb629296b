"""Entries that names of the allowlist turn on."""

GELU = {
    "ptxla.gelu", "ptxla.gelu_backward", "ptxla.new_gelu", "ptxla.fast_gelu", "ptxla.bloom_gelu",
    "ptxla.bloom_gelu_backward",
}  # fmt: skip
SILU = {"ptxla.silu", "ptxla.silu_backward"}
