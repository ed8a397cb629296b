"""Module: reading and writing text, bytecode and portable artifacts, and its error messages."""

from pathlib import Path

import pytest
from composites_testing.passes import load

from lowering.stablehlo import (
    BytecodeError,
    Module,
    ParseError,
    VerificationError,
    VersionError,
    bindings,
    legalize_chlo,
)


def test_text_is_what_was_read() -> None:
    module = load("block")
    assert Module.parse(module.text).text == module.text
    assert module.name == "block"
    assert repr(module) == "Module(@block, 4 functions)"


def test_portable_artifact_comes_back_as_the_same_text(tmp_path: Path) -> None:
    """An artifact of a version that older releases read comes back, too."""
    module, path = load("block"), tmp_path / "out.mlirbc"
    for version in (None, "1.13.0"):
        module.write(path, portable=version)
        data = path.read_bytes()
        assert data == module.portable(version)
        assert bindings.artifact_version(data) == bindings.PORTABLE_VERSION == (1, 13, 0)
        assert Module.read(path).text == module.text
    assert b"composite_v2" not in data


def test_plain_bytecode_is_read(tmp_path: Path) -> None:
    module = load("block")
    with (tmp_path / "plain.bc").open("wb") as file:
        module.ir.operation.write_bytecode(file)
    assert Module.read(tmp_path / "plain.bc").text == module.text


def test_portable_legalizes_chlo_and_leaves_the_module_alone() -> None:
    module = Module.parse(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %0 = chlo.erf %x : tensor<2xf32> -> tensor<2xf32>\n"
        "  return %0 : tensor<2xf32>\n}"
    )
    assert Module.from_bytes(module.portable()).text == legalize_chlo(module).text
    assert "chlo.erf" in module.text


def test_malformed_text_names_line_and_column() -> None:
    text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %y : tensor<2xf32>\n}\n"
    with pytest.raises(ParseError) as caught:
        Module.parse(text, "step.mlir")
    assert str(caught.value) == (
        "step.mlir:2:10: use of undeclared SSA value name\n"
        "    return %y : tensor<2xf32>\n"
        "           ^"
    )
    assert (caught.value.line, caught.value.column) == (2, 10)
    for text in ("", " \n\n", "// a comment\n"):
        message = r"^step\.mlir:1:1: there is no module; the file or text"
        with pytest.raises(ParseError, match=message):
            Module.from_bytes(text.encode(), "step.mlir")


def test_newer_stablehlo_names_both_versions() -> None:
    newest = ".".join(map(str, bindings.current_version()))
    data = load("block").portable(newest)
    newer = data.replace(f"v{newest}".encode(), b"v9.99.0".ljust(len(newest) + 1, b"0"), 1)
    with pytest.raises(BytecodeError) as caught:
        Module.from_bytes(newer, "new.mlirbc")
    assert str(caught.value).startswith("new.mlirbc: written by StableHLO 9.99.0")
    assert f"the installed jaxlib reads up to {newest}; install a newer jaxlib" in str(caught.value)


def test_damaged_bytecode_is_an_error_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    for data, message in (
        (load("block").portable()[:80], "damaged or unreadable bytecode: "),
        (b"\x89PNG\r\n\xff\xfe", r"neither MLIR text nor MLIR bytecode \(it starts with"),
    ):
        with pytest.raises(BytecodeError, match=rf"^a\.mlirbc: .*{message}"):
            Module.from_bytes(data, "a.mlirbc")
    assert capfd.readouterr().err == ""


def test_impossible_versions_are_refused() -> None:
    for version, message in (
        ("latest", r"'latest' is not a StableHLO version; write it like '1\.\d+\.\d+'"),
        ("0.1.0", r"StableHLO 0\.1\.0 cannot be written; the installed jaxlib writes 0\.9\.0 to 1"),
        ("9.9.9", r"StableHLO 9\.9\.9 cannot be written"),
    ):
        with pytest.raises(VersionError, match=message):
            load("block").portable(version)


ACCURATE = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.exponential"(%x) {result_accuracy = #stablehlo.result_accuracy<
    mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32> }"""
SHARDED = """module { sdy.mesh @mesh = <["a"=2]>
  func.func @main(%x: tensor<2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>})
    -> tensor<2xf32> { return %x : tensor<2xf32> } }"""


TOO_NEW = {
    (ACCURATE, "1.0.0"): r"for StableHLO 1\.0\.0; it needs 1\.9\.0 or newer: portable='1\.9\.0', or"
    r" --portable 1\.9\.0; the first problem: operation vhlo\.exponential_v2",
    (ACCURATE.replace("f32", "f4E2M1FN"), "0.9.0"): r"for StableHLO 0\.9\.0; it needs 1\.9\.0",
    (SHARDED, "1.13.0"): r"no version that the installed jaxlib writes can hold it, up to"
    r" 1\.\d+\.\d+, so write text \(\.mlir\); the first problem: operation func\.func",
}


def test_what_a_version_cannot_hold() -> None:
    for (text, version), message in TOO_NEW.items():
        with pytest.raises(VersionError, match=message):
            Module.parse(text).portable(version)


def test_the_version_in_the_message_is_the_lowest_that_holds_the_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The default version is refused like any other."""
    module = Module.parse(ACCURATE)
    monkeypatch.setattr(bindings, "PORTABLE_VERSION", (1, 8, 9))
    with pytest.raises(VersionError, match=r"for StableHLO 1\.8\.9; it needs 1\.9\.0 or newer"):
        module.portable()
    assert Module.from_bytes(module.portable("1.9.0")).text == module.text


def test_verify_reports_a_broken_module() -> None:
    broken = load("block").copy_ir()
    list(broken.body.operations)[1].operation.erase()
    with pytest.raises(VerificationError, match=r"acme\.twice\.impl"):
        Module(broken).verify()
