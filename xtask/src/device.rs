//! The step `device`: the sensor's side in C, for Arduino, and on an emulated Cortex-M4.

use crate::child::{cargo, pass, target_folder};
use crate::steps::ensure_target;
use crate::summary::{Outcome, outcome};
use crate::tools::{bring, on_path};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A microcontroller of the kind that sensors have: Cortex-M4, without the standard library.
const SENSOR: &str = "thumbv7em-none-eabi";

/// The library for programs in C.
pub(crate) const GLUE: &str = "glue/c/Cargo.toml";
/// The programs for the microcontroller.
pub(crate) const BOARD: &str = "glue/cortex-m4/Cargo.toml";

/// The emulator of the microcontroller, and its Debian package.
const EMULATOR: &str = "qemu-system-arm";

pub(crate) fn step(root: &Path) -> Outcome {
    if let Err(why) = programs_in_c(root).and_then(|()| sketch(root)) {
        return Outcome::Failed(why);
    }
    if let Err(why) = ensure_target(root, SENSOR) {
        return Outcome::NotRun(why);
    }
    let built =
        pass(cargo(root).args(["build", "--release", "--lib", "--target", SENSOR, "--package", "tobari-device"]))
            .and_then(|()| pass(glue(root, GLUE, "build").args(["--release", "--target", SENSOR])))
            .and_then(|()| pass(glue(root, BOARD, "clippy").args(["--target", SENSOR, "--", "-D", "warnings"])))
            .and_then(|()| {
                pass(glue(root, BOARD, "build").args(["--release", "--target", SENSOR, "--features", "factory"]))
            });
    if let Err(why) = built {
        return Outcome::Failed(why);
    }
    match on_path(EMULATOR).map_or_else(|| bring(EMULATOR), |_| Ok(true)) {
        Ok(true) => outcome(on_the_board(root)),
        Err(why) => Outcome::NotRun(format!("{EMULATOR}: {why}")),
        Ok(false) => Outcome::NotRun(format!("{EMULATOR} is not on PATH (Debian: apt-get install {EMULATOR})")),
    }
}

/// A cargo command on one of the two workspaces.
fn glue(root: &Path, manifest: &str, verb: &str) -> Command {
    let mut command = cargo(root);
    command.args([verb, "--locked", "--manifest-path", manifest]);
    command.env("CARGO_TARGET_DIR", folder(root));
    command
}

fn folder(root: &Path) -> PathBuf {
    target_folder(root).join("glue")
}

fn library(root: &Path) -> PathBuf {
    folder(root).join("release/libtobari_device_c.a")
}

/// Links programs in C with the library for this machine, and compares their frames with the
/// vectors.
fn programs_in_c(root: &Path) -> Result<(), String> {
    pass(glue(root, GLUE, "clippy").args(["--", "-D", "warnings"]))?;
    pass(glue(root, GLUE, "build").arg("--release"))?;
    let built = |source: &str| compiled(root, "cc", "-std=c11", source);
    let vectors = ["v1", "v2"].map(|version| root.join("vectors/device").join(version).join("frames.txt"));
    pass(Command::new(built("tests/vectors.c")?).args(&vectors))?;
    sealed_in_c(&built("example/seal.c")?, &folder(root).join("example"), &vectors[0])
}

/// The sketch for Arduino, with a stand-in for the core of a board.
fn sketch(root: &Path) -> Result<(), String> {
    if on_path("c++").is_none() && !bring("g++")? {
        return Err("the sketch needs a C++ compiler: c++ is not on PATH (Debian: apt-get install g++)".to_owned());
    }
    pass(&mut Command::new(compiled(root, "c++", "-std=c++17", "tests/arduino/main.cpp")?))
}

/// The program of a source file of `glue/c`.
fn compiled(root: &Path, compiler: &str, standard: &str, source: &str) -> Result<PathBuf, String> {
    let program = folder(root).join(source.replace(['/', '.'], "-"));
    let mut compiler = Command::new(compiler);
    compiler.current_dir(root.join("glue/c"));
    compiler.args([standard, "-O2", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-Itests/arduino", source]);
    compiler.arg(library(root)).arg("-o").arg(&program).args(["-lpthread", "-ldl", "-lm"]);
    pass(&mut compiler).map(|()| program)
}

/// Checks that the example makes the frame of the first vector of its profile, and counts.
fn sealed_in_c(program: &Path, folder: &Path, vectors: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("the example in C: {error}");
    std::fs::create_dir_all(folder).map_err(failed)?;
    for (name, bytes) in [("root", &[0; 32][..]), ("counter", b"0\n"), ("readings", &[0; 256])] {
        std::fs::write(folder.join(name), bytes).map_err(failed)?;
    }
    pass(Command::new(program).current_dir(folder).args(["root", "0", "counter", "readings", "frame"]))?;
    let read = |name: &str| std::fs::read(folder.join(name)).map_err(failed);
    let found: String = read("frame")?.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = std::fs::read_to_string(vectors).map_err(failed)?;
    let vector = text.lines().find(|line| line.starts_with("U25 ")).and_then(|line| line.rsplit(' ').next());
    if vector != Some(&found) || read("counter")? != b"64\n" {
        return Err("the example in C: expected the frame of the vector and a counter of 64, found others".to_owned());
    }
    Ok(())
}

/// Runs both programs on the emulated board, and looks for divisions in their code.
fn on_the_board(root: &Path) -> Result<(), String> {
    let programs = ["sensor", "count"].map(|name| folder(root).join(SENSOR).join("release").join(name));
    for program in &programs {
        let bytes = std::fs::read(program).map_err(|error| format!("{}: {error}", program.display()))?;
        if let Some(address) = code(&bytes)?.iter().find_map(|(start, code)| division(*start, code)) {
            return Err(format!("{}: a division at {address:#x}, whose time depends on its values", program.display()));
        }
    }
    let frames = emulated(&programs[0])?;
    let heads = frames.lines().filter(|line| line.len() == 2 * 943).map(|line| &line[..16]);
    // profile and version, device 12, and the counters of three starts
    let expected = ["240c000000000000", "240c000040000000", "240c000080000000"];
    if !heads.eq(expected) {
        return Err(format!("the sensor: expected frames that begin with {expected:?}, found {frames}"));
    }
    print!("{}", emulated(&programs[1])?);
    Ok(())
}

/// The output of a program on the board.
fn emulated(program: &Path) -> Result<String, String> {
    let mut command = Command::new(EMULATOR);
    command.args(["-machine", "mps2-an386", "-icount", "shift=0", "-nographic", "-monitor", "none"]);
    command.args(["-serial", "none", "-semihosting-config", "enable=on,target=native", "-kernel"]).arg(program);
    // a program that neither ends nor fails is stopped
    let mut limited = Command::new("timeout");
    limited.arg("120").arg(command.get_program()).args(command.get_args());
    let output = limited.output().map_err(|error| format!("{EMULATOR}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let problems = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(text) } else { Err(format!("{}: {text}{problems}", program.display())) }
}

/// The address of the first division in code for Thumb-2.
fn division(start: u32, code: &[u8]) -> Option<u32> {
    let halves: Vec<u16> = code.as_chunks::<2>().0.iter().map(|half| u16::from_le_bytes(*half)).collect();
    let mut at = 0;
    while at + 1 < halves.len() {
        let (first, second) = (halves[at], halves[at + 1]);
        // SDIV and UDIV: 11111011 10x1nnnn, 1111dddd 1111mmmm
        if first & 0xffd0 == 0xfb90 && second & 0xf0f0 == 0xf0f0 {
            return Some(start + 2 * at as u32);
        }
        at += 1;
    }
    None
}

/// The executable parts of a program, an ELF file of 32 bits, with their addresses.
fn code(elf: &[u8]) -> Result<Vec<(u32, &[u8])>, String> {
    let word = |at: usize, bytes: usize| -> Option<usize> {
        elf.get(at..at + bytes).map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte)))
    };
    let parts = || -> Option<Vec<(u32, &[u8])>> {
        // the table of sections: 40 bytes each
        let (table, count) = (word(32, 4)?, word(48, 2)?);
        let sections = (0..count).map(|i| table + 40 * i);
        let fields = |at: usize| {
            Some([word(at + 4, 4)?, word(at + 8, 4)?, word(at + 12, 4)?, word(at + 16, 4)?, word(at + 20, 4)?])
        };
        let read = |[kind, flags, address, offset, size]: [usize; 5]| {
            // with content (1), and executable (4)
            (kind == 1 && flags & 4 != 0).then(|| Some((address as u32, elf.get(offset..offset + size)?)))
        };
        sections.filter_map(|at| fields(at).map_or(Some(None), read)).collect()
    };
    match parts() {
        Some(parts) if !parts.is_empty() => Ok(parts),
        _ => Err("expected an ELF file of 32 bits with code, found another file".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_are_found_and_other_instructions_are_not() {
        let bytes = |halves: &[u16]| -> Vec<u8> { halves.iter().flat_map(|half| half.to_le_bytes()).collect() };
        // nop; udiv r0, r1, r2; sdiv r3, r4, r5; mul r0, r1, r2; umull r0, r1, r2, r3
        let code = [0xbf00, 0xfbb1, 0xf0f2, 0xfb94, 0xf3f5, 0xfb01, 0xf002, 0xfba2, 0x0103];
        assert_eq!(division(0x100, &bytes(&code)), Some(0x102));
        assert_eq!(division(0x100, &bytes(&code[2..])), Some(0x102));
        assert_eq!(division(0x100, &bytes(&code[5..])), None);
    }

    #[test]
    fn a_file_without_code_is_refused() {
        for bytes in [&b""[..], b"\x7fELF", &[0; 64]] {
            code(bytes).unwrap_err();
        }
    }
}
