//! The program for AArch64: it is built here, and run here in an emulator of its instructions. The
//! run says nothing about speed.
//!
//! The program starts itself again, as a server, an enclave's process or a module. So the emulator
//! is registered in the kernel for such programs, for the time of the run.

use crate::child::{cargo, pass, pass_reading, target_folder};
use crate::companions::{unpack, wrap};
use crate::record;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGET: &str = "aarch64-unknown-linux-gnu";
const PACKAGES: [&str; 3] = ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user-static"];
const EMULATOR: &str = "qemu-aarch64-static";
/// The kernel's folder for the registration of program formats.
const FORMATS: &str = "/proc/sys/fs/binfmt_misc";
const FORMAT: &str = "tobari-aarch64";
/// The pattern of a 64-bit ELF file for this processor, and the mask of the compared bits.
const MAGIC: &str = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff";

/// A linker, an archiver and an emulator.
struct Tools {
    linker: PathBuf,
    archiver: PathBuf,
    emulator: PathBuf,
}

impl Tools {
    /// The tools of the distribution, unpacked and not installed.
    fn bring(folder: &Path) -> Result<Self, String> {
        let io = |error: std::io::Error| error.to_string();
        let root = unpack(folder, TARGET, &PACKAGES, &mut false)?;
        let (bin, own) = (folder.join("bin"), root.join("usr/bin"));
        std::fs::create_dir_all(&bin).map_err(io)?;
        let tool = |name: &str, first: &str| {
            let at = bin.join(name);
            wrap(&at, &own.join(name), &root, first).map(|()| at).map_err(io)
        };
        // the linker scripts of its C library use absolute paths
        let linker = tool("aarch64-linux-gnu-gcc", &format!("'--sysroot={}'", root.display()))?;
        Ok(Self { linker, archiver: tool("aarch64-linux-gnu-ar", "")?, emulator: own.join(EMULATOR) })
    }

    /// cargo for a statically linked program, because no library of the target is installed.
    fn cargo(&self, root: &Path) -> Command {
        let mut command = cargo(root);
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", &self.linker);
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static");
        command.env("CC_aarch64_unknown_linux_gnu", &self.linker);
        command.env("AR_aarch64_unknown_linux_gnu", &self.archiver);
        command
    }
}

/// The emulator alone, unpacked and not installed.
///
/// # Errors
/// The reason why that is impossible here.
pub(crate) fn emulator(folder: &Path) -> Result<PathBuf, String> {
    Ok(unpack(folder, EMULATOR, &["qemu-user-static"], &mut false)?.join("usr/bin").join(EMULATOR))
}

/// The registration of the emulator in the kernel; it ends on drop.
pub(crate) struct Registered;

impl Registered {
    /// Registers the emulator for all programs of the processor.
    ///
    /// # Errors
    /// The kernel does not permit it.
    pub(crate) fn new(emulator: &Path) -> Result<Self, String> {
        let (register, io) =
            (Path::new(FORMATS).join("register"), |error: std::io::Error| format!("{FORMATS}: {error}"));
        if !register.exists() {
            pass(Command::new("mount").args(["-t", "binfmt_misc", "none", FORMATS]))?;
        }
        // the registration of a killed run
        let left = Path::new(FORMATS).join(FORMAT);
        if left.exists() {
            std::fs::write(left, "-1").map_err(io)?;
        }
        let line = format!(":{FORMAT}:M::{MAGIC}:{}:F", emulator.display());
        std::fs::write(register, line).map_err(io)?;
        Ok(Self)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(Path::new(FORMATS).join(FORMAT), "-1") {
            eprintln!("{FORMATS}/{FORMAT} stays: {error}");
        }
    }
}

/// `cargo xtask soak aarch64`
pub(crate) fn run(root: &Path, _minutes: u64) -> Result<(), String> {
    let tools = Tools::bring(&target_folder(root).join("cross"))?;
    pass(Command::new("rustup").args(["target", "add", TARGET]).current_dir(root))?;
    let started = std::time::Instant::now();
    pass(tools.cargo(root).args(["build", "--release", "--package", "tobari-cli", "--target", TARGET]))?;
    let built = started.elapsed().as_secs();
    let _registered = Registered::new(&tools.emulator)?;
    let program = target_folder(root).join(TARGET).join("release/tobari");
    let mut said = Vec::new();
    for arguments in [&["info"][..], &["demo"]] {
        said.push(format!("$ tobari {}", arguments.join(" ")));
        let mut command = Command::new(&program);
        command.args(arguments).env_remove("TOBARI_DATA").stdin(Stdio::null());
        pass_reading(&mut command, |line| said.push(line.to_owned()))?;
    }
    let today = record::today();
    let body = format!(
        "- command: `cargo xtask soak aarch64`: built for {TARGET}; every process, client or server, is run by {EMULATOR}, whose times say nothing of such a processor\n- revision: {}\n- processor that emulates: {}\n- seconds to build: {built}\n\n```text\n{}\n```\n",
        record::revision(root),
        record::cpu_model(),
        said.join("\n")
    );
    record::append(root, &format!("aarch64-{today}.md"), &format!("AArch64, emulated, on {today}"), &body)
        .map_err(|error| format!("cannot write the record: {error}"))
}
