//! The extent of a structural variant, as a part of its allele.
//!
//! `<DEL>` names the event but not its extent; INFO has the extent. Two such variants at one
//! position differ in END or SVLEN only. So the allele is written with its extent: the two are then
//! different variants, and a question names one of them. The extent is `<DEL>@5000` up to a
//! position (`<TRA>@chr5@5000` on another chromosome), and `<INS>+300` for inserted bases. This
//! does not name the inserted bases, so two insertions of one length may differ ([`is_untold`]).
//! Alleles of bases, and breakends, are complete.

/// The extents in the INFO of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) end: Option<u64>,
    /// Lengths by alternate allele, without a sign.
    pub(super) lengths: Vec<Option<u64>>,
    pub(super) chromosome: Option<String>,
}

/// Whether an allele does not contain its extent.
pub(super) fn is_symbolic(allele: &str) -> bool {
    allele.starts_with('<') && !["<*>", "<NON_REF>"].contains(&allele)
}

/// Whether an allele inserts bases that it does not name, as `<INS>` and `<INS:ME:ALU>`.
pub(super) fn is_insertion(allele: &str) -> bool {
    allele.starts_with("<INS")
}

/// Whether two alleles of one position with this name may differ.
pub(super) fn is_untold(allele: &str) -> bool {
    is_symbolic(allele) && (allele.ends_with('>') || is_insertion(allele))
}

impl Reach {
    /// Reads the text of INFO. The error says what is wrong.
    pub(super) fn of_text(info: &str) -> Result<Self, String> {
        let value = |key: &str| {
            let is = |field: &&str| field.strip_prefix(key).is_some_and(|rest| rest.starts_with('='));
            info.split(';').find(is).map(|field| &field[key.len() + 1..]).filter(|value| *value != ".")
        };
        let end = value("END").map(|text| number("END", text)).transpose()?;
        let lengths = value("SVLEN").into_iter().flat_map(|text| text.split(','));
        let one = |text: &str| if text == "." { Ok(None) } else { number("SVLEN", text).map(Some) };
        // alleles have numbers of 16 bits, so later lengths have no allele
        let lengths = lengths.take(usize::from(u16::MAX)).map(one).collect::<Result<_, _>>()?;
        Ok(Self { end, lengths, chromosome: value("CHR2").map(str::to_owned) })
    }

    /// An alternate allele with its extent.
    pub(super) fn told(
        &self,
        (chromosome, position): (&str, u64),
        alternate: &str,
        (number, all): (usize, usize),
    ) -> Option<String> {
        if !is_symbolic(alternate) {
            return None;
        }
        let length = self.lengths.get(number).copied().flatten();
        if is_insertion(alternate) {
            return Some(format!("{alternate}+{}", length?));
        }
        if let Some(other) = self.chromosome.as_deref().filter(|other| *other != chromosome) {
            return Some(format!("{alternate}@{other}@{}", self.end?));
        }
        // a single END is that of all alternate alleles together
        let by_length = length.and_then(|length| position.checked_add(length));
        let end = if all == 1 { self.end.or(by_length) } else { by_length.or(self.end) };
        Some(format!("{alternate}@{}", end?))
    }
}

fn number(what: &str, text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.parse().map_err(|_| format!("expected a number in {what}, found {text:?}"))
}
