//! A live call through the proxies with configurations in `deploy`, if their programs are
//! installed.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use super::support::{
    self, Server,
    live::{Caller, asked},
    rng, run,
};
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use tobari_call::live::{RoomLink, Settings};
use tobari_client::{ClientTls, Fingerprint};
use tobari_host::testing::not_run;

const NGINX: &str = "a_call_goes_through_nginx_as_deploy_configures_it";
const CADDY: &str = "a_call_goes_through_caddy_as_deploy_configures_it";

/// The path of a program. Servers are often in folders that are only in an administrator's path.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn deployed(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Replaces each of these in the text; each must occur.
fn with(text: &str, changes: &[(&str, String)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "expected `{from}` in the configuration, found none");
        text.replace(from, to)
    })
}

/// nginx in its own folder, with the file of `deploy` as a site; it ends on drop.
struct Nginx {
    child: Child,
    addr: SocketAddr,
    fingerprint: Fingerprint,
    folder: TempDir,
}

impl Nginx {
    fn start(program: &Path, upstream: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(at("chain.pem"), certificate.pem()).unwrap();
        std::fs::write(at("key.pem"), key.serialize_pem()).unwrap();
        // free now, and the system does not assign it again so soon
        let addr = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let site = with(
            &deployed("nginx/tobari.conf"),
            &[
                ("server 127.0.0.1:7610;", format!("server {upstream};")),
                ("listen 443 ssl;", format!("listen {addr} ssl;")),
                ("server_name call.example;", "server_name localhost;".to_owned()),
                ("/etc/ssl/tobari/fullchain.pem", at("chain.pem")),
                ("/etc/ssl/tobari/privkey.pem", at("key.pem")),
            ],
        );
        std::fs::write(at("site.conf"), site).unwrap();
        let mut whole = format!("pid {};\nevents {{}}\nhttp {{\n", at("pid"));
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            whole.push_str(&format!("{kind}_temp_path {};\n", at(kind)));
        }
        whole.push_str(&format!("include {};\n}}\n", at("site.conf")));
        std::fs::write(at("nginx.conf"), whole).unwrap();
        let mut command = Command::new(program);
        command.args(["-p", &at(""), "-c", &at("nginx.conf"), "-e", &at("errors")]);
        command.args(["-g", "daemon off; master_process off;"]).stdin(Stdio::null());
        let child = command.spawn().unwrap();
        let nginx = Self { child, addr, fingerprint: Fingerprint::of(certificate.der()), folder };
        nginx.listens();
        nginx
    }

    fn listens(&self) {
        let begun = Instant::now();
        while TcpStream::connect(self.addr).is_err() {
            assert!(begun.elapsed() < support::PATIENCE, "nginx does not listen: {}", self.errors());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two members that hear one another through this URL, and are still connected.
async fn a_call_of_two(url: &str, tls: &ClientTls, log: impl Fn() -> String) -> [Caller; 2] {
    let settings = Settings { speakers: 4, ..Settings::default() };
    let link = RoomLink::new(url, "canary-room".parse().unwrap(), settings, &mut rng(1));
    let mut one = Caller::enter_trusting(&link, 2, 700, tls).await.unwrap();
    let mut two = Caller::enter_trusting(&link, 3, -9, tls).await.unwrap();
    tokio::join!(one.call(150), two.call(150));
    for (caller, other) in [(&one, -9), (&two, 700)] {
        assert_eq!(caller.alarms(), 0, "{:?}", caller.news);
        let both = caller.heard.iter().filter(|heard| heard.speakers.len() == 2).collect::<Vec<_>>();
        assert!(both.len() > 40, "{} sums of two: {}", both.len(), log());
        assert!(both.iter().all(|heard| heard.samples.iter().all(|sample| *sample == other)));
    }
    [one, two]
}

#[test]
fn a_call_goes_through_nginx_as_deploy_configures_it() {
    let Some(program) = program("nginx") else { return not_run(NGINX, "no nginx on PATH") };
    run(async {
        let server = Server::with(|options| options.behind_proxy = true).await;
        let nginx = Nginx::start(&program, server.addr);
        let url = format!("https://localhost:{}", nginx.addr.port());
        let _members = a_call_of_two(&url, &ClientTls::Pinned(nginx.fingerprint), || nginx.errors()).await;
        assert!(asked(server.addr, "/metrics").await.contains("tobari_call_members 2\n"));
        let errors = nginx.errors();
        assert!(!errors.contains("canary-room"), "the room's name is in nginx's log: {errors}");
    });
}

/// Caddy in its own folder, with the file of `deploy` and without a certificate; it ends on drop.
struct Caddy {
    child: Child,
    addr: SocketAddr,
    folder: TempDir,
}

impl Caddy {
    fn start(program: &Path, upstream: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let addr = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let site = with(
            &deployed("caddy/Caddyfile"),
            &[
                // a name would have Caddy ask for a certificate
                ("call.example {", format!("http://{addr} {{")),
                ("reverse_proxy 127.0.0.1:7610 {", format!("reverse_proxy {upstream} {{")),
            ],
        );
        let file = folder.path().join("Caddyfile");
        std::fs::write(&file, format!("{{\n\tadmin off\n}}\n{site}")).unwrap();
        let mut command = Command::new(program);
        command.args(["run", "--config"]).arg(&file).args(["--adapter", "caddyfile"]).env("HOME", folder.path());
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let caddy = Self { child, addr, folder };
        let begun = Instant::now();
        while TcpStream::connect(addr).is_err() {
            assert!(begun.elapsed() < support::PATIENCE, "caddy does not listen: {}", caddy.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        caddy
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Caddy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_call_goes_through_caddy_as_deploy_configures_it() {
    let Some(program) = program("caddy") else { return not_run(CADDY, "no caddy on PATH") };
    run(async {
        let server = Server::with(|options| options.behind_proxy = true).await;
        let caddy = Caddy::start(&program, server.addr);
        let _members = a_call_of_two(&format!("http://{}", caddy.addr), &ClientTls::System, || caddy.log()).await;
        assert!(asked(server.addr, "/metrics").await.contains("tobari_call_members 2\n"));
        let log = caddy.log();
        assert!(!log.contains("canary-room"), "the room's name is in Caddy's log: {log}");
    });
}
