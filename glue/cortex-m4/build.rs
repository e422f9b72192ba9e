//! Links with the memory of the board, wherever cargo was started.

use std::path::Path;

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:rustc-link-search={folder}");
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rerun-if-changed={}", Path::new(&folder).join("memory.x").display());
}
