//! A search of a running server's memory, with a control that shows that the search works.

use super::Server;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tobari_host::process::process_memory_contains;

/// The head of a request, without its end. The server keeps these bytes in the buffer of the
/// connection while it waits for the rest.
const HELD: &[u8] = b"GET /a-path-that-the-server-holds-while-it-reads-a-head HTTP/1.1\r\n";

/// Finds which of the needles are in the memory of the server. The control is searched with them,
/// and must be found.
///
/// # Panics
/// If the server's memory cannot be read, or does not hold the control within ten seconds.
pub fn found_in_memory(server: &Server, needles: &[&[u8]]) -> Vec<usize> {
    let mut held = TcpStream::connect(server.address()).unwrap();
    held.write_all(HELD).unwrap();
    let needles = [&[HELD], needles].concat();
    let patience = Instant::now() + Duration::from_secs(8);
    loop {
        let search = process_memory_contains(server.pid(), &needles).unwrap();
        if let [0, found @ ..] = &search.found[..] {
            return found.iter().map(|index| index - 1).collect();
        }
        assert!(Instant::now() < patience, "the control is in none of {} bytes", search.searched_bytes);
    }
}
