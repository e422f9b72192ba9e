//! A job of a few lines: it echoes, counts, keeps a file, and fails on request.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::future::BoxFuture;
use serde_json::json;
use tobari_host::storage::Trouble;
use tobari_node::{
    Given, Job, JobError, Offer, Page, Running, StartupNotes, body, clients::Place, disk::no_room, memory::Memory,
    metrics::Metrics, reading, reply::Reply,
};

/// The state through which a test observes and controls the job.
#[derive(Default)]
pub(crate) struct Strings {
    pub(crate) is_full: AtomicBool,
    pub(crate) began: AtomicBool,
    pub(crate) ended: AtomicBool,
    /// Whether the reading of a body began.
    pub(crate) came: AtomicBool,
    echoes: AtomicU64,
}

/// The job that is not open yet.
pub(crate) struct ToyOffer {
    pub(crate) folder: PathBuf,
    pub(crate) strings: Arc<Strings>,
}

/// The job, open.
struct Toy {
    memory: Memory,
    strings: Arc<Strings>,
}

impl ToyOffer {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), strings: Arc::default() }
    }
}

impl Offer for ToyOffer {
    fn folders(&self) -> Vec<PathBuf> {
        vec![self.folder.clone()]
    }

    fn open(self: Box<Self>, given: Given) -> BoxFuture<'static, Result<Arc<dyn Job>, JobError>> {
        Box::pin(async move {
            let path = self.folder.join("toy");
            reading(move || fs::write(path, b"a toy's")).await?;
            let Self { strings, .. } = *self;
            Ok(Arc::new(Toy { memory: given.bounds.memory, strings }) as Arc<dyn Job>)
        })
    }
}

impl Job for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn routes(&self, _: &Running) -> Router {
        let (memory, strings) = (self.memory.clone(), Arc::clone(&self.strings));
        Router::new()
            .route("/toy/v1", post(echo))
            .route("/toy/v1/things/{name}", get(async || Reply::new(StatusCode::NOT_FOUND, "thing", "no such thing")))
            .fallback(async || (StatusCode::NOT_FOUND, "the toy knows better\n"))
            .layer(Extension(memory))
            .with_state(strings)
    }

    fn trouble(&self) -> Option<Trouble> {
        self.strings.is_full.load(SeqCst).then_some(Trouble::Full)
    }

    fn metrics(&self, metrics: &mut Metrics) {
        metrics.counter("tobari_toy_echoes_total", "Echoes.").set(self.strings.echoes.load(SeqCst));
    }

    fn page(&self) -> Option<Page> {
        Some(Page { job: "toy", file: "toy.html", also: &["/toy/box/{name}"], calling: &["toy.html"] })
    }

    fn keep_up(self: Arc<Self>, mut running: Running) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.strings.began.store(true, SeqCst);
            running.stopped.wait().await;
            self.strings.ended.store(true, SeqCst);
        })
    }

    fn told(&self) -> StartupNotes {
        let [line, warning] = ["a toy", "it may break"].map(|text| vec![text.to_owned()]);
        StartupNotes { members: vec![("toy", json!(7))], lines: line, warnings: warning }
    }
}

/// Sends a body back; its bytes count for its client until then.
async fn echo(
    State(strings): State<Arc<Strings>>,
    Extension(memory): Extension<Memory>,
    Extension(place): Extension<Place>,
    body: Body,
) -> Result<Response, Reply> {
    strings.came.store(true, SeqCst);
    let mut claim = memory.claim(&place.guest.origin);
    let bytes: Bytes = body::read(body, 1 << 10, Duration::from_secs(5), &mut claim).await?;
    if strings.is_full.load(SeqCst) {
        return Err(no_room(Trouble::Full));
    }
    strings.echoes.fetch_add(1, SeqCst);
    Ok(bytes.into_response())
}

/// A job that does not open.
pub(crate) struct Broken;

impl Offer for Broken {
    fn open(self: Box<Self>, _: Given) -> BoxFuture<'static, Result<Arc<dyn Job>, JobError>> {
        Box::pin(reading(|| Err::<Arc<dyn Job>, _>(io::Error::other("the toy is broken"))))
    }
}
