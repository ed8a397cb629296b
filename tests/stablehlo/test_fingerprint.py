"""fingerprint: a hash of what a decomposition is, and of nothing else."""

from composites_testing.passes import DATA

from lowering.stablehlo import Module
from lowering.stablehlo.composites import find_composites, fingerprint

TEXT = (DATA / "nested_sine.mlir").read_text()


def outer_fingerprint(text: str) -> str:
    module = Module.parse(text)
    return fingerprint(module, find_composites(module.ir)[0])


def test_names_locations_and_the_rest_of_the_module_do_not_matter() -> None:
    expected = outer_fingerprint(TEXT)
    assert expected.startswith("sha256:")
    renamed = TEXT.replace("@outer", '@"outer.impl-7"').replace("@inner", "@outer")
    assert outer_fingerprint(renamed) == expected
    located = TEXT.replace("sine %z : tensor<2xf32>", 'sine %z : tensor<2xf32> loc("a.py":1:2)')
    assert outer_fingerprint(located) == expected
    more = TEXT.replace("return %0", "%1 = stablehlo.cosine %x : tensor<2xf32>\n  return %0", 1)
    assert outer_fingerprint(more) == expected


def test_what_it_computes_matters_however_deep_it_is() -> None:
    expected = outer_fingerprint(TEXT)
    assert outer_fingerprint(TEXT.replace("stablehlo.sine", "stablehlo.cosine")) != expected
    assert outer_fingerprint(TEXT.replace('"a.inner"', '"a.other"')) != expected
    assert outer_fingerprint(TEXT.replace("2xf32", "3xf32")) != expected
