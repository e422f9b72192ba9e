//! The host names for which the server answers.
//!
//! A site can make its own name resolve to 127.0.0.1 (DNS rebinding). A browser then treats a
//! server on this machine as that site, and lets the site's pages read the answers. Such a request
//! names the site in `Host`. So a server on a loopback address answers only for this machine's
//! names and for configured names. This check stops pages only: programs can write any `Host`.

use axum::http::{HeaderMap, Uri, Version, header, uri::Authority};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
    sync::Arc,
};

/// The longest name in the domain name system.
const MAX_BYTES: usize = 253;

/// A name or an address by which clients reach a server, without a port.
///
/// ```
/// use tobari_node::HostName;
/// assert_eq!("Call.Example".parse::<HostName>()?.to_string(), "call.example");
/// assert!("https://call.example".parse::<HostName>().is_err() && "call.example:443".parse::<HostName>().is_err());
/// # Ok::<(), tobari_node::NotAHostName>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

/// Text that is no host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a host name without scheme and port, as in call.example or 192.0.2.7, found {0:?}")]
pub struct NotAHostName(String);

impl FromStr for HostName {
    type Err = NotAHostName;

    fn from_str(text: &str) -> Result<Self, NotAHostName> {
        let fault = || NotAHostName(text.to_owned());
        if let Ok(address) = text.trim_matches(['[', ']']).parse::<Ipv6Addr>() {
            return Ok(Self(format!("[{address}]")));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if name.is_empty() || name.len() > MAX_BYTES || !is_name {
            return Err(fault());
        }
        Ok(Self(name))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The accepted hosts. The server checks no host if it listens on another address than loopback and
/// no name is configured.
#[derive(Clone)]
pub(crate) struct Hosts(Option<Arc<[HostName]>>);

impl Hosts {
    /// The accepted hosts of a server that listens at this address.
    pub(crate) fn new(listening: IpAddr, named: &[HostName]) -> Self {
        Self((listening.is_loopback() || !named.is_empty()).then(|| named.into()))
    }

    /// Whether the server answers a request with these parts.
    pub(crate) fn admit(&self, version: Version, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(named) = &self.0 else { return true };
        if uri.authority().is_some_and(|authority| !admits(named, authority)) {
            return false;
        }
        let mut said = headers.get_all(header::HOST).iter().peekable();
        if said.peek().is_none() {
            // every browser sends a host; HTTP/1.0 does not require one
            return version < Version::HTTP_11 || uri.authority().is_some();
        }
        said.all(|host| host.as_bytes().try_into().is_ok_and(|host: Authority| admits(named, &host)))
    }
}

fn admits(named: &[HostName], authority: &Authority) -> bool {
    if authority.as_str().contains('@') {
        return false;
    }
    let Ok(host) = authority.host().parse::<HostName>() else { return false };
    is_this_machine(&host.0) || named.contains(&host)
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']);
    host == "localhost"
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || address.parse::<Ipv6Addr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether a request names this machine as its host. A name of another machine does not count, even
/// if it resolves to this one.
pub fn names_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    ["localhost", "127.0.0.1", "[::1]"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_answered(listening: &str, named: &[&str], hosts: &[&str]) -> bool {
        let named: Vec<HostName> = named.iter().map(|name| name.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(header::HOST, host.parse().unwrap());
        }
        Hosts::new(listening.parse().unwrap(), &named).admit(Version::HTTP_11, &Uri::from_static("/"), &headers)
    }

    #[test]
    fn fault_28_a_loopback_server_answers_for_this_machine_and_named_hosts_only() {
        for host in ["localhost", "LOCALHOST.:7610", "127.0.0.1:1", "127.9.8.7", "[::1]", "[::1]:80", "[0:0::1]:9"] {
            assert!(is_answered("127.0.0.1", &[], &[host]) && is_answered("::1", &["a.example"], &[host]), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "128.0.0.1",
            "0.0.0.0",
            "[::]",
            "evil@localhost",
            "localhost@evil",
            "",
            "local host",
        ] {
            assert!(!is_answered("127.0.0.1", &[], &[host]), "{host}");
            assert!(!is_answered("192.0.2.1", &["call.example"], &[host]), "{host}");
            assert!(is_answered("192.0.2.1", &[], &[host]), "{host}");
        }
        assert!(is_answered("127.0.0.1", &["Call.Example"], &["call.example:443"]));
        assert!(!is_answered("127.0.0.1", &["call.example"], &["call.example", "evil.example"]), "one of two");
        assert!(!is_answered("127.0.0.1", &[], &[]), "HTTP/1.1 without a host");
        let hosts = Hosts::new(IpAddr::from([127, 0, 0, 1]), &[]);
        assert!(hosts.admit(Version::HTTP_10, &Uri::from_static("/"), &HeaderMap::new()));
        assert!(!hosts.admit(Version::HTTP_10, &Uri::from_static("http://evil.example/"), &HeaderMap::new()));
    }

    #[test]
    fn a_host_name_has_one_form_and_what_is_none_is_refused() {
        for (text, form) in [("Call.Example.", "call.example"), ("[::1]", "[::1]"), ("2001:DB8::1", "[2001:db8::1]")] {
            assert_eq!(text.parse::<HostName>().unwrap().to_string(), form);
        }
        for text in ["", ".", "*", "a b", "a:1", "http://a", "a/b", &"a".repeat(254)] {
            assert_eq!(text.parse::<HostName>(), Err(NotAHostName(text.to_owned())));
        }
    }
}
