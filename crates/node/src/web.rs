//! The pages: static files, and their fingerprint.
//!
//! `/` is the page of all jobs, and `/JOB/` the page of one ([`Page`]). `/jobs` lists, as JSON, the
//! jobs that this server serves or has a page of, and whether it serves each.
//!
//! The server must not learn the data that it computes with, but it serves the code that holds the
//! keys. So the files are built into the program ([`PageFile`]): their fingerprint is known
//! beforehand ([`Bundle::digest`], `tobari info`) and can be compared with the files in a browser.
//! Every client gets the same files. A server without files shows no page.
//!
//! **The fingerprint** is SHA-256 of the lines that `sha256sum` prints for the files in `web/` by
//! name, in the order of [`Bundle::names`].
//!
//! **Headers.** A page loads, runs and contacts nothing from other origins
//! (`Content-Security-Policy`), and sends no `Referer`. The page is isolated (COOP and COEP), so
//! that its worker and its sound can share memory. The files that a page lists ([`Page::calling`])
//! may also connect to the configured other servers ([`WebServer`]): then this server can serve the
//! page for servers that are not trusted to serve it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
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
use tobari_client::Fingerprint;

use crate::{WebServer, job::Page};

/// A file of the pages, built into a program.
#[derive(Clone, Copy, Debug)]
pub struct PageFile {
    /// The path below `/web/`.
    pub name: &'static str,
    /// The `Content-Type`.
    pub kind: &'static str,
    /// The content.
    pub bytes: &'static [u8],
}

/// The headers of every answer, besides the policy.
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

/// The policy. Scripts, styles and connections are limited to this origin, with `servers` added for
/// connections; WebAssembly may be compiled.
fn policy(servers: &[WebServer]) -> HeaderValue {
    let servers: String = servers.iter().map(|server| format!(" {}", server.sources())).collect();
    let policy = format!(
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self' data:; \
         connect-src 'self'{servers}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or_else(|_| HeaderValue::from_static("default-src 'none'"))
}

/// The files of the pages.
///
/// ```
/// use tobari_node::{Bundle, PageFile};
/// let start = PageFile { name: "start.html", kind: "text/html", bytes: b"<!doctype html>" };
/// let bundle = Bundle::of(&[start]);
/// assert_eq!(bundle.names().collect::<Vec<_>>(), ["start.html"]);
/// assert_eq!(bundle.digest().to_string().len(), 64);
/// ```
#[derive(Clone, Default)]
pub struct Bundle {
    files: Vec<(&'static str, &'static str, Cow<'static, [u8]>)>,
}

/// A file of a replacement page that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: expected a file of the page, found none that can be read: {source}", path.display())]
pub struct BundleError {
    /// The file.
    pub path: PathBuf,
    /// The error of the system.
    pub source: std::io::Error,
}

impl Bundle {
    /// The files that are built into a program, in the order of names.
    pub fn of(files: &[PageFile]) -> Self {
        let file = |PageFile { name, kind, bytes }: &PageFile| (*name, *kind, Cow::Borrowed(*bytes));
        let mut files: Vec<_> = files.iter().map(file).collect();
        files.sort_by_key(|(name, _, _)| *name);
        Self { files }
    }

    /// The files of the same names in a folder, as they are now.
    ///
    /// # Errors
    /// [`BundleError`] if one of them is missing.
    pub fn read(&self, folder: &Path) -> Result<Self, BundleError> {
        let read = |(name, kind, _): &(&'static str, &'static str, Cow<'static, [u8]>)| {
            let path = folder.join(name);
            match std::fs::read(&path) {
                Ok(bytes) => Ok((*name, *kind, Cow::Owned(bytes))),
                Err(source) => Err(BundleError { path, source }),
            }
        };
        Ok(Self { files: self.files.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// The files' names, in the order of the fingerprint.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.files.iter().map(|file| file.0)
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

    /// Whether there is no file.
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

struct Pages {
    files: HashMap<&'static str, Served>,
    /// The answer at `/jobs`.
    jobs: String,
    policy: HeaderValue,
    /// The files that may connect to other servers, and their policy.
    calling: (Vec<&'static str>, HeaderValue),
}

/// The answer at `/` for programs.
const GREETING: &str = "Tobari: a blind server. It mixes what it cannot hear.\n";

/// The routes of the pages (`/`, `/JOB/`), of their files (`/web/…`) and of the list of jobs
/// (`/jobs`). The files in [`Page::calling`] may call `servers` besides this one.
pub(crate) fn routes(bundle: Bundle, served: &[&'static str], shown: &[Page], servers: &[WebServer]) -> Router {
    let serve = |(name, kind, bytes): (&'static str, &'static str, Cow<'static, [u8]>)| {
        let tag = format!("\"{}\"", Fingerprint::of(&bytes));
        let bytes = match bytes {
            Cow::Borrowed(bytes) => axum::body::Bytes::from_static(bytes),
            Cow::Owned(bytes) => bytes.into(),
        };
        (name, Served { kind, tag, bytes })
    };
    let files = bundle.files.into_iter().map(serve).collect();
    let others = shown.iter().map(|page| (page.job, false));
    let jobs: BTreeMap<&str, bool> = others.chain(served.iter().map(|job| (*job, true))).collect();
    let calling = shown.iter().flat_map(|page| page.calling).copied().collect();
    let pages = Arc::new(Pages {
        files,
        jobs: serde_json::to_string(&jobs).unwrap_or_default(),
        policy: policy(&[]),
        calling: (calling, policy(servers)),
    });
    let own = Router::new().route("/", get(start)).route("/jobs", get(told)).route("/web/{*file}", get(file));
    shown.iter().fold(own, |all, page| all.merge(shown_at(page))).with_state(pages)
}

/// The routes of a page.
fn shown_at(page: &Page) -> Router<Arc<Pages>> {
    let Page { job, file, also, .. } = *page;
    let show = get(async move |State(pages): State<Arc<Pages>>, headers: HeaderMap| pages.answer(file, &headers));
    let way = get(async move || Redirect::temporary(&format!("{job}/")));
    let main = Router::new().route(&format!("/{job}"), way).route(&format!("/{job}/"), show.clone());
    also.iter().fold(main, |all, path| all.route(path, show.clone()))
}

/// Programs get a line of text, browsers the page.
async fn start(State(pages): State<Arc<Pages>>, headers: HeaderMap) -> Response {
    let vary = [(header::VARY, "accept")];
    if wants_page(&headers) {
        (vary, pages.answer("start.html", &headers)).into_response()
    } else {
        (vary, GREETING).into_response()
    }
}

async fn told(State(pages): State<Arc<Pages>>) -> Response {
    let policy = [(header::CONTENT_SECURITY_POLICY, pages.policy.clone())];
    (headers(), policy, [(header::CONTENT_TYPE, "application/json")], pages.jobs.clone()).into_response()
}

async fn file(State(pages): State<Arc<Pages>>, Asked(name): Asked<String>, headers: HeaderMap) -> Response {
    pages.answer(&name, &headers)
}

impl Pages {
    fn answer(&self, name: &str, headers: &HeaderMap) -> Response {
        let (calling, wide) = &self.calling;
        let policy = if calling.contains(&name) { wide } else { &self.policy };
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

/// Whether the client is a browser.
fn wants_page(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).is_some_and(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/html")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [PageFile; 3] = [
        PageFile { name: "b.js", kind: "text/javascript", bytes: b"export {};" },
        PageFile { name: "dist/c.wasm", kind: "application/wasm", bytes: b"\0asm\x01\0\0\0" },
        PageFile { name: "a.html", kind: "text/html", bytes: b"<!doctype html>" },
    ];

    #[test]
    fn files_are_in_the_order_of_their_names_however_they_are_listed() {
        let bundle = Bundle::of(&FILES);
        assert_eq!(bundle.names().collect::<Vec<_>>(), ["a.html", "b.js", "dist/c.wasm"]);
        let turned: Vec<PageFile> = FILES.iter().rev().copied().collect();
        assert!(Bundle::of(&turned).digest() == bundle.digest());
        assert!(Bundle::default().is_empty() && !bundle.is_empty());
    }

    #[test]
    fn one_byte_in_one_file_changes_the_fingerprint() {
        let usual = Bundle::of(&FILES);
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
