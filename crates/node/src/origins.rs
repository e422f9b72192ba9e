//! The pages that may call the server from browsers, and the servers that a page may call.
//!
//! A browser lets any page open a WebSocket to any server, and sends the page's origin with it (RFC
//! 6454, RFC 6455 section 10.2). The page of live rooms can be hosted anywhere, so a server accepts
//! every origin unless the operator lists the allowed ones.
//!
//! **A list stops** other people's pages in browsers: such a page could use its visitor's position
//! in the network, or the visitor's address. **A list does not stop** programs, which can send any
//! origin or none, and a malicious page on the list. A person with the link holds the keys,
//! whatever page they use.

use std::{fmt, str::FromStr, sync::Arc};

use axum::http::{HeaderMap, header};

/// An origin: scheme, host, and port unless it is the scheme's default.
///
/// ```
/// use tobari_node::WebOrigin;
/// assert_eq!("https://Call.example/".parse::<WebOrigin>()?.to_string(), "https://call.example");
/// assert!("call.example".parse::<WebOrigin>().is_err() && "https://call.example/call/".parse::<WebOrigin>().is_err());
/// # Ok::<(), tobari_node::NotAnOrigin>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin(String);

/// Text that is no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an origin, as in https://call.example or http://localhost:8000, found {0:?}")]
pub struct NotAnOrigin(String);

impl FromStr for WebOrigin {
    type Err = NotAnOrigin;

    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        let origin = text.strip_suffix('/').unwrap_or(text).to_ascii_lowercase();
        let fault = || NotAnOrigin(text.to_owned());
        let (scheme, host) = origin.split_once("://").ok_or_else(fault)?;
        let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-.:[]_".contains(c));
        if !is_host || !matches!(scheme, "http" | "https") {
            return Err(fault());
        }
        // browsers leave out the default port
        let usual = if scheme == "https" { ":443" } else { ":80" };
        Ok(Self(origin.strip_suffix(usual).unwrap_or(&origin).to_owned()))
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A server that a page may call besides its own. A page's policy must be able to name the origin,
/// so it has no IPv6 address and no underscore (Content Security Policy Level 3, section 2.3.1).
///
/// ```
/// use tobari_node::WebServer;
/// assert!("https://call.example:7610".parse::<WebServer>().is_ok() && "https://[::1]:7610".parse::<WebServer>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebServer(WebOrigin);

/// Text that is no server that a page's policy can name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a server with a name or an IPv4 address, as in https://call.example or http://127.0.0.1:7610, found {0:?}"
)]
pub struct NotAWebServer(String);

impl FromStr for WebServer {
    type Err = NotAWebServer;

    fn from_str(text: &str) -> Result<Self, NotAWebServer> {
        let origin: Result<WebOrigin, _> = text.parse();
        let named = origin.ok().filter(|origin| !origin.0.contains(['[', ']', '_']));
        named.map(Self).ok_or_else(|| NotAWebServer(text.to_owned()))
    }
}

impl WebServer {
    /// The server's names in a policy: one for requests, and one for WebSockets, which have another
    /// scheme.
    pub(crate) fn sources(&self) -> String {
        let origin = &self.0.0;
        format!("{origin} ws{}", origin.strip_prefix("http").unwrap_or_default())
    }
}

/// The origins whose pages may call; an empty list allows every origin.
#[derive(Clone)]
pub struct Origins(Arc<[WebOrigin]>);

impl Origins {
    pub(crate) fn new(named: &[WebOrigin]) -> Self {
        Self(named.into())
    }

    /// Whether a request with these headers may open a WebSocket. Programs send no origin, and may.
    pub fn admits(&self, headers: &HeaderMap) -> bool {
        let mut said = headers.get_all(header::ORIGIN).iter().peekable();
        self.0.is_empty()
            || said.peek().is_none()
            || said.all(|said| {
                let said = said.to_str().ok().and_then(|said| said.parse().ok());
                said.is_some_and(|said: WebOrigin| self.0.contains(&said))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(origins: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for origin in origins {
            headers.append(header::ORIGIN, origin.parse().unwrap());
        }
        headers
    }

    #[test]
    fn an_origin_has_one_form_and_what_is_none_is_refused() {
        for (text, form) in [
            ("https://call.example", "https://call.example"),
            ("https://call.example:443", "https://call.example"),
            ("http://[::1]:8000/", "http://[::1]:8000"),
            ("HTTP://LocalHost:80", "http://localhost"),
        ] {
            assert_eq!(text.parse::<WebOrigin>().unwrap().to_string(), form);
        }
        for text in [
            "",
            "null",
            "*",
            "https://",
            "call.example",
            "ws://call.example",
            "https://a/b",
            "https://a b",
            "https://a,b",
        ] {
            assert_eq!(text.parse::<WebOrigin>(), Err(NotAnOrigin(text.to_owned())));
        }
    }

    /// For every text of up to five of these characters: an accepted text has one form, without a
    /// character that ends a word of a policy.
    #[test]
    fn whatever_is_taken_for_an_origin_is_one_word_that_is_taken_again() {
        for text in crate::testing::texts(b"a0:/[].,; '@", 5) {
            let text = format!("https://{}", String::from_utf8(text).unwrap());
            let Ok(origin) = text.parse::<WebOrigin>() else { continue };
            let form = origin.to_string();
            assert!(!form.contains([' ', ',', ';', '@']) && form.len() > 8, "{text}: {form}");
            assert_eq!(form.parse(), Ok(origin), "{text}");
        }
    }

    #[test]
    fn a_server_is_named_in_a_policy_for_requests_and_for_sockets() {
        for (text, sources) in [
            ("https://Call.example:443/", "https://call.example wss://call.example"),
            ("http://127.0.0.1:7610", "http://127.0.0.1:7610 ws://127.0.0.1:7610"),
        ] {
            assert_eq!(text.parse::<WebServer>().unwrap().sources(), sources);
        }
        for text in
            ["", "*", "https://*", "https://a;script-src", "https://a b", "https://[::1]", "https://a_b", "ws://a"]
        {
            assert_eq!(text.parse::<WebServer>(), Err(NotAWebServer(text.to_owned())));
        }
    }

    #[test]
    fn named_origins_may_call_others_may_not_and_programs_always_may() {
        let named = Origins::new(&["https://call.example".parse().unwrap(), "http://localhost:8000".parse().unwrap()]);
        for origin in ["https://call.example", "https://call.example:443", "http://localhost:8000"] {
            assert!(named.admits(&headers(&[origin])), "{origin}");
        }
        for origin in [
            "http://call.example",
            "https://call.example.evil",
            "https://call.example:8443",
            "null",
            "http://localhost",
        ] {
            assert!(!named.admits(&headers(&[origin])), "{origin}");
            assert!(Origins::new(&[]).admits(&headers(&[origin])), "{origin}");
        }
        assert!(named.admits(&headers(&[])));
        assert!(!named.admits(&headers(&["https://call.example", "https://other.example"])), "one of two");
    }
}
