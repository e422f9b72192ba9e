//! The arguments of a reference job, parsed by clap.

use clap::Args;
use tobari_command::size::parse_bytes;
use tobari_host::store::Folder;

/// Memory, threads and disk of a job with a plan.
#[derive(Args, Clone)]
pub struct RunArguments {
    /// Use at most this much memory for the whole process, such as 1GiB or 512MiB.
    #[arg(long, default_value = "1GiB", value_parser = parse_bytes, value_name = "BYTES")]
    pub memory: u64,
    /// Compute on this many threads. [default: one for each core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Move data that exceeds the memory to this folder, up to a limit: /fast:2GiB. Repeat the
    /// option for further folders, the fastest first. [default: the folder of temporary files]
    #[arg(long = "tier", value_parser = parse_tier, value_name = "FOLDER[:BYTES]")]
    pub tiers: Vec<Folder>,
    /// Measure the costs of steps again.
    #[arg(long)]
    pub recalibrate: bool,
    /// Print one JSON object a line on standard output.
    #[arg(long)]
    pub json: bool,
}

impl RunArguments {
    /// The number of threads of the job.
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(tobari_host::threads::available, usize::from)
    }

    /// The folders of its tier, in the order of the options: the fastest should be first.
    pub fn tiers(&self) -> Vec<Folder> {
        match &self.tiers[..] {
            [] => vec![Folder { path: std::env::temp_dir(), quota_bytes: None }],
            folders => folders.to_vec(),
        }
    }
}

/// The smallest limit of a folder of the tier: a smaller one is too small to measure.
const LEAST_TIER_BYTES: u64 = 4 << 20;

/// Parses a folder, optionally followed by `:` and a number of bytes. Text after the last colon is
/// a number of bytes if it begins with a digit and holds no path separator.
fn parse_tier(text: &str) -> Result<Folder, String> {
    let sized = |(path, size): &(&str, &str)| {
        !path.is_empty() && size.starts_with(|c: char| c.is_ascii_digit()) && !size.contains(std::path::is_separator)
    };
    let Some((path, size)) = text.rsplit_once(':').filter(sized) else {
        return match text {
            "" => Err("expected a folder".to_owned()),
            _ => Ok(Folder { path: text.into(), quota_bytes: None }),
        };
    };
    match parse_bytes(size)? {
        bytes if bytes < LEAST_TIER_BYTES => Err("expected at least 4MiB for a folder of the tier".to_owned()),
        bytes => Ok(Folder { path: path.into(), quota_bytes: Some(bytes) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_a_folder_and_the_most_that_may_lie_there() {
        let folder = |path: &str, quota_bytes| Ok(Folder { path: path.into(), quota_bytes });
        assert_eq!(parse_tier("/fast:2GiB"), folder("/fast", Some(2 << 30)));
        for whole in ["/fast", "a:b", ":2GiB", "C:\\tier", "a:1/b", "a:"] {
            assert_eq!(parse_tier(whole), folder(whole, None), "{whole}");
        }
        for wrong in ["", "/fast:2", "/fast:1XiB", "/fast:3MiB", "/fast:1e9"] {
            assert!(parse_tier(wrong).is_err(), "{wrong}");
        }
    }
}
