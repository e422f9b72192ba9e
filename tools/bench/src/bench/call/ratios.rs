//! Our speed relative to the peers, and our targets relative to mcl.
//!
//! A ratio is the peer's median over ours, for the same operation on the same curve. The single
//! mode of a peer is compared with both of ours. A missed target prints FAIL, but does not change
//! the exit status: it is a number, not an error.

use super::super::line::DISTURBED;
use super::super::table::Table;
use super::figures::{Line, OPERATIONS, Scheme};

/// A comparison.
pub(super) struct Ratio<'a> {
    peer: &'a str,
    ours: Scheme<'a>,
    what: &'static str,
    our_ns: f64,
    peer_ns: f64,
    /// Our only implementation has another timing.
    only: bool,
    disturbed: bool,
    target: Option<f64>,
}

impl Ratio<'_> {
    fn value(&self) -> f64 {
        self.peer_ns / self.our_ns
    }

    /// Empty without a target.
    fn verdict(&self) -> &'static str {
        self.target.map_or("", |target| if self.value() >= target { "pass" } else { "FAIL" })
    }
}

/// The least ratios to mcl: encryption, addition, decryption. The portable loops must be no slower
/// than mcl's assembler if both are variable-time.
fn targets(ours: Scheme, portable: bool) -> [Option<f64>; 3] {
    let shared = ours.mode == "elgamal-shared";
    if portable {
        return if ours.timing == "variable" { [Some(1.0), Some(1.0), None] } else { [None; 3] };
    }
    if ours.timing == "constant" {
        return [Some(if shared { 6.0 } else { 3.0 }), None, None];
    }
    let main = ["secp256k1", "NIST_P256"].contains(&ours.curve);
    match (main, shared) {
        (true, false) => [8.0, 15.0, 8.0],
        (true, true) => [15.0, 25.0, 25.0],
        (false, false) => [6.0, 10.0, 6.0],
        (false, true) => [12.0, 20.0, 20.0],
    }
    .map(Some)
}

/// All our figures against all peers with the same curve.
pub(super) fn of(lines: &[Line]) -> Vec<Ratio<'_>> {
    let schemes = Scheme::all(lines);
    let (ours, peers): (Vec<Scheme>, Vec<Scheme>) = schemes.into_iter().partition(|scheme| scheme.engine == "tobari");
    let mut ratios = Vec::new();
    for peer in peers {
        for ours in ours.iter().copied().filter(|ours| ours.curve == peer.curve) {
            let portable = ours.find(lines, "add", None).is_some_and(|line| line.backend.starts_with("portable"));
            let targets = if peer.engine.starts_with("mcl") { targets(ours, portable) } else { [None; 3] };
            for ((what, bits), target) in OPERATIONS.into_iter().zip(targets) {
                let (Some(own), Some(other)) = (ours.find(lines, what, bits), peer.find(lines, what, bits)) else {
                    continue;
                };
                let (our_ns, peer_ns, only) = (own.median, other.median, own.params.timing != ours.timing);
                let disturbed = [own, other].iter().any(|line| line.is_disturbed());
                ratios.push(Ratio { peer: peer.engine, ours, what, our_ns, peer_ns, only, disturbed, target });
            }
        }
    }
    ratios
}

/// One row for each ratio, in the format of `ratios.csv`.
pub(super) fn table(ratios: &[Ratio]) -> Table {
    let columns =
        ["peer", "curve", "mode", "timing", "what", "ours_ns", "peer_ns", "ratio", "target", "verdict", "note"];
    let mut table = Table::new("Ratios", &columns);
    for ratio in ratios {
        let Scheme { curve, mode, timing, .. } = ratio.ours;
        let mut row = [ratio.peer, curve, mode, timing, ratio.what].map(str::to_owned).to_vec();
        row.extend([ratio.our_ns, ratio.peer_ns].map(|ns| format!("{ns:.1}")));
        row.push(format!("{:.2}", ratio.value()));
        row.push(ratio.target.map(|target| target.to_string()).unwrap_or_default());
        row.push(ratio.verdict().to_owned());
        let only = ratio.only.then_some("ours has one implementation, of the other timing");
        let notes: Vec<&str> = only.into_iter().chain(ratio.disturbed.then_some(DISTURBED)).collect();
        row.push(notes.join("; "));
        table.push(row);
    }
    table
}

/// For people: one table for each peer, one row for each curve, mode and timing.
pub(super) fn summaries(ratios: &[Ratio]) -> Vec<Table> {
    let mut tables: Vec<(&str, Table)> = Vec::new();
    for rows in ratios.chunk_by(|a, b| a.peer == b.peer && a.ours == b.ours) {
        let (peer, ours) = (rows[0].peer, rows[0].ours);
        if !tables.iter().any(|(name, _)| *name == peer) {
            let title = title(peer, ratios);
            tables.push((peer, Table::new(title, &["curve", "mode", "timing", "encrypt", "add", "decrypt"])));
        }
        let mut row = [ours.curve, ours.mode, ours.timing].map(str::to_owned).to_vec();
        row.extend(
            OPERATIONS.map(|(what, _)| rows.iter().find(|ratio| ratio.what == what).map(cell).unwrap_or_default()),
        );
        if let Some((_, table)) = tables.iter_mut().find(|(name, _)| *name == peer) {
            table.push(row);
        }
    }
    tables.into_iter().map(|(_, table)| table).collect()
}

fn title(peer: &str, ratios: &[Ratio]) -> String {
    let set = || ratios.iter().filter(|ratio| ratio.peer == peer && ratio.target.is_some());
    let met = set().filter(|ratio| ratio.verdict() == "pass").count();
    let targets = match set().count() {
        0 => "no targets".to_owned(),
        all => format!("{met} of {all} targets met"),
    };
    format!(
        "Times faster than {peer}: its median over ours, decryption at 16 bits; {targets}\n\
         *: ours has one implementation, of the other timing"
    )
}

fn cell(ratio: &Ratio) -> String {
    let only = if ratio.only { "*" } else { "" };
    let target = ratio.target.map(|target| format!(" (≥{target}) {}", ratio.verdict())).unwrap_or_default();
    format!("{:.2}{only}{target}", ratio.value())
}

#[cfg(test)]
mod tests {
    use super::super::figures::example;
    use super::*;

    fn lines(curve: &str) -> Vec<Line> {
        let ours = |timing| ["tobari", curve, "elgamal", timing];
        let theirs = ["mcl 3", curve, "elgamal", "variable"];
        vec![
            example(ours("constant"), "encrypt", None, 1000.0),
            example(ours("variable"), "encrypt", None, 500.0),
            example(ours("variable"), "add", None, 40.0),
            example(ours("constant"), "decrypt", Some(16), 2500.0),
            Line { labels: vec![DISTURBED.to_owned()], ..example(theirs, "encrypt", None, 3000.0) },
            example(theirs, "add", None, 599.0),
            example(theirs, "decrypt", Some(16), 20_000.0),
        ]
    }

    fn verdicts(curve: &str) -> Vec<(String, &'static str, bool)> {
        let lines = lines(curve);
        of(&lines).iter().map(|ratio| (format!("{:.3}", ratio.value()), ratio.verdict(), ratio.only)).collect()
    }

    #[test]
    fn a_ratio_at_its_target_passes_and_one_just_below_fails() {
        let expected = [
            ("3.000", "pass", false), // encrypt, constant: at least 3
            ("14.975", "", true),
            ("8.000", "", false),
            ("6.000", "FAIL", false),  // encrypt, variable: at least 8
            ("14.975", "FAIL", false), // add: at least 15
            ("8.000", "pass", true),   // decrypt: at least 8
        ];
        let expected = expected.map(|(value, verdict, only)| (value.to_owned(), verdict, only));
        assert_eq!(verdicts("secp256k1"), expected);
        let other: Vec<_> = verdicts("secp224k1").into_iter().map(|(_, verdict, _)| verdict).collect();
        assert_eq!(other, ["pass", "", "", "pass", "pass", "pass"], "the other curves have lower targets");
    }

    #[test]
    fn the_shared_mode_has_targets_of_its_own_against_the_same_peer() {
        let mut lines = lines("NIST_P256");
        lines.push(example(["tobari", "NIST_P256", "elgamal-shared", "variable"], "encrypt", None, 250.0));
        lines.push(example(["libsecp256k1 1", "NIST_P256", "elgamal", "variable"], "encrypt", None, 1.0));
        let ratios = of(&lines);
        let of_shared: Vec<_> = ratios.iter().filter(|ratio| ratio.ours.mode == "elgamal-shared").collect();
        let found: Vec<_> = of_shared.iter().map(|ratio| (ratio.peer, ratio.value(), ratio.target)).collect();
        assert_eq!(found, [("mcl 3", 12.0, Some(15.0)), ("libsecp256k1 1", 0.004, None)]);
        assert_eq!(of_shared.iter().map(|ratio| ratio.verdict()).collect::<Vec<_>>(), ["FAIL", ""]);
        let titles: Vec<_> = summaries(&ratios).into_iter().map(|table| table.title).collect();
        assert_eq!(titles.len(), 2, "one table a peer");
        assert!(titles[0].contains("mcl 3") && titles[0].contains("2 of 5 targets met"), "{titles:?}");
        assert!(titles[1].contains("no targets"), "{titles:?}");
        assert_eq!(table(&ratios).csv().lines().count(), 1 + ratios.len());
    }

    #[test]
    fn what_was_disturbed_or_is_of_the_other_timing_says_so() {
        let lines = lines("secp256k1");
        let text = table(&of(&lines)).csv();
        let notes: Vec<&str> = text.lines().skip(1).filter_map(|row| row.split(',').next_back()).collect();
        let only = " of the other timing\""; // what follows the comma
        assert_eq!(notes, [DISTURBED, only, "", DISTURBED, "", only]);
    }

    #[test]
    fn the_portable_loops_have_targets_of_their_own() {
        let mut lines = lines("secp256k1");
        lines.iter_mut().for_each(|line| line.backend = "portable".to_owned());
        let targets: Vec<_> = of(&lines).iter().map(|ratio| ratio.target).collect();
        assert_eq!(targets, [None, None, None, Some(1.0), Some(1.0), None]);
    }

    #[test]
    fn without_a_peer_there_is_nothing_to_compare() {
        let lines: Vec<Line> = lines("p160_1").into_iter().filter(|line| line.engine == "tobari").collect();
        assert!(of(&lines).is_empty() && summaries(&of(&lines)).is_empty());
    }
}
