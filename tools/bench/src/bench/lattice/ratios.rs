//! Our speed relative to the peers, and our targets.
//!
//! Against libraries that compute on residues, the target is twice their speed for operations with
//! a key switch, for encryption, and for encoding and decoding; against Lattigo 3.5 times its speed
//! for those with a key switch and for encryption. Against poulpy, a rotation is to be 1.2 times as
//! fast. For all other operations, against other libraries, and with the portable loops the target
//! is at least equal speed. A missed target prints FAIL, and does not change the exit status.

use super::super::table::Table;
use super::figures::Line;

/// A comparison.
pub(super) struct Ratio<'a> {
    ours: &'a Line,
    peer: &'a Line,
    target: Option<f64>,
}

/// Libraries that compute on residues.
const ON_RESIDUES: [&str; 3] = ["seal", "openfhe", "lattigo"];
/// The operations with the target of twice their speed.
const TWICE: [&str; 6] = ["rotate", "relinearize", "mul", "encrypt_public", "encode", "decode"];
/// The operations with a higher target against Lattigo.
const LATTIGO: [&str; 4] = ["rotate", "relinearize", "mul", "encrypt_public"];

impl Ratio<'_> {
    fn value(&self) -> f64 {
        self.peer.median / self.ours.median
    }

    fn verdict(&self) -> &'static str {
        self.target.map_or("", |target| if self.value() >= target { "pass" } else { "FAIL" })
    }
}

/// All our figures against all peers with the same set and operation.
pub(super) fn of(lines: &[Line]) -> Vec<Ratio<'_>> {
    let (ours, peers): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.engine == "tobari");
    let mut ratios = Vec::new();
    for peer in peers {
        let same = |ours: &&&Line| ours.what == peer.what && ours.params.set == peer.params.set;
        if let Some(ours) = ours.iter().find(same) {
            let on_residues = ON_RESIDUES.iter().any(|name| peer.engine.to_lowercase().starts_with(name));
            let what = peer.what.as_str();
            let fast = ["avx512ifma", "avx2"].contains(&&*ours.backend);
            let (lattigo, poulpy) = (peer.engine.starts_with("lattigo"), peer.engine.starts_with("poulpy"));
            let target = match (on_residues, fast && TWICE.contains(&what)) {
                _ if what.starts_with("bootstrap") => Some(if lattigo { 2.5 } else { 2.0 }),
                (_, true) if lattigo && LATTIGO.contains(&what) => Some(3.5),
                (_, _) if poulpy && fast && what == "rotate" => Some(1.2),
                (true, true) => Some(2.0),
                // without residues these operations have no transform
                (false, _) if ["encode", "decode"].contains(&what) => None,
                _ => Some(1.0),
            };
            ratios.push(Ratio { ours, peer, target });
        }
    }
    ratios
}

/// One row for each ratio, in the format of `lattice-ratios.csv`.
pub(super) fn table(ratios: &[Ratio]) -> Table {
    let columns = ["set", "what", "peer", "peer_dnum", "ours_ns", "peer_ns", "ratio", "target", "verdict", "note"];
    let mut table = Table::new("Ratios", &columns);
    for ratio in ratios {
        let Ratio { ours, peer, target } = ratio;
        let mut row = [&ours.params.set, &ours.what, &peer.engine].map(String::clone).to_vec();
        row.push(peer.params.dnum.to_string());
        row.extend([ours.median, peer.median].map(|ns| format!("{ns:.0}")));
        row.extend([
            format!("{:.2}", ratio.value()),
            target.map(|target| target.to_string()).unwrap_or_default(),
            ratio.verdict().to_owned(),
        ]);
        row.push(if ours.is_disturbed() || peer.is_disturbed() { "disturbed".to_owned() } else { String::new() });
        table.push(row);
    }
    table
}

/// For people: one table for each set, a row for each operation, a column for each peer.
pub(super) fn summaries(ratios: &[Ratio]) -> Vec<Table> {
    let mut sets: Vec<&str> = ratios.iter().map(|ratio| ratio.ours.params.set.as_str()).collect();
    sets.dedup();
    let mut tables = Vec::new();
    for set in sets {
        let of_set = || ratios.iter().filter(|ratio| ratio.ours.params.set == set);
        let (mut peers, mut operations): (Vec<&str>, Vec<&Line>) = (Vec::new(), Vec::new());
        for ratio in of_set() {
            if !peers.contains(&ratio.peer.engine.as_str()) {
                peers.push(&ratio.peer.engine);
            }
            if !operations.iter().any(|line| line.what == ratio.ours.what) {
                operations.push(ratio.ours);
            }
        }
        let met = of_set().filter(|ratio| ratio.verdict() == "pass").count();
        let targets = of_set().filter(|ratio| ratio.target.is_some()).count();
        let title =
            format!("Set {set}: times faster than each peer, its median over ours; {met} of {targets} targets met");
        let columns: Vec<&str> = ["what", "ours, µs"].into_iter().chain(peers.iter().copied()).collect();
        let mut table = Table::new(title, &columns);
        for ours in operations {
            let mut row = vec![ours.what.clone(), format!("{:.1}", ours.median / 1e3)];
            for peer in &peers {
                let ratio = of_set().find(|ratio| ratio.ours.what == ours.what && ratio.peer.engine == *peer);
                row.push(ratio.map(cell).unwrap_or_default());
            }
            table.push(row);
        }
        tables.push(table);
    }
    tables
}

fn cell(ratio: &Ratio) -> String {
    let target = ratio.target.map(|target| format!(" (≥{target}) {}", ratio.verdict())).unwrap_or_default();
    format!("{:.2}{target}", ratio.value())
}

#[cfg(test)]
mod tests {
    use super::super::figures::example;
    use super::*;

    #[test]
    fn libraries_on_residues_are_to_be_beaten_twice_where_keys_are_switched_and_others_once() {
        let lines = [
            example("tobari", "rotate", 1000.0),
            example("tobari", "add", 100.0),
            example("SEAL 4", "rotate", 1999.0),
            example("SEAL 4", "add", 100.0),
            example("poulpy 0", "rotate", 1201.0),
            example("lattigo 6", "rotate", 3499.0),
            example("poulpy 0", "encode", 1.0),
            example("tobari", "encode", 9.0),
            example("poulpy 0", "ntt", 1.0),
        ];
        let ratios = of(&lines);
        let found: Vec<_> = ratios.iter().map(|ratio| (ratio.target, ratio.verdict())).collect();
        let expected = [(Some(2.0), "FAIL"), (Some(1.0), "pass"), (Some(1.2), "pass"), (Some(3.5), "FAIL"), (None, "")];
        assert_eq!(found, expected);
        let tables = summaries(&ratios);
        assert!(tables.len() == 1 && tables[0].title.contains("2 of 4 targets met"), "{}", tables[0].title);
        assert!(table(&ratios).csv().contains("A,rotate,SEAL 4,3,1000,1999,2.00,2,FAIL,"));
    }
}
