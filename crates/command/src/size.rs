//! Values of arguments.

/// Parses a number of bytes, optionally followed by KiB, MiB, GiB or TiB.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || "expected a number of bytes, as in 512MiB or 1GiB".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(wrong()),
    };
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * unit as f64;
    if bytes < 1.0 || bytes > (1u64 << 60) as f64 {
        return Err("expected at least one byte and at most 2^60".to_owned());
    }
    Ok(bytes as u64)
}
