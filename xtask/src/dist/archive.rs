//! The archive for any Linux: unpacked into `/usr/local` or into a folder of one's own, it is
//! installed.

use super::pack::Tree;
use super::{Built, Product, Target, names, trial};
use crate::child::output;
use std::path::Path;

/// Shells, and the files of their completions below `share`.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/tobari"),
    ("fish", "fish/vendor_completions.d/tobari.fish"),
    ("zsh", "zsh/site-functions/_tobari"),
];

/// The content of the archive.
///
/// # Errors
/// A missing file of the repository.
pub(super) fn pack(product: &Product, built: &Built) -> Result<Tree, String> {
    let mut tree = Tree::default();
    tree.program(format!("bin/{}", names::COMMAND), built.program.clone());
    tree.graft("share", &built.share);
    let documents = format!("share/doc/{}", names::COMMAND);
    for licence in ["LICENSE-APACHE", "LICENSE-MIT", "PATENTS.md"] {
        tree.file(format!("{documents}/{licence}"), product.read(licence)?);
    }
    tree.file(format!("{documents}/README.md"), readme(&product.text("README.md")?));
    tree.file(format!("{documents}/sbom.cdx.json"), built.bill.as_str());
    for example in ["tobari.toml", "systemd/tobari.service"] {
        let name = example.rsplit('/').next().unwrap_or(example);
        tree.file(format!("{documents}/examples/{name}"), product.read(&format!("deploy/{example}"))?);
    }
    Ok(tree)
}

/// The first part of the front page, whose links outside of the repository would lead nowhere.
fn readme(page: &str) -> String {
    let first = page.split("\n| ").next().unwrap_or_default();
    format!("{}\n\n`tobari help` lists the commands. `tobari demo` runs every job once.\n", without_links(first).trim())
}

/// Markdown whose links are only their words.
fn without_links(text: &str) -> String {
    let mut pieces = text.split("](");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let start = plain.rfind('[').unwrap_or(plain.len());
        plain.replace_range(start..(start + 1).min(plain.len()), "");
        plain += piece.split_once(')').map_or(piece, |(_, rest)| rest);
    }
    plain
}

/// The folder `share`: manual pages and completions, printed by the program itself.
///
/// # Errors
/// The program does not run.
pub(super) fn share(program: &[u8], target: &Target, folder: &Path) -> Result<Tree, String> {
    let root = trial::Root::new(folder, target)?;
    let path = root.program(program)?;
    let mut tree = Tree::default();
    for (shell, file) in SHELLS {
        tree.file(file, output(root.command(&path).args(["completions", shell]))?);
    }
    output(root.command(&path).args(["man", "-o", "/man1"]))?;
    for page in root.read_folder("man1")? {
        tree.file(format!("man/man1/{}", page.0), page.1);
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extract_has_the_first_paragraphs_without_links() {
        let page = "# T\n\nFirst [words](a.md), and [more](b.md).\n\n| a | b |\n|---|---|\n";
        let extract = readme(page);
        assert!(extract.starts_with("# T\n\nFirst words, and more.\n\n`tobari help`"), "{extract}");
        assert!(!extract.contains('|'), "{extract}");
    }
}
