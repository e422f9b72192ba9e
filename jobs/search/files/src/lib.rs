//! Files of searches: variants and alleles from VCF and BCF, keys and counts from a table of text.

#![forbid(unsafe_code)]

pub mod tsv;
pub mod variants;
