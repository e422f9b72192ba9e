//! Writes the sealed files of `vectors/seal/v1` into a folder: `cargo run -p tobari-apps --example seal_vectors -- FOLDER`.

#[path = "../tests/seal/cases.rs"]
mod cases;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("expected a folder, found none")?;
    for case in cases::cases() {
        let path = format!("{folder}/{}.seal", case.name);
        std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
        std::fs::write(path, cases::seal(&case)?)?;
    }
    Ok(())
}
