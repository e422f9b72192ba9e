//! Writes the sealed files of `vectors/seal/v1` into a folder:
//! `cargo run -p tobari-seal --example seal_vectors -- FOLDER`.

#![allow(clippy::print_stdout, reason = "an example tells what it does")]

#[path = "../tests/all/cases.rs"]
mod cases;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(folder) = std::env::args().nth(1) else {
        println!("NOT RUN: expected a folder");
        return Ok(());
    };
    for case in cases::cases() {
        let path = format!("{folder}/{}.seal", case.name);
        std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
        std::fs::write(path, cases::seal(&case)?)?;
    }
    Ok(())
}
