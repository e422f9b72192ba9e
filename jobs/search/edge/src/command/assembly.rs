//! The assembly of several tables. Their counts are added up, so positions must mean the same.

use super::remote::TableInfo;
use std::sync::Arc;
use tobari_search::table::{Accession, Catalogue, same_assembly};

/// The assembly of some tables.
pub(super) struct Assemblies {
    /// The assembly that all tables have which record one; none if no table does.
    pub(super) all: Option<String>,
    /// The servers whose tables do not record their assembly.
    pub(super) unknown: Vec<String>,
}

/// Finds the assembly of tables with sites, each with its server. A user may declare the assembly
/// of tables that record none.
///
/// # Errors
/// A text for two assemblies that differ in this chromosome, with the server of the second.
pub(super) fn of(
    tables: &[(&str, Arc<TableInfo>)],
    declared: Option<&str>,
    chromosome: &str,
) -> Result<Assemblies, String> {
    let (mut all, mut unknown) = (declared.map(str::to_owned), Vec::new());
    for (url, told) in tables {
        match (recorded(&told.catalogue), &all) {
            (Some(found), Some(before)) if same_assembly(before, &found, chromosome).is_err() => {
                let what = if declared.is_some() { "as --assembly says" } else { "as in the table before" };
                return Err(format!("{url}: expected positions of {before} {what}, found a table of {found}"));
            }
            (Some(found), None) => all = Some(found),
            (None, _) if declared.is_none() => unknown.push((*url).to_owned()),
            _ => {}
        }
    }
    Ok(Assemblies { all, unknown })
}

/// The assembly that a table records, or that the names of its chromosomes tell.
fn recorded(catalogue: &Catalogue) -> Option<String> {
    let told = || {
        let names = catalogue.sites()?.chromosomes().filter_map(|(name, _)| Accession::read(name));
        let mut only = names.filter_map(|accession| match accession.assemblies {
            [only] => Some(*only),
            _ => None,
        });
        let first = only.next()?;
        only.all(|other| other == first).then(|| first.to_owned())
    };
    catalogue.assembly.clone().or_else(told)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use tobari_search::table::{CatalogueContent, Site, Sites};

    #[test]
    fn a_table_tells_its_assembly_by_its_record_or_its_chromosomes() {
        let of = |assembly: Option<&str>, chromosomes: &[&str]| {
            let mut sites = Sites::new();
            for chromosome in chromosomes {
                let (reference, alternate) = ("A".into(), "C".into());
                let chromosome = (*chromosome).into();
                sites.push(Site { chromosome, position: 5, id: None, reference, alternate }).unwrap();
            }
            let content = CatalogueContent::Panel { sites, haplotypes: 4 };
            let (label, assembly) = (String::new(), assembly.map(str::to_owned));
            recorded(&Catalogue { name: [0; 32], revision: 1, least: 1, label, assembly, content })
        };
        assert_eq!(of(Some("hg19"), &["20"]).as_deref(), Some("hg19"));
        assert_eq!(of(None, &["NC_000020.11", "NC_000021.9", "NC_012920.1"]).as_deref(), Some("GRCh38"));
        for names in [&["20"][..], &["NC_012920.1"], &["NC_000020.11", "NC_000021.8"]] {
            assert_eq!(of(None, names), None, "{names:?}");
        }
    }
}
