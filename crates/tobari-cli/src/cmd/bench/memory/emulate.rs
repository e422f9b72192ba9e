//! Devices that this machine does not have, emulated honestly, and a memory limit that the system enforces.
//!
//! A device is a file in memory behind a loop device, with a file system, throttled by the system's block controller; the tier has its file there, and
//! swap is a file there behind a second loop device. A swap device that is throttled directly would be throttled for reading only: what swaps out is charged
//! to nobody. The first file is filled beforehand, so that nothing of it is charged to the group whose memory is limited. Latency is not modelled,
//! and every row says so.
//!
//! All this needs root and version 1 of the control groups; where something is missing, rows are marked as not run, with the reason.

use crate::args::DeviceClass;
use crate::output::Failure;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable by which a child learns which group to join.
pub(super) const GROUP: &str = "TOBARI_MEMORY_GROUP";

const MEMORY: &str = "/sys/fs/cgroup/memory";
const BLOCKS: &str = "/sys/fs/cgroup/blkio/blkio.throttle";

/// Runs a tool; what it wrote, or why not.
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

/// A memory group with a limit; it ends with this.
pub(super) struct Group(PathBuf);

impl Group {
    pub(super) fn new(limit: u64) -> Result<Self, String> {
        let path = Path::new(MEMORY).join(format!("tobari-bench-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let group = Self(path);
        write(group.0.join("memory.limit_in_bytes"), &limit.to_string())?;
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

/// A device for a tier, and for swap. What was set up is taken down when it ends, last things first.
pub(super) struct Device {
    class: DeviceClass,
    folder: PathBuf,
    swap: bool,
    undo: Vec<Undo>,
}

type Undo = Box<dyn FnOnce()>;

impl Drop for Device {
    fn drop(&mut self) {
        while let Some(undo) = self.undo.pop() {
            undo();
        }
    }
}

impl Device {
    /// A device of a class; `bytes` is how much may go there at once.
    pub(super) fn new(class: DeviceClass, folder: &Path, bytes: u64) -> Result<Self, String> {
        let mut device = Self { class, folder: folder.to_owned(), swap: false, undo: Vec::new() };
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
        // the tier and the swap, and a little for the file system
        let gib = |bytes: u64| bytes.div_ceil(1 << 30);
        let (swap, all) = (gib(bytes) + 2, 2 * gib(bytes) + 3);
        let text = |path: &Path| path.to_string_lossy().into_owned();
        tool("mount", &["-t", "tmpfs", "-o", &format!("size={}G", all + 1), "tmpfs", &text(&ram)])?;
        self.at_end("umount", &[&text(&ram)]);
        let backing = text(&ram.join("disk"));
        let (of, count) = (format!("of={backing}"), format!("count={}", all * 1024));
        tool("dd", &["if=/dev/zero", &of, "bs=1M", &count, "status=none"])?;
        let first = tool("losetup", &["--show", "-f", &backing])?;
        self.at_end("losetup", &["-d", &first]);
        tool("mkfs.ext4", &["-q", "-E", "nodiscard", "-m", "0", &first])?;
        tool("mount", &[&first, &text(&disk)])?;
        self.at_end("umount", &[&text(&disk)]);
        let swapped = text(&disk.join("swap"));
        tool("fallocate", &["-l", &format!("{swap}G"), &swapped])?;
        let second = tool("losetup", &["--direct-io=on", "--show", "-f", &swapped])?;
        self.at_end("losetup", &["-d", &second]);
        tool("mkswap", &[&second])?;
        tool("swapon", &[&second])?;
        self.at_end("swapoff", &[&second]);
        self.throttle(&first, caps)?;
        (self.folder, self.swap) = (disk, true);
        Ok(())
    }

    fn throttle(&mut self, device: &str, caps: &Caps) -> Result<(), String> {
        let number = fs::metadata(device).map_err(|error| format!("{device}: {error}"))?.rdev();
        let number = format!("{}:{}", number >> 8 & 0xfff, number & 0xff);
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
        self.swap
    }

    /// What every row must say.
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
