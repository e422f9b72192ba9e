//! Certificates by ACME from pebble, the authority for tests, if it is installed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use support::{Server, on_any_port, run};
use tempfile::TempDir;
use tobari_client::ClientError;
use tobari_client::{ClientTls, Fingerprint, HttpClient, HttpReply, HttpRequest};
use tobari_host::testing::not_run;
use tobari_node::bind;
use tobari_node::{AcmeOptions, Tls};
use tokio::time::sleep;

const NAME: &str = "a_certificate_is_ordered_used_and_kept";

/// pebble, which checks challenges at `port`; it ends on drop.
struct Authority {
    child: Child,
    /// Its directory, and the URL of the root that it signs with.
    directory: String,
    management: String,
    folder: TempDir,
}

impl Authority {
    fn start(port: u16) -> std::io::Result<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root_key = KeyPair::generate().unwrap();
        let root = params.self_signed(&root_key).unwrap();
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&params, &root_key);
        let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        fs::write(at("root.pem"), root.pem()).unwrap();
        fs::write(at("own.pem"), own.pem()).unwrap();
        fs::write(at("key.pem"), key.serialize_pem()).unwrap();
        // free now, and the system does not give them to another process so soon
        let free = || TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        let (listen, manage) = (free(), free());
        let config = serde_json::json!({ "pebble": {
            "listenAddress": listen.to_string(), "managementListenAddress": manage.to_string(),
            "certificate": at("own.pem"), "privateKey": at("key.pem"),
            "httpPort": 1, "tlsPort": port,
            "profiles": { "default": { "description": "for a test", "validityPeriod": 7_776_000 } },
        }});
        fs::write(at("pebble.json"), config.to_string()).unwrap();
        let mut command = Command::new("pebble");
        command.args(["-config", &at("pebble.json")]).env("PEBBLE_VA_NOSLEEP", "1");
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let at = |port: u16| format!("https://localhost:{port}");
        Ok(Self { child, directory: at(listen.port()) + "/dir", management: at(manage.port()), folder })
    }

    fn trusted(&self) -> PathBuf {
        self.folder.path().join("root.pem")
    }

    /// The root of its certificates, in a file of a folder that outlives it.
    async fn root(&self, folder: &Path) -> PathBuf {
        let path = folder.join("signs.pem");
        let trust = ClientTls::CaFile(self.trusted());
        let reply = until(|| get(&self.management, "/roots/0", &trust)).await;
        fs::write(&path, &reply.body).unwrap();
        path
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn get(url: &str, path: &str, trust: &ClientTls) -> Result<HttpReply, ClientError> {
    let request = HttpRequest {
        body: None,
        path: path.to_owned(),
        headers: Vec::new(),
        most: 1 << 20,
        patience: Duration::from_secs(5),
    };
    HttpClient::new(url, trust)?.connection().send(request).await
}

/// The first successful reply; [`run`] limits the wait.
async fn until<F: Future<Output = Result<HttpReply, ClientError>>>(ask: impl Fn() -> F) -> HttpReply {
    loop {
        match ask().await {
            Ok(reply) => return reply,
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

fn options(folder: &Path, authority: &Authority) -> AcmeOptions {
    let mut options = AcmeOptions::new(vec!["localhost".to_owned()], folder.join("acme"));
    options.directory.clone_from(&authority.directory);
    // it outlives the authority, like an administrator's file
    let trusted = folder.join("authority.pem");
    fs::copy(authority.trusted(), &trusted).unwrap();
    options.authority = Some(trusted);
    options
}

#[test]
fn a_certificate_is_ordered_used_and_kept() {
    run(async {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let Ok(authority) = Authority::start(port) else { return not_run(NAME, "no pebble on PATH") };
        let folder = tempfile::tempdir().unwrap();
        let acme = options(folder.path(), &authority);
        let begin = || {
            let mut options = on_any_port();
            options.addr.set_port(port);
            options.tls = Tls::Acme(acme.clone());
            Server::of(options)
        };
        let root = ClientTls::CaFile(authority.root(folder.path()).await);
        let url = format!("https://localhost:{port}");
        let server = begin().await;
        assert!(server.fingerprint.is_none(), "a certificate that will be renewed is nothing to pin");
        let reply = until(|| get(&url, "/healthz", &root)).await;
        assert_eq!(reply.status, 200);
        let other = Fingerprint::of(b"another certificate");
        assert!(get(&url, "/healthz", &ClientTls::Pinned(other)).await.is_err());
        server.stop().await;
        // the next start needs no authority
        drop(authority);
        let server = begin().await;
        assert_eq!(until(|| get(&url, "/healthz", &root)).await.status, 200);
        server.stop().await;
        let mode = fs::metadata(&acme.folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "the folder holds the certificate's key");
    });
}

#[test]
fn a_folder_that_others_may_enter_and_names_that_are_none_are_refused() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let refused = async |name: &str, at: &Path| {
            let mut options = on_any_port();
            options.tls = Tls::Acme(AcmeOptions::new(vec![name.to_owned()], at.to_owned()));
            bind(options).await.err().expect("a refusal").to_string()
        };
        for name in ["", "*.example.org", "https://example.org", "127.0.0.1", "a b"] {
            let told = refused(name, &folder.path().join("new")).await;
            assert!(told.contains("expected the name of a host"), "{name}: {told}");
        }
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let told = refused("example.org", &open).await;
        assert!(told.contains("the folder must be private (chmod 700): its mode is 755"), "{told}");
    });
}
