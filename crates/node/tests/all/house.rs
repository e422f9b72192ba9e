//! The server's answers about jobs that it does not know.

use std::{future::Future, io, sync::Arc, sync::atomic::Ordering::SeqCst, time::Duration};

use serde_json::{Value, json};
use tobari_client::{ClientTls, HttpClient, HttpReply, HttpRequest};
use tobari_node::{Bundle, Page, PageFile, ServerError, ServerOptions, bind};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

use crate::toy::{Broken, Strings, ToyOffer};

/// Far longer than anything here takes: a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

struct TestServer {
    url: String,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl TestServer {
    async fn with(change: impl FnOnce(&mut ServerOptions)) -> Result<Self, ServerError> {
        let server = bind(options(change)).await?;
        let (url, (stop, stopped)) = (server.url(), oneshot::channel());
        Ok(Self { url, stop, running: tokio::spawn(server.run(async { drop(stopped.await) })) })
    }

    /// A server with one toy job.
    async fn of(toy: ToyOffer) -> (Self, Arc<Strings>) {
        let strings = Arc::clone(&toy.strings);
        let house = Self::with(|options| options.jobs.push(Box::new(toy))).await.unwrap();
        (house, strings)
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap();
    }

    async fn ask(&self, path: &str, body: Option<&'static str>, headers: &[(&'static str, &str)]) -> HttpReply {
        let mut connection = HttpClient::new(&self.url, &ClientTls::System).unwrap().connection();
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let body = body.map(Into::into);
        let request = HttpRequest { body, path: path.to_owned(), headers, most: 1 << 20, patience: PATIENCE };
        connection.send(request).await.unwrap()
    }

    /// Status and text of an answer.
    async fn get(&self, path: &str) -> (u16, String) {
        let reply = self.ask(path, None, &[]).await;
        (reply.status, text(&reply))
    }

    /// The same for `/readyz`, as JSON.
    async fn ready(&self) -> (u16, Value) {
        let reply = self.ask("/readyz", None, &[("accept", "application/json")]).await;
        (reply.status, serde_json::from_slice(&reply.body).unwrap())
    }
}

fn options(change: impl FnOnce(&mut ServerOptions)) -> ServerOptions {
    let mut options = ServerOptions::new(([127, 0, 0, 1], 0).into());
    change(&mut options);
    options
}

fn text(reply: &HttpReply) -> String {
    String::from_utf8(reply.body.to_vec()).unwrap()
}

/// Runs a test on two threads, and fails it if it hangs.
fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(async { timeout(PATIENCE, test).await.expect("the test hangs") });
}

#[test]
fn a_job_that_nothing_else_knows_is_served_and_told_of() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let server = bind(options(|options| options.jobs.push(Box::new(ToyOffer::new(folder.path()))))).await.unwrap();
        let told = server.told();
        assert_eq!(told.members, [("toy", json!(7))]);
        assert_eq!((told.lines, told.warnings), (vec!["a toy".to_owned()], vec!["it may break".to_owned()]));
        drop(server);
        let (house, _) = TestServer::of(ToyOffer::new(folder.path())).await;
        let reply = house.ask("/toy/v1", Some("hello"), &[]).await;
        assert_eq!((reply.status, text(&reply).as_str()), (200, "hello"));
        assert_eq!(house.get("/readyz").await, (200, "ready\n".to_owned()));
        assert_eq!(house.ready().await, (200, json!({ "ready": true, "jobs": { "toy": { "state": "ready" } } })));
        assert_eq!(house.get("/jobs").await, (200, r#"{"toy":true}"#.to_owned()));
        let (status, text) = house.get("/metrics").await;
        assert!(status == 200 && text.starts_with("# HELP tobari_edge_misdirected_total "), "{text}");
        assert!(text.ends_with("# TYPE tobari_toy_echoes_total counter\ntobari_toy_echoes_total 1\n"), "{text}");
        house.stop().await;
    });
}

#[test]
fn a_job_is_shown_by_its_page_and_the_page_of_another_is_there_too() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let other = Page { job: "other", file: "other.html", also: &[], calling: &[] };
        let file = |name, bytes| PageFile { name, kind: "text/html; charset=utf-8", bytes };
        let house = TestServer::with(|options| {
            options.jobs.push(Box::new(ToyOffer::new(folder.path())));
            options.pages = vec![other, Page { job: "toy", ..other }];
            options.bundle = Bundle::of(&[file("toy.html", b"the toy's"), file("other.html", b"the other's")]);
            options.web_servers.push("https://call.example".parse().unwrap());
        });
        let house = house.await.unwrap();
        assert_eq!(house.get("/jobs").await.1, r#"{"other":false,"toy":true}"#);
        let page = house.get("/web/toy.html").await;
        assert_eq!(page, (200, "the toy's".to_owned()));
        for path in ["/toy/", "/toy/box/red"] {
            assert_eq!(house.get(path).await, page, "{path}");
        }
        assert_eq!(house.get("/other/").await, (200, "the other's".to_owned()));
        assert_eq!(house.ask("/toy", None, &[]).await.header("location"), Some("toy/"));
        for (path, may) in [("/toy/", true), ("/web/toy.html", true), ("/other/", false), ("/jobs", false)] {
            let reply = house.ask(path, None, &[]).await;
            let policy = reply.header("content-security-policy").unwrap();
            assert_eq!(policy.contains("https://call.example"), may, "{path}: {policy}");
        }
        house.stop().await;
    });
}

#[test]
fn what_a_job_does_not_know_is_its_own_affair_and_what_nobody_knows_is_nobodys() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let (house, _) = TestServer::of(ToyOffer::new(folder.path())).await;
        let reply = house.ask("/toy/v1/things/ball", None, &[]).await;
        assert_eq!((reply.status, reply.header("tobari-refusal")), (404, Some("thing")));
        for path in ["/call/v1/room", "/search/v1", "/toy/v2", "/none"] {
            assert_eq!(house.get(path).await, (404, String::new()), "{path}: no job speaks for the house");
        }
        house.stop().await;
    });
}

#[test]
fn a_folder_is_locked_once_whichever_jobs_share_it_and_no_other_house_has_it() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let (house, _) = TestServer::of(ToyOffer::new(folder.path())).await;
        let second = TestServer::with(|options| options.jobs.push(Box::new(ToyOffer::new(folder.path())))).await;
        let Err(ServerError::Data(error)) = second else { panic!("two houses have one folder") };
        assert!(error.to_string().contains("uses this folder: stop it"), "{error}");
        house.stop().await;
        let (again, _) = TestServer::of(ToyOffer::new(folder.path())).await;
        again.stop().await;
        let two = [ToyOffer::new(folder.path()), ToyOffer::new(folder.path())];
        let two = bind(options(|options| options.jobs.extend(two.map(|toy| Box::new(toy) as _)))).await;
        assert!(two.is_ok(), "two jobs of one house share it");
    });
}

#[test]
fn trouble_of_a_job_is_the_houses_until_it_is_over() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let (house, strings) = TestServer::of(ToyOffer::new(folder.path())).await;
        strings.is_full.store(true, SeqCst);
        let failing = json!({ "state": "failing", "reason": "storage is full" });
        assert_eq!(house.ready().await, (503, json!({ "ready": false, "jobs": { "toy": failing } })));
        assert_eq!(house.get("/readyz").await.0, 503);
        let refused = house.ask("/toy/v1", Some("hello"), &[]).await;
        assert_eq!((refused.status, refused.header("tobari-refusal")), (507, Some("storage")));
        assert_eq!(house.get("/healthz").await, (200, "ok".to_owned()), "the process answers all the same");
        strings.is_full.store(false, SeqCst);
        assert_eq!(house.get("/readyz").await, (200, "ready\n".to_owned()));
        house.stop().await;
    });
}

#[test]
fn what_a_job_keeps_up_ends_with_the_house() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let (house, strings) = TestServer::of(ToyOffer::new(folder.path())).await;
        until(|| strings.began.load(SeqCst)).await;
        assert!(!strings.ended.load(SeqCst));
        house.stop().await;
        until(|| strings.ended.load(SeqCst)).await;
    });
}

/// Waits; [`run`] limits the wait.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_house_that_closes_says_so_of_every_job_while_somebody_is_there() {
    run(async {
        let (folder, strings) = (tempfile::tempdir().unwrap(), Arc::default());
        let toy = ToyOffer { folder: folder.path().to_owned(), strings: Arc::clone(&strings) };
        let server = bind(options(|options| {
            options.jobs.push(Box::new(toy));
            options.limits.drain = PATIENCE;
        }));
        let server = server.await.unwrap();
        let (addr, url, (stop, stopped)) = (server.local_addr(), server.url(), oneshot::channel());
        let running = tokio::spawn(server.run(async { drop(stopped.await) }));
        let mut slow = TcpStream::connect(addr).await.unwrap();
        slow.write_all(b"POST /toy/v1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhe").await.unwrap();
        until(|| strings.came.load(SeqCst)).await;
        stop.send(()).unwrap();
        let house = TestServer { url, stop: oneshot::channel().0, running };
        // the signal takes a moment to arrive
        while house.get("/readyz").await != (503, "closing\n".to_owned()) {}
        assert_eq!(house.ready().await, (503, json!({ "ready": false, "jobs": { "toy": { "state": "closing" } } })));
        slow.write_all(b"llo").await.unwrap();
        let mut answer = String::new();
        slow.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nhello"), "{answer}");
        house.running.await.unwrap();
    });
}

#[test]
fn a_job_that_does_not_open_says_why_in_its_own_words() {
    run(async {
        let Err(error) = bind(options(|options| options.jobs.push(Box::new(Broken)))).await else {
            panic!("what is broken is served")
        };
        assert_eq!(error.to_string(), "the toy is broken");
        let ServerError::Job(error) = error else { panic!("{error}") };
        let error = error.downcast::<std::fmt::Error>().expect_err("it is of another type");
        assert_eq!(error.downcast::<io::Error>().unwrap().kind(), io::ErrorKind::Other);
    });
}

#[test]
fn a_house_without_a_job_is_ready_and_counts() {
    run(async {
        let house = TestServer::with(|_| {}).await.unwrap();
        assert_eq!(house.get("/readyz").await, (200, "ready\n".to_owned()));
        assert_eq!(house.ready().await, (200, json!({ "ready": true, "jobs": {} })));
        assert_eq!(house.get("/jobs").await, (200, "{}".to_owned()));
        assert!(house.get("/").await.1.starts_with("Tobari: "));
        let (status, metrics) = house.get("/metrics").await;
        assert!(status == 200 && metrics.contains("tobari_edge_misdirected_total 0\n"), "{metrics}");
        house.stop().await;
    });
}
