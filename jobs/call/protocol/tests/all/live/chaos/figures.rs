//! Counts of events in a chaotic room, and the memory of its process.

use super::SECOND;

/// Samples of memory needed to tell growth from chance: a room of agreed keys takes up to a fifth
/// more or less, depending on its members.
const LOOKS: usize = 240;
/// Memory that is not counted as growth, kB.
const SLACK_KB: f64 = 4096.0;

/// Counts so far.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) lives: u64,
    pub(super) groups: u64,
    /// How the server's lives ended: killed, stopped, left by all.
    pub(super) ends: [u64; 3],
    pub(super) joins: u64,
    pub(super) left: u64,
    pub(super) vanished: u64,
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) late: u64,
    pub(super) opened: u64,
    pub(super) wrong: u64,
    pub(super) forged: u64,
    pub(super) undetected: u64,
    /// Members that remained in a room after all should have left.
    pub(super) remained: u64,
    /// The longest time without a sum for any member, in ticks, under each kind of keys.
    pub(super) quiet: [u64; 2],
    /// Memory of the process in kB, under each kind of keys.
    pub(super) memory: [Vec<usize>; 2],
    /// Faults: the first ones, if there are many.
    pub(super) faults: Vec<String>,
}

impl Counts {
    pub(super) fn fault(&mut self, what: String) {
        if self.faults.len() < 20 {
            self.faults.push(what);
        }
    }

    /// Prints all counts of a run of `ticks` ticks in `seconds` seconds.
    pub(super) fn tell(&self, members: usize, ticks: u64, seconds: f64, seed: u64) {
        let Self { lives, groups, ends: [killed, stopped, emptied], joins, left, vanished, packets, .. } = self;
        let Self { lost, late, opened, wrong, forged, undetected, remained, faults, .. } = self;
        let room = ticks as f64 / SECOND as f64;
        let [linked, agreed] = self.quiet.map(|ticks| ticks as f64 / SECOND as f64);
        println!();
        println!(
            "room time: {:.2} h, {ticks} ticks, in {seconds:.0} s: {:.1} times as fast as real time; {members} places, seed {seed}",
            room / 3600.0,
            room / seconds
        );
        println!(
            "room servers: {lives}, {groups} with a room of agreed keys; {killed} killed, {stopped} stopped, {emptied} left by all, where {remained} members remained"
        );
        println!(
            "room members: {joins} joins, {left} left, {vanished} vanished; {linked:.1} s without a sum at most, {agreed:.1} s under agreed keys"
        );
        println!("room packets: {packets} sent, {lost} lost, {late} too late");
        println!(
            "room sums: {opened} opened and compared, {wrong} wrong; of those that the server changed {forged} refused, {undetected} heard"
        );
        for (sizes, keys) in self.memory.iter().zip(["keys of the link", "agreed keys"]) {
            let parts = sizes.chunks(sizes.len().div_ceil(8).max(1));
            let medians: Vec<String> = parts.map(|part| format!("{:.1}", middle(part) / 1024.0)).collect();
            println!(
                "room memory: MiB of the process under {keys}, medians of eighths of the run: {}",
                medians.join(", ")
            );
        }
        faults.iter().for_each(|fault| println!("room fault: {fault}"));
    }
}

/// Memory of this process; none if the system does not report it.
pub(super) fn resident_kb() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse().ok()
}

fn middle(sizes: &[usize]) -> f64 {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).map_or(0.0, |size| *size as f64)
}

/// Does the last quarter have more than the second, beyond normal variation? The first quarter is
/// left out, because lasting memory is allocated in it.
pub(super) fn grows(sizes: &[usize]) -> bool {
    let quarter = sizes.len() / 4;
    let (earlier, last) = (middle(&sizes[quarter..2 * quarter]), middle(&sizes[3 * quarter..]));
    sizes.len() >= LOOKS && last > earlier + SLACK_KB.max(0.05 * earlier)
}

#[test]
fn memory_that_grows_slowly_is_told_from_memory_that_comes_and_goes() {
    let sizes = |of: fn(usize) -> usize| (0..400).map(of).collect::<Vec<_>>();
    assert!(grows(&sizes(|look| 20_000 + 40 * look)));
    assert!(!grows(&sizes(|look| 20_000 + look * 37 % 4_000)));
    assert!(!grows(&sizes(|look| if look < 90 { 200 * look } else { 18_000 })), "a beginning");
    assert!(!grows(&[]) && !grows(&[1, 1 << 20]));
}
