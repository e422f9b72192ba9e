//! A new panel whose alleles go to a file at once.
//!
//! The alleles of a whole chromosome do not fit into memory: 1.7 million sites of 5,008 haplotypes
//! are a gigabyte. The transform of a panel needs only the last site, so an index holds the texts
//! of the sites and a few numbers for each haplotype.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use tobari_command::output::Failure;
use tobari_host::files::{self, FileError, directory_of, name_of};
use tobari_search::panel::Transform;
use tobari_search::table::{MAX_TABLE_BYTES, Site, Sites, Table, TableSum, encode_around};

const BUFFER_BYTES: usize = 1 << 17;

/// A panel in the making.
pub(super) struct Spilled {
    pub(super) sites: Sites,
    pub(super) transform: Transform,
    /// The alleles, in a file without a name beside the output.
    alleles: BufWriter<File>,
    bytes: u64,
    output: PathBuf,
}

impl Spilled {
    /// A panel without a site, which becomes the file `output`.
    pub(super) fn new(haplotypes: usize, output: &Path) -> Result<Self, Failure> {
        let transform = Transform::new(haplotypes).map_err(|error| Failure::Work(error.to_string()))?;
        let file = tempfile::tempfile_in(directory_of(output));
        let file = file.map_err(|source| FileError::Write { name: name_of(output), source })?;
        let alleles = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self { sites: Sites::new(), transform, alleles, bytes: 0, output: output.to_owned() })
    }

    /// Adds a site. `changed`: some sample has another number of alleles than at the site before.
    pub(super) fn push(&mut self, site: Site, values: &[bool], changed: bool) -> Result<(), String> {
        if changed {
            self.transform.begin(values.len()).map_err(|error| error.to_string())?;
        }
        self.sites.push(site).map_err(|error| error.to_string())?;
        if changed {
            self.sites.mark_break();
        }
        let words = self.transform.push(values).map_err(|error| error.to_string())?;
        let mut write = || words.iter().try_for_each(|word| self.alleles.write_all(&word.to_be_bytes()));
        write().map_err(|error| format!("cannot write the alleles beside {}: {error}", name_of(&self.output)))?;
        self.bytes += 8 * words.len() as u64;
        Ok(())
    }

    /// Writes the file of the table, whose own content is not used. Returns the file's bytes.
    pub(super) fn write(self, table: &Table) -> Result<u64, Failure> {
        let Self { sites, transform, alleles, bytes, output } = self;
        let (before, after) = encode_around(table, &sites, &transform);
        drop(sites);
        let all = (before.len() + after.len() + TableSum::default().finish().len()) as u64 + bytes;
        if all > MAX_TABLE_BYTES {
            return Err(FileError::TooLarge { name: name_of(&output), limit_bytes: MAX_TABLE_BYTES }.into());
        }
        files::write_atomically_with(&output, |file| {
            let mut alleles = alleles.into_inner().map_err(io::IntoInnerError::into_error)?;
            alleles.rewind()?;
            let (mut sum, mut buffer) = (TableSum::default(), vec![0; BUFFER_BYTES]);
            let mut put = |bytes: &[u8]| {
                sum.update(bytes);
                file.write_all(bytes)
            };
            put(&before)?;
            loop {
                match alleles.read(&mut buffer)? {
                    0 => break,
                    read => put(&buffer[..read])?,
                }
            }
            put(&after)?;
            file.write_all(&sum.finish())
        })?;
        Ok(all)
    }
}
