//! A search of another process's memory, for the attack that asks: does the server hold any plain
//! sample?
//!
//! On Linux the system gives a process's memory to its owner through `/proc/PID/maps` and
//! `/proc/PID/mem`. The search covers every readable mapping that is writable (heap, stacks, data,
//! shared memory) or not backed by a file. It skips, and counts as skipped, the kernel's own pages
//! and read-only mappings of files. These hold the program's text and constants, the same in every
//! copy of the executable; a clip built into the executable is not a leak.
//!
//! The process keeps running. The search misses bytes that the process writes behind it, and bytes
//! overwritten before: a search that finds nothing is evidence, not proof.

use std::io;

/// The shortest allowed needle: eight random bytes occur in a gigabyte by chance once in 10^10
/// searches.
pub const MIN_NEEDLE_BYTES: usize = 8;

/// The result of a search of a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySearch {
    /// Bytes read and searched; never 0.
    pub searched_bytes: u64,
    /// Bytes of searchable mappings that the system did not give, or that vanished meanwhile.
    pub unreadable_bytes: u64,
    /// Bytes of skipped mappings: read-only mappings of files, and the kernel's pages.
    pub skipped_bytes: u64,
    /// The indices of the needles found, ascending.
    pub found: Vec<usize>,
}

/// Searches the memory of process `pid` for all `needles` in one pass.
///
/// A needle that occurs in almost any process (all zeros, say) proves nothing, so choose needles
/// with care.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidInput`] for a needle shorter than [`MIN_NEEDLE_BYTES`]; the system's
/// error if it does not open the process (it must be a child, or this process privileged); an error
/// if no byte could be read; [`io::ErrorKind::Unsupported`] on systems other than Linux.
///
/// # Example
///
/// ```no_run
/// # let (pid, plain_frame) = (1, [0_u8; 640]);
/// let search = tobari_host::process::process_memory_contains(pid, &[&plain_frame])?;
/// assert!(search.found.is_empty(), "the server holds a plain frame");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn process_memory_contains(pid: u32, needles: &[&[u8]]) -> io::Result<MemorySearch> {
    if let Some(index) = needles.iter().position(|needle| needle.len() < MIN_NEEDLE_BYTES) {
        let message =
            format!("needle {index}: expected at least {MIN_NEEDLE_BYTES} bytes, found {}", needles[index].len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    #[cfg(target_os = "linux")]
    return linux::search_process(pid, needles);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = pid;
        Err(io::Error::new(io::ErrorKind::Unsupported, "a process's memory can be searched only on Linux"))
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::super::needles::Needles;
    use super::MemorySearch;
    use std::fs::{self, File};
    use std::io;
    use std::ops::Range;
    use std::os::unix::fs::FileExt;

    /// Bytes read at a time: more than the needles, and few compared to a cache.
    const CHUNK_BYTES: usize = 1 << 20;
    /// The unit in which memory is readable or not.
    const PAGE_BYTES: u64 = 4096;

    pub(super) fn search_process(pid: u32, needles: &[&[u8]]) -> io::Result<MemorySearch> {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let memory = File::open(format!("/proc/{pid}/mem"))?;
        let (ranges, skipped_bytes) = searchable(&maps);
        let mut search = Search { needles: Needles::new(needles), searched_bytes: 0, unreadable_bytes: 0 };
        for range in ranges {
            search.range(range, |buffer, address| memory.read_at(buffer, address));
        }
        let Search { needles, searched_bytes, unreadable_bytes } = search;
        if searched_bytes == 0 {
            return Err(io::Error::other(format!("process {pid}: expected readable memory, found none")));
        }
        Ok(MemorySearch { searched_bytes, unreadable_bytes, skipped_bytes, found: needles.found() })
    }

    /// The address ranges to search, and the bytes skipped. Neighbours are joined, as a needle may
    /// lie across them.
    fn searchable(maps: &str) -> (Vec<Range<u64>>, u64) {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let mut skipped_bytes = 0;
        for mapping in maps.lines().filter_map(Mapping::parse) {
            let range = mapping.range;
            match ranges.last_mut() {
                _ if !mapping.searched => skipped_bytes += range.end - range.start,
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        (ranges, skipped_bytes)
    }

    /// One line of `/proc/PID/maps`: `start-end perms offset device inode path`, with hexadecimal
    /// numbers except the inode.
    struct Mapping {
        range: Range<u64>,
        searched: bool,
    }

    impl Mapping {
        fn parse(line: &str) -> Option<Self> {
            let mut fields = line.split_ascii_whitespace();
            let (start, end) = fields.next()?.split_once('-')?;
            let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
            let permissions = fields.next()?;
            let inode = fields.nth(2)?;
            let path = fields.next().unwrap_or("");
            let kernels_own = ["[vsyscall]", "[vvar]", "[vvar_vclock]", "[vdso]"].contains(&path);
            let (readable, writable) = (permissions.starts_with('r'), permissions.get(1..2) == Some("w"));
            Some(Self { range, searched: readable && !kernels_own && (writable || inode == "0") })
        }
    }

    /// Reads again after an interruption by a signal.
    fn retried(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match read() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    struct Search {
        needles: Needles,
        searched_bytes: u64,
        unreadable_bytes: u64,
    }

    impl Search {
        /// Searches one range chunk by chunk. The end of each chunk is searched again with the
        /// next one, so that no needle is cut.
        fn range(&mut self, range: Range<u64>, read_at: impl Fn(&mut [u8], u64) -> io::Result<usize>) {
            let overlap = self.needles.longest().saturating_sub(1);
            let mut window = vec![0; overlap + CHUNK_BYTES];
            let (mut address, mut kept) = (range.start, 0);
            while address < range.end {
                let left = usize::try_from(range.end - address).unwrap_or(usize::MAX);
                let fresh = &mut window[kept..][..CHUNK_BYTES.min(left)];
                let Ok(count @ 1..) = retried(|| read_at(fresh, address)) else {
                    // The bytes before and after this page are not contiguous.
                    let page_end = range.end.min((address / PAGE_BYTES + 1) * PAGE_BYTES);
                    self.unreadable_bytes += page_end - address;
                    (address, kept) = (page_end, 0);
                    continue;
                };
                self.searched_bytes += count as u64;
                address += count as u64;
                let filled = kept + count;
                self.needles.search(&window[..filled]);
                let next_kept = overlap.min(filled);
                window.copy_within(filled - next_kept..filled, 0);
                kept = next_kept;
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// A search of simulated memory from address 0, with reads of at most `chunk` bytes; pages
        /// in `holes` cannot be read.
        fn search(memory: &[u8], chunk: usize, holes: &[u64], needles: &[&[u8]]) -> (Vec<usize>, u64, u64) {
            let mut search = Search { needles: Needles::new(needles), searched_bytes: 0, unreadable_bytes: 0 };
            search.range(0..memory.len() as u64, |buffer, address| {
                if holes.contains(&(address / PAGE_BYTES)) {
                    return Err(io::Error::other("refused"));
                }
                let hole = holes.iter().map(|page| page * PAGE_BYTES).find(|start| *start > address);
                let end = hole.unwrap_or(u64::MAX).min(memory.len() as u64);
                let count = buffer.len().min(chunk).min((end - address) as usize);
                buffer[..count].copy_from_slice(&memory[address as usize..][..count]);
                Ok(count)
            });
            (search.needles.found(), search.searched_bytes, search.unreadable_bytes)
        }

        /// 3 MB without repetitions: the counter 0, 1, 2 …, mixed, in six bytes each.
        fn memory() -> Vec<u8> {
            (0_u64..500_000).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[..6].to_vec()).collect()
        }

        #[test]
        fn a_needle_that_straddles_reads_of_any_size_is_found() {
            let memory = &memory()[..20_000];
            let (needle, absent) = (&memory[9_000..9_640], [0x5a; 640]);
            for chunk in [1, 7, 639, 640, 641, 4096, 9_001, 9_639, 20_000] {
                let (found, searched, unreadable) = search(memory, chunk, &[], &[needle, &absent]);
                assert_eq!((found, searched, unreadable), (vec![0], 20_000, 0), "{chunk} bytes a read");
            }
        }

        #[test]
        fn a_needle_across_the_boundary_of_full_chunks_is_found_at_every_offset() {
            let memory = memory();
            for before in [0, 1, 319, 320, 639, 640] {
                let start = CHUNK_BYTES - before;
                let (found, ..) = search(&memory, usize::MAX, &[], &[&memory[start..start + 640]]);
                assert_eq!(found, [0], "{before} bytes before the boundary");
            }
        }

        #[test]
        fn an_unreadable_page_is_counted_and_nothing_is_found_across_it() {
            let mut memory = memory()[..5 * PAGE_BYTES as usize].to_vec();
            let page = PAGE_BYTES as usize;
            let before = memory[2 * page - 100..2 * page].to_vec();
            let after = memory[3 * page..3 * page + 100].to_vec();
            let glued = [&before[..], &after[..]].concat();
            memory[2 * page..3 * page].fill(0);
            let (found, searched, unreadable) = search(&memory, usize::MAX, &[2], &[&before, &after, &glued]);
            assert_eq!((found, searched, unreadable), (vec![0, 1], 4 * PAGE_BYTES, PAGE_BYTES));
        }

        #[test]
        fn only_what_a_running_program_can_have_written_is_searched() {
            let maps = "\
55d0c0000000-55d0c0001000 r--p 00000000 fe:00 1234 /usr/bin/tobari
55d0c0001000-55d0c0002000 rw-p 00001000 fe:00 1234 /usr/bin/tobari
55d0c0002000-55d0c0004000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000001000 ---p 00000000 00:00 0
7f0000001000-7f0000002000 r--p 00000000 00:00 0
7f0000003000-7f0000004000 rw-s 00000000 00:01 99 /dev/shm/shared memory
7ffc00000000-7ffc00004000 r--p 00000000 00:00 0 [vvar]
7ffc00004000-7ffc00006000 r-xp 00000000 00:00 0 [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
";
            let (ranges, skipped) = searchable(maps);
            assert_eq!(
                ranges,
                [
                    0x55d0_c000_1000..0x55d0_c000_4000,
                    0x7f00_0000_1000..0x7f00_0000_2000,
                    0x7f00_0000_3000..0x7f00_0000_4000
                ]
            );
            assert_eq!(skipped, 0x1000 + 0x1000 + 0x4000 + 0x2000 + 0x1000);
        }
    }
}
