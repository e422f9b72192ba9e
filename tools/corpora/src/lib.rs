//! The list of fuzz targets, and the tests that run them over their corpora on any machine.
//!
//! A fixed finding stays fixed: its input is in the corpus, and `cargo xtask test` runs every body
//! over its corpus, without libFuzzer.
//!
//! The targets are in `fuzz/`, a workspace of its own, because libFuzzer needs nightly Rust and a
//! C++ compiler. This package is in the main workspace, so its dependencies are compiled once with
//! those of the other tests. It does not compile the targets. Instead a test compares the text of
//! each target with the only text that a target has: a call of its body in the list.

#![forbid(unsafe_code)]

/// A target: its name (of the file in `fuzz_targets/` and of the folder in `corpus/`), and its
/// body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("batch_addition", tobari_curve::fuzz::batch_addition),
    ("call_cascade_messages", tobari_call::live::cascade::fuzz_cascade_messages),
    ("call_live_messages", tobari_call::live::fuzz_live_messages),
    ("call_live_room", tobari_call::live::fuzz_live_room),
    ("call_messages", tobari_call::fuzz_messages),
    ("call_room", tobari_call::fuzz_room),
    ("device_frames", tobari_device::fuzz_frames),
    ("dispatch_requests", tobari_seal_files::dispatch::fuzz_requests),
    ("enclave_evidence", tobari_enclave::fuzz_evidence),
    ("enclave_protocol", tobari_host::enclave::fuzz_protocol),
    ("enclave_snp", tobari_enclave::snp::fuzz_report),
    ("enclave_tdx", tobari_enclave::tdx::fuzz_quote),
    ("group_messages", tobari_call_group::fuzz_group_messages),
    ("infer_images", tobari_infer_files::images::fuzz_images),
    ("infer_kept", tobari_infer::fuzz_kept),
    ("infer_messages", tobari_infer::fuzz_messages),
    ("infer_model", tobari_infer::fuzz_model),
    ("infer_network", tobari_infer_deep::file::fuzz_file),
    ("infer_offer", tobari_infer::fuzz_offer),
    ("infer_onnx", tobari_infer_files::onnx::fuzz_onnx),
    ("infer_setup", tobari_infer::fuzz_setup),
    ("lattice_wire", tobari_lattice::fuzz::lattice_wire),
    ("live_wire", tobari_call::fuzz::live_wire),
    ("plan_check", tobari_plan::testing::fuzz_check),
    ("points", tobari_curve::fuzz::points),
    ("seal_manifest", tobari_seal::fuzz_seal_manifest),
    ("seal_records", tobari_seal::fuzz_seal_records),
    ("seal_stream", tobari_seal::fuzz_seal_stream),
    ("search_hidden_messages", tobari_search::hidden::fuzz_hidden_messages),
    ("search_kept", tobari_search::fuzz_kept),
    ("search_messages", tobari_search::fuzz_messages),
    ("search_table", tobari_search::fuzz_table),
    ("sense_bundle", tobari_sense::fuzz_bundle),
    ("sense_enrolment", tobari_sense::fuzz_enrolment),
    ("sense_questions", tobari_sense::fuzz_questions),
    ("sense_registry", tobari_sense::fuzz_registry),
    ("sense_results", tobari_sense::fuzz_window_results),
    ("tsv", tobari_search_files::tsv::fuzz_keys),
    ("variants", tobari_search_files::variants::fuzz_variants),
    ("variants_choices", tobari_search_files::variants::fuzz_choices),
    ("wav", tobari_call_files::wav::fuzz_wav),
    ("wire", tobari_curve::fuzz::wire),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    /// A path in the folder `fuzz`.
    fn path(inside: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(inside)
    }

    fn text(inside: &str) -> String {
        std::fs::read_to_string(path(inside)).unwrap()
    }

    fn files(inside: &str) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(path(inside)).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// The path of a target's body, as it stands in the list above.
    fn body_of(name: &str) -> &'static str {
        let begin = format!("    (\"{name}\", ");
        let line = include_str!("lib.rs").lines().find_map(|line| line.strip_prefix(&begin)).unwrap();
        line.strip_suffix("),").unwrap()
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "the last line before a panic is the input")]
    fn every_target_passes_over_its_corpus() {
        for (name, body) in TARGETS {
            let corpus = files(&format!("corpus/{name}"));
            assert!(!corpus.is_empty(), "{name} has no corpus");
            for file in corpus {
                let input = std::fs::read(&file).unwrap();
                println!("{name}: {}", file.file_name().unwrap().to_string_lossy());
                body(&input);
            }
        }
    }

    #[test]
    fn the_list_is_the_folder_and_each_file_only_calls_its_body() {
        let found = files("fuzz_targets");
        let stems: Vec<&str> = found.iter().filter_map(|file| file.file_stem()?.to_str()).collect();
        let mut listed: Vec<&str> = TARGETS.iter().map(|target| target.0).collect();
        listed.sort_unstable();
        assert_eq!(stems, listed);
        for name in listed {
            let body = body_of(name);
            let expected = format!("#![no_main]\n\nlibfuzzer_sys::fuzz_target!(|data: &[u8]| {body}(data));\n");
            assert_eq!(text(&format!("fuzz_targets/{name}.rs")), expected, "{name}");
        }
    }

    #[test]
    fn the_manifest_has_every_target_and_every_package_that_one_calls() {
        let manifest = text("Cargo.toml");
        for (name, _) in TARGETS {
            let program = format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n");
            assert!(manifest.contains(&program), "{name} is not in fuzz/Cargo.toml");
            let package = body_of(name).split("::").next().unwrap().replace('_', "-");
            assert!(manifest.contains(&format!("\n{package} = {{ path = ")), "{name} needs {package}");
        }
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
    }

    #[test]
    fn the_corpora_stay_small() {
        for (name, _) in TARGETS {
            let corpus = files(&format!("corpus/{name}"));
            let bytes: u64 = corpus.iter().map(|file| file.metadata().unwrap().len()).sum();
            assert!(corpus.len() <= 100 && bytes <= 100_000, "{name}: {} files, {bytes} bytes", corpus.len());
        }
    }
}
