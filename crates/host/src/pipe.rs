//! Pipes to other programs.

use std::os::fd::AsFd;

/// Limits the capacity of a pipe to `bytes`, or to the system's minimum (a page on Linux). The
/// default is 64 KiB, two seconds of audio at 16 kHz: a reader that is slow once stays late by as
/// much. Does nothing to other files, and on systems without this call.
pub fn limit(end: impl AsFd, bytes: usize) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(end, bytes);
    #[cfg(not(target_os = "linux"))]
    let _ = (end, bytes);
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::Write;

    #[test]
    fn a_pipe_that_is_limited_takes_a_page_and_no_more() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        super::limit(&writer, 1);
        writer.write_all(&[0; 4096]).unwrap();
        assert!(rustix::pipe::fcntl_getpipe_size(&reader).unwrap() <= 65_536 / 4);
        super::limit(std::fs::File::open("/dev/null").unwrap(), 1);
    }
}
