//! The list of fuzz targets matches their folder.

use super::{Finding, SourceFile};

const LIST: &str = "fuzz/README.md";
const FOLDER: &str = "fuzz/fuzz_targets/";

/// Finds every target without a line in the table of `fuzz/README.md` that names its function, and
/// every line without a target.
pub(crate) fn targets_are_listed(files: &[SourceFile]) -> Vec<Finding> {
    let targets: Vec<(String, &SourceFile)> = files.iter().filter_map(|file| Some((begin(file)?, file))).collect();
    let Some(list) = files.iter().find(|file| file.path == LIST && !targets.is_empty()) else {
        return vec![Finding::new(LIST, 0, "no targets, or no list of them: nothing was checked")];
    };
    let missing = targets.iter().filter(|(line, _)| !list.text.lines().any(|found| found.starts_with(line)));
    let missing = missing.map(|(line, file)| Finding::new(&file.path, 1, format!("{LIST} has no line {line}")));
    let lines = list.text.lines().zip(1..).filter(|(line, _)| line.starts_with("| `"));
    let idle = lines.filter(|(line, _)| !targets.iter().any(|(begin, _)| line.starts_with(begin)));
    missing.chain(idle.map(|(line, number)| Finding::new(LIST, number, format!("no target for {line}")))).collect()
}

/// The beginning of a target's line; none for other files.
fn begin(file: &SourceFile) -> Option<String> {
    let name = file.path.strip_prefix(FOLDER)?.strip_suffix(".rs")?;
    let function = file.text.split("&[u8]| ").nth(1)?.split('(').next()?;
    Some(format!("| `{name}` | `{function}` | "))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn tree(list: &str) -> Vec<SourceFile> {
        let target = "#![no_main]\nlibfuzzer_sys::fuzz_target!(|data: &[u8]| house::fuzz_wire(data));\n";
        vec![file("fuzz/fuzz_targets/wire.rs", target), file(LIST, list)]
    }

    #[test]
    fn a_target_with_its_line_passes() {
        assert!(
            targets_are_listed(&tree("| target |\n|---|\n| `wire` | `house::fuzz_wire` | it holds |\n")).is_empty()
        );
    }

    #[test]
    fn a_target_without_its_line_and_a_line_without_its_target_are_refused() {
        for list in ["", "| `wire` | `house::fuzz_other` | it holds |\n", "`wire` `house::fuzz_wire`"] {
            assert_eq!(targets_are_listed(&tree(list))[0].path, "fuzz/fuzz_targets/wire.rs", "{list}");
        }
        let found = targets_are_listed(&tree("| `wire` | `house::fuzz_wire` | a |\n| `gone` | `house::gone` | b |\n"));
        assert_eq!(found.iter().map(|finding| (finding.path.as_str(), finding.line)).collect::<Vec<_>>(), [(LIST, 2)]);
    }
}
