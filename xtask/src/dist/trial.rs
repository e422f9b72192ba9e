//! Artefacts as a user gets them: unpacked or installed into a root that has nothing else, and run
//! there.
//!
//! A root is a name space of its own, which needs no rights. Programs for another processor run in
//! an emulator, where the system permits it; there they are not tried beyond their start, because a
//! job takes minutes.

use super::wheel::emptied;
use super::{Target, names};
use crate::aarch64::{Registered, emulator};
use crate::child::{output, pass};
use crate::tools::on_path;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time for a server to start, in an emulator too.
const STARTS: Duration = Duration::from_secs(60);
/// Enters the root, whose path is the first argument, with the devices and processes of the kernel.
const ENTER: &str = "mount --rbind /dev \"$0/dev\" && mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"";
/// A use of the Python package: an encrypted question and its answer.
const PYTHON: &str = "\
from tobari import search
table = search.Table.from_keys([(b'code-%d' % n, 1 + n) for n in range(100)], label='made up')
owner, asker = search.Server(table), search.Client()
assert asker.ask(owner, key='code-12').count == 13
";
/// A use of the npm package: each client with its module.
const JAVASCRIPT: &str = "\
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Client } from 'NAME/call';
import { Infer } from 'NAME/infer';
import { Search } from 'NAME/search';
import { Sense } from 'NAME/sense';
import { Server } from 'NAME/server';
const make = (kind, name) => {
  const file = readFileSync(fileURLToPath(import.meta.resolve(`NAME/dist/${name}`)));
  return kind.make(new WebAssembly.Module(file), (bytes) => crypto.getRandomValues(bytes));
};
for (const name of ['tobari.wasm', 'tobari-mls.wasm']) {
  const order = { server: 'https://h:7610', room: 'r', shared: false, spurts: false, lobby: false, host: false, mls: false, speakers: 8 };
  const { link } = (await make(Client, name)).links(order);
  assert.match(link, /^https:\\/\\/h:7610\\/call\\/r#/);
}
assert.equal((await make(Search, 'ask.wasm')).name().length, 16);
assert.equal(typeof Server, 'function');
await make(Infer, 'ask.wasm');
await make(Sense, 'sense.wasm');
";

/// A root with an empty `/tmp`, and the kernel's `/dev` and `/proc`.
pub(super) struct Root {
    at: PathBuf,
    /// Ends on drop.
    _emulated: Option<Registered>,
}

impl Root {
    /// Makes the root in the build folder, in place of an earlier one.
    ///
    /// # Errors
    /// The reason why programs of this target do not run here.
    pub(super) fn new(folder: &Path, target: &Target) -> Result<Self, String> {
        let at = folder.join("root");
        emptied(&at)?;
        for inside in ["dev", "proc", "tmp"] {
            emptied(&at.join(inside))?;
        }
        let is_own = target.name == std::env::consts::ARCH;
        let emulated = (!is_own).then(|| Registered::new(&emulator(&folder.join("tools"))?)).transpose()?;
        Ok(Self { at, _emulated: emulated })
    }

    /// Puts a program into the root; returns its path inside.
    pub(super) fn program(&self, bytes: &[u8]) -> Result<String, String> {
        let path = self.at.join(names::COMMAND);
        let io = |error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::write(&path, bytes).map_err(io)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(io)?;
        Ok(format!("/{}", names::COMMAND))
    }

    /// Runs a program of the root with nothing of this process's environment.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER]);
        command.arg(&self.at).arg(program).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    /// The files of a folder of the root, with their names.
    pub(super) fn read_folder(&self, inside: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
        let folder = self.at.join(inside);
        let io = |error: std::io::Error| format!("{}: {error}", folder.display());
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&folder).map_err(io)? {
            let entry = entry.map_err(io)?;
            files.push((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).map_err(io)?));
        }
        Ok(files)
    }

    /// Runs the jobs, and checks that the program knows its version.
    fn tries(&self, program: &str, target: &Target) -> Result<(), String> {
        let version = output(self.command(program).arg("--version"))?;
        if !version.starts_with(&format!("{} ", names::COMMAND)) {
            return Err(format!("{program}: expected a version, found `{}`", version.trim()));
        }
        output(self.command(program).arg("info"))?;
        if target.name != std::env::consts::ARCH {
            println!("  {program} starts in an emulator; the jobs are not tried there");
            return Ok(());
        }
        let began = Instant::now();
        output(self.command(program).arg("demo"))?;
        println!("  {program} ran every job in an empty root, in {:.1} s", began.elapsed().as_secs_f64());
        Ok(())
    }
}

/// Unpacks the archive into an empty root, as the page about installation says, and runs the jobs.
pub(super) fn archive(path: &Path, target: &Target, folder: &Path) -> Result<(), String> {
    let root = Root::new(folder, target)?;
    let local = root.at.join("usr/local");
    emptied(&local)?;
    pass(Command::new("tar").arg("-xzf").arg(path).arg("-C").arg(&local).arg("--strip-components=1"))?;
    root.tries("/usr/local/bin/tobari", target)
}

/// Unpacks the package into an empty root, runs the jobs, and checks the settings.
pub(super) fn deb(path: &Path, target: &Target, folder: &Path) -> Result<(), String> {
    if on_path("dpkg-deb").is_none() {
        println!("  NOT RUN: dpkg-deb is not on PATH, so the package is not tried");
        return Ok(());
    }
    let root = Root::new(folder, target)?;
    pass(Command::new("dpkg-deb").arg("--extract").arg(path).arg(&root.at))?;
    root.tries("/usr/bin/tobari", target)?;
    output(root.command("/usr/bin/tobari").args(["config", "check", "/etc/tobari/tobari.toml"])).map(|_| ())
}

/// Unpacks the layer of the image, serves, and asks for the server's health.
pub(super) fn image(path: &Path, target: &Target, folder: &Path) -> Result<(), String> {
    let root = Root::new(folder, target)?;
    let blobs = folder.join("image");
    emptied(&blobs)?;
    pass(Command::new("tar").arg("-xf").arg(path).arg("-C").arg(&blobs))?;
    let text =
        std::fs::read_to_string(blobs.join("manifest.json")).map_err(|error| format!("manifest.json: {error}"))?;
    let layer = text.split_once("\"Layers\":[\"").and_then(|(_, rest)| rest.split_once('"')).map(|(name, _)| name);
    let layer = layer.ok_or("manifest.json: expected a layer, found none")?;
    pass(Command::new("tar").arg("-xf").arg(blobs.join(layer)).arg("-C").arg(&root.at))?;
    // a port that was free a moment ago; a container has its own
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(|error| error.to_string())?;
    let address = port.to_string();
    let check = || output(root.command("/tobari").args(["healthcheck", "--server", &format!("http://{address}")]));
    match check() {
        Err(why) if why.contains("is not healthy") => {}
        other => return Err(format!("expected no health before the server starts, found {other:?}")),
    }
    let mut serve = root.command("/tobari");
    serve.args(["serve", "--addr", &address]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Running(serve.spawn().map_err(|error| format!("unshare: {error}"))?);
    let began = Instant::now();
    while let Err(why) = check() {
        if began.elapsed() > STARTS {
            return Err(why);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    println!("  the image's server is healthy after {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// A process that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // a process that has ended is no failure
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Installs the wheel into a new environment, and asks an encrypted question there.
pub(super) fn wheel(path: &Path, target: &Target, folder: &Path) -> Result<(), String> {
    if target.name != std::env::consts::ARCH {
        println!("  NOT RUN: no Python for {} is here, so the wheel is not tried", target.name);
        return Ok(());
    }
    let environment = folder.join("wheel-env");
    pass(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
    let python = || {
        let mut command = Command::new(environment.join("bin/python"));
        command.env_remove("PYTHONPATH").env_remove("VIRTUAL_ENV").current_dir(&environment);
        command
    };
    pass(python().args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).arg(path))?;
    output(python().args(["-c", PYTHON])).map(|_| println!("  the wheel answered an encrypted question"))
}

/// Installs the npm package into an empty folder, and makes each client there.
pub(super) fn npm(path: &Path, folder: &Path) -> Result<(), String> {
    if on_path("npm").is_none() || on_path("node").is_none() {
        println!("  NOT RUN: node and npm are not on PATH, so the npm package is not tried");
        return Ok(());
    }
    let place = folder.join("npm");
    emptied(&place)?;
    let script = place.join("try.mjs");
    std::fs::write(&script, JAVASCRIPT.replace("NAME", names::NPM)).map_err(|error| error.to_string())?;
    pass(
        Command::new("npm").args(["install", "--offline", "--no-audit", "--no-fund", "--prefix"]).arg(&place).arg(path),
    )?;
    output(Command::new("node").arg(&script)).map(|_| println!("  the npm package made every client"))
}
