//! Emulated storage devices that this machine does not have, and a memory limit that the system
//! enforces.
//!
//! A device is a file in memory behind a loop device, with a file system; the system's block
//! controller throttles it. The tier's file is on that file system, and swap is a file there behind
//! a second loop device. Direct throttling of a swap device would affect reads only, because writes
//! of swapped pages are charged to no group. The file in memory is filled beforehand, so that none
//! of it is charged to the group with the memory limit. Latency is not modelled, and every row says
//! so.
//!
//! The emulation needs root and version 1 of the control groups. If something is missing, rows are
//! marked as not run, with the reason.

use crate::bench::arguments::DeviceClass;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tobari_command::output::Failure;

/// The environment variable with the group that a child must join.
pub(super) const GROUP: &str = "TOBARI_MEMORY_GROUP";

const MEMORY: &str = "/sys/fs/cgroup/memory";
const BLOCKS: &str = "/sys/fs/cgroup/blkio/blkio.throttle";

/// Runs a tool; returns its output, or the reason why it failed.
fn tool(name: &str, args: &[&str]) -> Result<String, String> {
    let done = Command::new(name).args(args).output().map_err(|error| format!("{name}: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned());
    }
    Err(format!("{name} {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr).trim()))
}

fn write(path: impl AsRef<Path>, text: &str) -> Result<(), String> {
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.as_ref().display()))
}

/// A device's number in the controllers' format.
#[cfg(unix)]
fn number(device: &str) -> Result<String, String> {
    use std::os::unix::fs::MetadataExt;
    let number = fs::metadata(device).map_err(|error| format!("{device}: {error}"))?.rdev();
    Ok(format!("{}:{}", number >> 8 & 0xfff, number & 0xff))
}

#[cfg(not(unix))]
fn number(device: &str) -> Result<String, String> {
    Err(format!("{device}: devices have no numbers here"))
}

/// Checks that there are `bytes` bytes of free memory: with a disk in memory that starves the
/// machine, a measurement is worthless.
fn has_memory(bytes: u64) -> Result<(), String> {
    let text = fs::read_to_string("/proc/meminfo").map_err(|error| error.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    let (needed, found) = (tobari_plan::plan::bytes(bytes), tobari_plan::plan::bytes(kib << 10));
    if kib << 10 >= bytes { Ok(()) } else { Err(format!("expected {needed} of free memory, found {found}")) }
}

/// A memory group with a limit; it ends on drop.
pub(super) struct Group(PathBuf);

impl Group {
    /// Without `swap` a process that grows beyond the limit is killed.
    pub(super) fn new(limit: u64, swap: bool) -> Result<Self, String> {
        let name = format!("tobari-bench-{}-{}", std::process::id(), if swap { "swap" } else { "tier" });
        let path = Path::new(MEMORY).join(name);
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let group = Self(path);
        write(group.0.join("memory.limit_in_bytes"), &limit.to_string())?;
        write(group.0.join("memory.swappiness"), if swap { "60" } else { "0" })?;
        Ok(group)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Joins the group that the parent made, if it made one.
pub(super) fn join_group() -> Result<(), Failure> {
    match std::env::var_os(GROUP) {
        None => Ok(()),
        Some(path) => {
            let path = Path::new(&path).join("cgroup.procs");
            write(path, &std::process::id().to_string()).map_err(Failure::Work)
        }
    }
}

/// Bytes and requests a second, reading and writing.
struct Caps {
    bytes: [u64; 2],
    requests: Option<[u64; 2]>,
}

fn caps(class: DeviceClass) -> Option<Caps> {
    match class {
        DeviceClass::Disk => None,
        DeviceClass::Ram => Some(Caps { bytes: [2_600_000_000, 2_200_000_000], requests: None }),
        DeviceClass::Nvme => Some(Caps { bytes: [1_300_000_000, 1_300_000_000], requests: None }),
        DeviceClass::Sata => Some(Caps { bytes: [530_000_000, 480_000_000], requests: Some([97_000, 36_000]) }),
    }
}

/// A device for a tier, and for swap. Drop undoes the setup, in reverse order.
pub(super) struct Device {
    class: DeviceClass,
    folder: PathBuf,
    swap: bool,
    undo: Vec<Undo>,
    /// The tools that undo the setup, with their arguments.
    tools: Vec<Vec<String>>,
    /// A process that undoes the setup if this process is killed.
    watch: Option<Child>,
}

type Undo = Box<dyn FnOnce()>;

impl Drop for Device {
    fn drop(&mut self) {
        while let Some(undo) = self.undo.pop() {
            undo();
        }
        if let Some(watch) = &mut self.watch {
            let _ = watch.kill();
            let _ = watch.wait();
        }
    }
}

impl Device {
    /// A device of a class, for at most `bytes` bytes at once. Only an emulated device can have
    /// swap.
    pub(super) fn new(class: DeviceClass, folder: &Path, bytes: u64, swap: bool) -> Result<Self, String> {
        let mut device =
            Self { class, folder: folder.to_owned(), swap, undo: Vec::new(), tools: Vec::new(), watch: None };
        if let Some(caps) = caps(class) {
            device.emulate(&caps, bytes)?;
        }
        Ok(device)
    }

    fn emulate(&mut self, caps: &Caps, bytes: u64) -> Result<(), String> {
        let root = tempfile::tempdir().map_err(|error| error.to_string())?;
        let (ram, disk) = (root.path().join("ram"), root.path().join("disk"));
        for folder in [&ram, &disk] {
            fs::create_dir(folder).map_err(|error| error.to_string())?;
        }
        self.undo.push(Box::new(move || drop(root)));
        // the tier, the swap, and a margin for the file system
        let gib = |bytes: u64| bytes.div_ceil(1 << 30);
        let (swap, all) = (gib(bytes) + 2, 2 * gib(bytes) + 3);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        has_memory((all << 30) + bytes + (2 << 30))?;
        // pages of this disk must not be swapped to this disk: they would wait for themselves
        tool("mount", &["-t", "tmpfs", "-o", &format!("noswap,size={}G", all + 1), "tmpfs", &text(&ram)])?;
        self.at_end("umount", &[&text(&ram)]);
        let backing = text(&ram.join("disk"));
        let (of, count) = (format!("of={backing}"), format!("count={}", all * 1024));
        tool("dd", &["if=/dev/zero", &of, "bs=1M", &count, "status=none"])?;
        let first = tool("losetup", &["--show", "-f", &backing])?;
        self.at_end("losetup", &["-d", &first]);
        tool("mkfs.ext4", &["-q", "-E", "nodiscard", "-m", "0", &first])?;
        tool("mount", &[&first, &text(&disk)])?;
        self.at_end("umount", &[&text(&disk)]);
        if self.swap {
            self.swap_on(&disk, swap)?;
        }
        self.throttle(&first, caps)?;
        self.watch()?;
        self.folder = disk;
        Ok(())
    }

    /// Starts the process that undoes the setup if this process is killed.
    fn watch(&mut self) -> Result<(), String> {
        let undo: Vec<String> = self.tools.iter().rev().map(|args| args.join(" ")).collect();
        let watch = format!("while kill -0 {}; do sleep 1; done; {}", std::process::id(), undo.join("; "));
        let mut call = Command::new("setsid");
        call.args(["sh", "-c", &watch]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.watch = Some(call.spawn().map_err(|error| format!("setsid: {error}"))?);
        Ok(())
    }

    /// Makes a file of the disk the preferred swap.
    fn swap_on(&mut self, disk: &Path, gib: u64) -> Result<(), String> {
        let swapped = disk.join("swap").to_string_lossy().into_owned();
        // written and not only reserved: swapping must not need the file system's journal
        let (of, count) = (format!("of={swapped}"), format!("count={}", gib * 1024));
        tool("dd", &["if=/dev/zero", &of, "bs=1M", &count, "oflag=direct", "status=none"])?;
        let second = tool("losetup", &["--direct-io=on", "--show", "-f", &swapped])?;
        self.at_end("losetup", &["-d", &second]);
        tool("mkswap", &[&second])?;
        tool("swapon", &["-p", "100", &second])?;
        self.at_end("swapoff", &[&second]);
        Ok(())
    }

    fn throttle(&mut self, device: &str, caps: &Caps) -> Result<(), String> {
        let number = number(device)?;
        let mut limits = vec![("read_bps", caps.bytes[0]), ("write_bps", caps.bytes[1])];
        limits.extend(caps.requests.into_iter().flat_map(|[read, write]| [("read_iops", read), ("write_iops", write)]));
        for (name, value) in limits {
            let path = format!("{BLOCKS}.{name}_device");
            write(&path, &format!("{number} {value}"))?;
            let none = format!("{number} 0");
            self.undo.push(Box::new(move || _ = fs::write(path, none)));
        }
        Ok(())
    }

    fn at_end(&mut self, name: &'static str, args: &[&str]) {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        self.tools.push(std::iter::once(name.to_owned()).chain(args.iter().cloned()).collect());
        self.undo.push(Box::new(move || {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            // a device may be busy for a moment after its last user
            for _ in 0..50 {
                if tool(name, &args).is_ok() {
                    return;
                }
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        }));
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn has_swap(&self) -> bool {
        self.swap && caps(self.class).is_some()
    }

    /// The labels of every row.
    pub(super) fn labels(&self) -> Vec<String> {
        let Some(caps) = caps(self.class) else { return vec!["the tier's folder as it is".to_owned()] };
        let mega = |bytes: u64| bytes / 1_000_000;
        let [read, write] = caps.bytes;
        let requests = if caps.requests.is_some() { " and request rate" } else { "" };
        vec![
            "emulated disk, RAM-backed".to_owned(),
            format!("bandwidth{requests} capped at {}/{} MB/s", mega(read), mega(write)),
            "latency not modelled (better than a device)".to_owned(),
        ]
    }
}
