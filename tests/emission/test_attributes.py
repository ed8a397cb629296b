"""Python values as MLIR text: each type, and the values that text makes hard."""

import itertools
import math

import pytest
import torch

from composites import attribute_types as attr

KEYS = [0, False, 0.0, -0.0, 1, True, 1.0, math.nan, -math.nan, "nan", None]
TEXTS = [
    (attr.i64(-1), "-1 : i64"),
    (attr.i64(True), "1 : i64"),
    (attr.i64(2.0), "2 : i64"),
    (attr.i32(7), "7 : i32"),
    (attr.f32(1), "1.0 : f32"),
    (attr.f32(1e-5), "1.0e-5 : f32"),
    (attr.f32(0.1), "0.1 : f32"),
    (attr.f32(-0.0), "-0.0 : f32"),
    (attr.f32(math.inf), "0x7F800000 : f32"),
    (attr.f32(-math.inf), "0xFF800000 : f32"),
    (attr.f32(1e300), "0x7F800000 : f32"),
    (attr.f64(1e300), "1.0e+300 : f64"),
    (attr.f64(math.inf), "0x7FF0000000000000 : f64"),
    (attr.boolean(True), "true"),
    (attr.boolean(0), "false"),
    (attr.string("none"), '"none"'),
    (attr.string('a"b\\c\n\x00é'), '"a\\22b\\5Cc\\0A\\00\\C3\\A9"'),
    (attr.i64_list([1, -2]), "dense<[1, -2]> : tensor<2xi64>"),
    (attr.i64_list([]), "dense<> : tensor<0xi64>"),
    (attr.f32_list([1, 0.5]), "dense<[1.0, 0.5]> : tensor<2xf32>"),
    (attr.boolean_list([True, False, 1]), "dense<[true, false, true]> : tensor<3xi1>"),
    (attr.boolean_list([]), "dense<> : tensor<0xi1>"),
    (attr.string(attr.element_type(torch.bfloat16)), '"bf16"'),
    (attr.mlir_type(attr.element_type(torch.bfloat16)), "bf16"),
    (attr.mlir_type("f4E2M1FN"), "f4E2M1FN"),
    (attr.array(attr.i32)([1, -2]), "[1 : i32, -2 : i32]"),
    (attr.array(attr.i32)([]), "[]"),
    (attr.array(attr.string)(["a", "b"]), '["a", "b"]'),
    (attr.array(attr.i64_list)([[1], []]), "[dense<[1]> : tensor<1xi64>, dense<> : tensor<0xi64>]"),
    (attr.array(attr.array(attr.i64))([[1], []]), "[[1 : i64], []]"),
]


def test_text() -> None:
    assert [written for written, _ in TEXTS] == [expected for _, expected in TEXTS]


def test_mlir_reads_every_text_back() -> None:
    from jaxlib.mlir import ir

    with ir.Context():
        for written, _ in TEXTS:
            assert ir.Attribute.parse(written) is not None
        value = ir.FloatAttr(ir.Attribute.parse(attr.f32(0.1))).value
        assert value == pytest.approx(0.1, abs=1e-8)
        text = 'a"b\\c\n\x00é'
        assert ir.StringAttr(ir.Attribute.parse(attr.string(text))).value_bytes == text.encode()


def test_values_that_are_not_of_the_type() -> None:
    for value in (2**63, 0.5, math.nan, "x", None, 1j):
        with pytest.raises(attr.UnsupportedValueError):
            attr.i64(value)
    for value in (1j, "x", None, 10**400):
        with pytest.raises(attr.UnsupportedValueError):
            attr.f32(value)


DTYPES = {
    torch.float64: "f64", torch.uint8: "ui8", torch.bool: "i1", torch.float8_e4m3fn: "f8E4M3FN",
    torch.uint16: "ui16", torch.complex64: "complex<f32>",
}  # fmt: skip


def test_dtypes_are_named_as_stablehlo_names_them() -> None:
    assert {dtype: attr.element_type(dtype) for dtype in DTYPES} == DTYPES


def test_a_dtype_that_no_composite_has() -> None:
    with pytest.raises(attr.UnsupportedValueError, match=r"torch\.complex32 is not an element"):
        attr.element_type(torch.complex32)


def test_dimensions_count_from_the_front() -> None:
    assert [attr.dim(d, 3) for d in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    assert attr.dim(-1, 0) == 0
    assert attr.dims([-1, 0], 4) == [3, 0]


def test_dictionary_is_sorted_and_leaves_out_what_is_absent() -> None:
    written = attr.dictionary({"b": attr.i64(1), "a": attr.boolean(True), "c": None})
    assert written == "{a = true, b = 1 : i64}"
    assert attr.dictionary({}) == "{}"


def test_lists_of_tensors() -> None:
    vector, matrix = torch.ones(2), torch.ones(2, 3)
    assert (attr.rank(matrix), attr.rank([vector, matrix]), attr.rank([])) == (2, 2, 0)
    assert attr.segment_sizes(matrix, [vector, matrix], None, ()) == (
        "dense<[1, 2, -1, 0]> : tensor<4xi64>"
    )
    assert attr.segment_sizes_of_lists(matrix, None) is None
    assert attr.segment_sizes_of_lists(matrix, (vector,)) == "dense<[1, 1]> : tensor<2xi64>"


def test_keys_of_values() -> None:
    for first, second in itertools.product(KEYS, KEYS):
        assert (attr.key_of(first) == attr.key_of(second)) == (first is second), (first, second)
        assert hash(attr.key_of(first)) == hash(attr.key_of(first))
    assert attr.key_of(float("nan")) == attr.key_of(float("nan"))
