//! Numbers of alleles in INFO, for files without samples.
//!
//! AC is the number of alleles of each alternate kind, AN the number of all alleles that were
//! called (VCF 4.3, 1.6.1). Files of frequencies (gnomAD and others) have these and no genotypes.
//! Files with samples are counted by their genotypes alone.

/// AC and AN of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// By alternate allele.
    pub(super) ones: Option<Vec<Option<u32>>>,
    pub(super) all: Option<u32>,
}

impl Counted {
    /// Reads the text of INFO. The error says what is wrong.
    pub(super) fn of_text(info: &str) -> Result<Self, String> {
        let mut found = Self::default();
        for field in info.split(';') {
            match field.split_once('=') {
                Some(("AC", text)) => found.take_ones(text.split(',').map(number).collect::<Result<_, _>>()?)?,
                Some(("AN", text)) => found.take_all(number(text)?)?,
                _ => {}
            }
        }
        Ok(found)
    }

    /// Takes AC; an error for a second one.
    pub(super) fn take_ones(&mut self, ones: Vec<Option<u32>>) -> Result<(), String> {
        once("AC", self.ones.replace(ones))
    }

    /// Takes AN; an error for a second one.
    pub(super) fn take_all(&mut self, all: Option<u32>) -> Result<(), String> {
        once("AN", self.all.is_some().then_some(()))?;
        self.all = all;
        Ok(())
    }

    /// The numbers of each alternate allele, and of all alleles. The error says what is wrong.
    pub(super) fn checked(&self, alternates: usize) -> Result<(Vec<u32>, u32), String> {
        let ones = self.ones.as_deref().ok_or("found no AC")?;
        if ones.len() != alternates {
            return Err(format!("found {} numbers in AC for {alternates} alternate alleles", ones.len()));
        }
        let ones: Vec<u32> = ones.iter().copied().collect::<Option<_>>().ok_or("found AC without a number")?;
        let all = self.all.ok_or("found no AN")?;
        let sum: u64 = ones.iter().map(|count| u64::from(*count)).sum();
        if sum > u64::from(all) {
            return Err(format!("found AC with {sum} alleles of AN={all}"));
        }
        Ok((ones, all))
    }
}

fn once<T>(what: &str, before: Option<T>) -> Result<(), String> {
    before.map_or(Ok(()), |_| Err(format!("expected {what} once in INFO, found it again")))
}

/// A number of alleles; none for a dot.
fn number(text: &str) -> Result<Option<u32>, String> {
    if text == "." {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("expected numbers of alleles in AC and AN, found {text:?}"))
}
