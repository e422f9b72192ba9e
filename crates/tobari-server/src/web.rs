//! The pages: static files, and their fingerprint.
//!
//! `/` is the page of all jobs, `/call/` that of live rooms, `/infer/` that of images, `/search/` that of tables, `/sense/` that of fleets; `/jobs` says, as JSON, which jobs this server does.
//!
//! The server that must not hear a call, or see an image, serves the code that holds its keys. What it serves by itself is built into the program, so that
//! its fingerprint can be told beforehand ([`Bundle::digest`], `tobari info`) and compared with what a browser got. Nothing of it depends on
//! who asks.
//!
//! **The fingerprint** is SHA-256 of the lines that `sha256sum` prints of the files in `web/` by name, in the order of [`Bundle::names`].
//!
//! **Headers.** Nothing from elsewhere is loaded, run, or asked (`Content-Security-Policy`), no address is passed on, and the page stands
//! alone (COOP and COEP), so that its worker and its sound share memory. The page of live rooms may call other servers as well where they are
//! named ([`WebServer`]): then this server can give the page away for servers that are not trusted with it.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    Router,
    extract::{Path as Asked, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};

use crate::{Fingerprint, WebServer};

/// A file of the page: its name, its type, and what is built in.
type Part = (&'static str, &'static str, &'static [u8]);

macro_rules! parts {
    ($($name:literal: $kind:literal),* $(,)?) => {
        &[$(($name, $kind, include_bytes!(concat!("../../../web/", $name)))),*]
    };
}

/// By name.
static PARTS: &[Part] = parts! {
    "alarms.js": "text/javascript; charset=utf-8",
    "asking.js": "text/javascript; charset=utf-8",
    "audio.js": "text/javascript; charset=utf-8",
    "bins.js": "text/javascript; charset=utf-8",
    "bundle.js": "text/javascript; charset=utf-8",
    "call.html": "text/html; charset=utf-8",
    "client.js": "text/javascript; charset=utf-8",
    "digit.js": "text/javascript; charset=utf-8",
    "dist/ask.wasm": "application/wasm",
    "dist/sense.wasm": "application/wasm",
    "dist/tobari-mls.wasm": "application/wasm",
    "dist/tobari.wasm": "application/wasm",
    "ends.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "infer-client.js": "text/javascript; charset=utf-8",
    "infer-worker.js": "text/javascript; charset=utf-8",
    "infer.html": "text/html; charset=utf-8",
    "infer.js": "text/javascript; charset=utf-8",
    "main.js": "text/javascript; charset=utf-8",
    "module.js": "text/javascript; charset=utf-8",
    "pages.css": "text/css; charset=utf-8",
    "people.js": "text/javascript; charset=utf-8",
    "ring.js": "text/javascript; charset=utf-8",
    "scope.js": "text/javascript; charset=utf-8",
    "search-client.js": "text/javascript; charset=utf-8",
    "search-worker.js": "text/javascript; charset=utf-8",
    "search.html": "text/html; charset=utf-8",
    "search.js": "text/javascript; charset=utf-8",
    "sense-client.js": "text/javascript; charset=utf-8",
    "sense-worker.js": "text/javascript; charset=utf-8",
    "sense.html": "text/html; charset=utf-8",
    "sense.js": "text/javascript; charset=utf-8",
    "server.js": "text/javascript; charset=utf-8",
    "start.html": "text/html; charset=utf-8",
    "start.js": "text/javascript; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "vcf.js": "text/javascript; charset=utf-8",
    "words.js": "text/javascript; charset=utf-8",
    "worker.js": "text/javascript; charset=utf-8",
};

/// What every answer says, besides the policy.
fn headers() -> [(HeaderName, &'static str); 7] {
    [
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-embedder-policy"), "require-corp"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (
            HeaderName::from_static("permissions-policy"),
            "microphone=(self), speaker-selection=(self), camera=(), geolocation=()",
        ),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache"),
    ]
}

/// Scripts, styles and connections are this origin's own, and connections those to `servers`, too; WebAssembly may be compiled.
fn policy(servers: &[WebServer]) -> HeaderValue {
    let servers: String = servers.iter().map(|server| format!(" {}", server.sources())).collect();
    let policy = format!(
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'{servers}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
}

/// The files whose policy lets live rooms on other servers be called: the page, and the worker that connects.
const CALLING: [&str; 2] = ["call.html", "worker.js"];

/// The files of the page.
///
/// ```
/// use tobari_server::Bundle;
/// assert_eq!(Bundle::embedded().digest().to_string().len(), 64);
/// assert!(Bundle::names().any(|name| name == "call.html"));
/// ```
#[derive(Clone)]
pub struct Bundle {
    files: Vec<(&'static str, &'static str, Cow<'static, [u8]>)>,
}

/// A file of another page that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: expected a file of the page, found none that can be read: {source}", path.display())]
pub struct BundleError {
    /// The file.
    pub path: PathBuf,
    /// What the system says.
    pub source: std::io::Error,
}

impl Bundle {
    /// What is built into this program.
    pub fn embedded() -> Self {
        Self { files: PARTS.iter().map(|(name, kind, bytes)| (*name, *kind, Cow::Borrowed(*bytes))).collect() }
    }

    /// Files of these names in a folder, as they are now.
    ///
    /// # Errors
    /// [`BundleError`] if one of them is missing.
    pub fn read(folder: &Path) -> Result<Self, BundleError> {
        let read = |(name, kind, _): &Part| {
            let path = folder.join(name);
            match std::fs::read(&path) {
                Ok(bytes) => Ok((*name, *kind, Cow::Owned(bytes))),
                Err(source) => Err(BundleError { path, source }),
            }
        };
        Ok(Self { files: PARTS.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// The files' names, in the order of the fingerprint.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PARTS.iter().map(|part| part.0)
    }

    /// The fingerprint of all files together.
    pub fn digest(&self) -> Fingerprint {
        let line = |(name, _, bytes): &(&str, &str, Cow<'_, [u8]>)| format!("{}  {name}\n", Fingerprint::of(bytes));
        Fingerprint::of(self.files.iter().map(line).collect::<String>().as_bytes())
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.files.iter().map(|(_, _, bytes)| bytes.len()).sum()
    }

    /// Is there nothing? Never.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

/// A file, ready to be sent.
struct Served {
    kind: &'static str,
    tag: String,
    bytes: axum::body::Bytes,
}

struct Page {
    files: std::collections::HashMap<&'static str, Served>,
    jobs: Jobs,
    policy: HeaderValue,
    /// That of [`CALLING`].
    calling: HeaderValue,
}

/// Which jobs a server does.
#[derive(Clone, Copy, serde::Serialize)]
pub(crate) struct Jobs {
    pub(crate) call: bool,
    pub(crate) infer: bool,
    pub(crate) search: bool,
    pub(crate) sense: bool,
}

/// What programs are told at `/`.
const GREETING: &str = "Tobari: a blind server. It mixes what it cannot hear.\n";

/// `/`, `/infer/`, `/search/`, `/sense/`, `/call/` and `/call/{room}` are the pages, `/web/…` what belongs to them. The page of live rooms may call `servers`,
/// besides this one.
pub(crate) fn routes(bundle: Bundle, jobs: Jobs, servers: &[WebServer]) -> Router {
    let serve = |(name, kind, bytes): (&'static str, &'static str, Cow<'static, [u8]>)| {
        let tag = format!("\"{}\"", Fingerprint::of(&bytes));
        let bytes = match bytes {
            Cow::Borrowed(bytes) => axum::body::Bytes::from_static(bytes),
            Cow::Owned(bytes) => bytes.into(),
        };
        (name, Served { kind, tag, bytes })
    };
    let files = bundle.files.into_iter().map(serve).collect();
    let page = Arc::new(Page { files, jobs, policy: policy(&[]), calling: policy(servers) });
    Router::new()
        .route("/", get(start))
        .route("/jobs", get(told))
        .route("/infer", get(|| async { Redirect::temporary("infer/") }))
        .route("/infer/", get(infer))
        .route("/search", get(|| async { Redirect::temporary("search/") }))
        .route("/search/", get(search))
        .route("/sense", get(|| async { Redirect::temporary("sense/") }))
        .route("/sense/", get(sense))
        .route("/call", get(|| async { Redirect::temporary("call/") }))
        .route("/call/", get(call))
        .route("/call/{room}", get(call))
        .route("/web/{*file}", get(file))
        .with_state(page)
}

/// Programs get a line, people the page.
async fn start(State(page): State<Arc<Page>>, headers: HeaderMap) -> Response {
    let vary = [(header::VARY, "accept")];
    if wants_page(&headers) {
        (vary, page.answer("start.html", &headers)).into_response()
    } else {
        (vary, GREETING).into_response()
    }
}

async fn told(State(page): State<Arc<Page>>) -> Response {
    let told = serde_json::to_string(&page.jobs).unwrap_or_default();
    let policy = [(header::CONTENT_SECURITY_POLICY, page.policy.clone())];
    (headers(), policy, [(header::CONTENT_TYPE, "application/json")], told).into_response()
}

async fn infer(State(page): State<Arc<Page>>, headers: HeaderMap) -> Response {
    page.answer("infer.html", &headers)
}

async fn search(State(page): State<Arc<Page>>, headers: HeaderMap) -> Response {
    page.answer("search.html", &headers)
}

async fn sense(State(page): State<Arc<Page>>, headers: HeaderMap) -> Response {
    page.answer("sense.html", &headers)
}

async fn call(State(page): State<Arc<Page>>, headers: HeaderMap) -> Response {
    page.answer("call.html", &headers)
}

async fn file(State(page): State<Arc<Page>>, Asked(name): Asked<String>, headers: HeaderMap) -> Response {
    page.answer(&name, &headers)
}

impl Page {
    fn answer(&self, name: &str, headers: &HeaderMap) -> Response {
        let policy = if CALLING.contains(&name) { &self.calling } else { &self.policy };
        let policy = [(header::CONTENT_SECURITY_POLICY, policy.clone())];
        let Some(Served { kind, tag, bytes }) = self.files.get(name) else {
            return (StatusCode::NOT_FOUND, self::headers(), policy, "there is no such file of the page\n")
                .into_response();
        };
        let known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
        let tag = [(header::ETAG, tag.clone())];
        if known {
            return (StatusCode::NOT_MODIFIED, self::headers(), policy, tag).into_response();
        }
        (self::headers(), policy, tag, [(header::CONTENT_TYPE, *kind)], bytes.clone()).into_response()
    }
}

/// Is somebody asking who reads pages?
fn wants_page(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).is_some_and(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/html")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_those_that_the_page_hashes_itself() {
        let names: Vec<&str> = Bundle::names().collect();
        assert!(names.is_sorted_by(|a, b| a < b));
        let script = String::from_utf8(PARTS.iter().find(|part| part.0 == "bundle.js").unwrap().2.to_vec()).unwrap();
        let list = script.split_once('[').unwrap().1.split_once(']').unwrap().0;
        let listed: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(listed, names);
    }

    #[test]
    fn one_byte_in_one_file_changes_the_fingerprint() {
        let usual = Bundle::embedded();
        for index in 0..usual.files.len() {
            let mut other = usual.clone();
            other.files[index].2.to_mut()[7] ^= 1;
            assert!(other.digest() != usual.digest());
        }
        let mut swapped = usual.clone();
        let first = swapped.files[0].2.clone();
        swapped.files[0].2 = std::mem::replace(&mut swapped.files[1].2, first);
        assert!(swapped.digest() != usual.digest());
    }
}
