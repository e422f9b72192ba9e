//! Addresses on which a server listens.

use std::net::{SocketAddr, ToSocketAddrs};

/// Reads `HOST:PORT`. The host is an address or a name, such as `localhost`. For a name, the first
/// IPv4 address is taken, because the program's other defaults are IPv4, too.
///
/// # Errors
/// A sentence with an example, if the text has another form or the name is unknown.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let wrong = |why: String| format!("{why}; give HOST:PORT, such as 127.0.0.1:7610 or localhost:7610");
    let found: Vec<SocketAddr> = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| wrong("the name has no address".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_an_address_are_read_and_anything_else_is_refused_with_an_example() {
        assert_eq!(parse_address("127.0.0.1:7610").unwrap().to_string(), "127.0.0.1:7610");
        assert_eq!(parse_address("[::1]:7610").unwrap().to_string(), "[::1]:7610");
        let local = parse_address("localhost:7610").unwrap();
        assert!(local.ip().is_loopback() && local.port() == 7610, "{local}");
        for wrong in ["7610", "localhost", ":7610", "127.0.0.1:port", "localhost:70000", ""] {
            let error = parse_address(wrong).unwrap_err();
            assert!(error.contains("localhost:7610"), "{wrong}: {error}");
        }
    }
}
