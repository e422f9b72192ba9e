//! The container image: the static program, a folder for data, and nothing else.
//!
//! One file has the image in two forms: the layout of the Open Container Initiative, and the older
//! form that every engine loads (`docker load`, `podman load`). The server does not run as root.

use super::pack::{Tree, sha256};
use super::{Built, Product, Target, names};
use crate::child::output;
use crate::json::{array, object, string};
use std::process::Command;

/// The user of the server, as in `deploy/Containerfile`.
const USER: u64 = 65_532;
const SECOND: u64 = 1_000_000_000; // in nanoseconds
const MEDIA: &str = "application/vnd.oci.image";

/// The file system of the image.
pub(super) fn layer(program: &[u8]) -> Tree {
    let mut tree = Tree::default();
    tree.program("tobari", program);
    tree.folder("data", 0o700, USER);
    tree.folder("tmp", 0o1777, 0);
    tree.file("etc/passwd", format!("root:x:0:0:root:/:/nologin\ntobari:x:{USER}:{USER}:tobari:/data:/nologin\n"));
    tree.file("etc/group", format!("root:x:0:\ntobari:x:{USER}:\n"));
    tree
}

/// The image as one file.
///
/// # Errors
/// The date cannot be written.
pub(super) fn pack(product: &Product, built: &Built, target: &Target) -> Result<Vec<u8>, String> {
    let io = |error: std::io::Error| error.to_string();
    let mut date = Command::new("date");
    let created = output(date.args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", &format!("--date=@{}", product.time)]))?;
    let layer = layer(&built.program).tar("", product.time).map_err(io)?;
    let settings = settings(product, target, created.trim(), &sha256(&layer));
    whole(product, &layer, settings.as_bytes()).tar("", product.time).map_err(io)
}

/// How an engine runs the image. The health check is asked for as Docker and Podman read it.
fn settings(product: &Product, target: &Target, created: &str, layer: &str) -> String {
    let words = |list: &[&str]| array(list.iter().map(|word| string(word)));
    let empty = || object([]);
    let health = object([
        ("Test", words(&["CMD", "/tobari", "healthcheck"])),
        ("Interval", (30 * SECOND).to_string()),
        ("Timeout", (10 * SECOND).to_string()),
        ("StartPeriod", (60 * SECOND).to_string()),
        ("Retries", "3".to_owned()),
    ]);
    let labels = object([
        ("org.opencontainers.image.title", string(names::IMAGE)),
        ("org.opencontainers.image.version", string(&product.version)),
        ("org.opencontainers.image.licenses", string("MIT OR Apache-2.0")),
    ]);
    let run = object([
        ("User", string(&format!("{USER}:{USER}"))),
        ("ExposedPorts", object([("7610/tcp", empty())])),
        ("Env", words(&["PATH=/"])),
        ("Entrypoint", words(&["/tobari"])),
        ("Cmd", words(&["serve", "--addr", "0.0.0.0:7610"])),
        ("Volumes", object([("/data", empty())])),
        ("WorkingDir", string("/data")),
        ("Labels", labels),
        ("Healthcheck", health),
    ]);
    let layers = object([("type", string("layers")), ("diff_ids", words(&[&format!("sha256:{layer}")]))]);
    let history = object([("created", string(created)), ("created_by", string("cargo xtask dist"))]);
    object([
        ("created", string(created)),
        ("architecture", string(target.debian)),
        ("os", string("linux")),
        ("config", run),
        ("rootfs", layers),
        ("history", array([history])),
    ])
}

fn whole(product: &Product, layer: &[u8], settings: &[u8]) -> Tree {
    let described = |kind: &str, bytes: &[u8], more: Vec<(&'static str, String)>| {
        let mut fields = vec![
            ("mediaType", string(&format!("{MEDIA}.{kind}"))),
            ("digest", string(&format!("sha256:{}", sha256(bytes)))),
            ("size", bytes.len().to_string()),
        ];
        fields.extend(more);
        object(fields)
    };
    let manifest = object([
        ("schemaVersion", "2".to_owned()),
        ("mediaType", string(&format!("{MEDIA}.manifest.v1+json"))),
        ("config", described("config.v1+json", settings, vec![])),
        ("layers", array([described("layer.v1.tar", layer, vec![])])),
    ]);
    let tag = format!("{}:{}", names::IMAGE, product.version);
    let annotations = object([
        ("io.containerd.image.name", string(&tag)),
        ("org.opencontainers.image.ref.name", string(&product.version)),
    ]);
    let one = described("manifest.v1+json", manifest.as_bytes(), vec![("annotations", annotations)]);
    let index = object([
        ("schemaVersion", "2".to_owned()),
        ("mediaType", string(&format!("{MEDIA}.index.v1+json"))),
        ("manifests", array([one])),
    ]);
    let blob = |bytes: &[u8]| format!("blobs/sha256/{}", sha256(bytes));
    let older = object([
        ("Config", string(&blob(settings))),
        ("RepoTags", array([string(&tag)])),
        ("Layers", array([string(&blob(layer))])),
    ]);
    let mut tree = Tree::default();
    for bytes in [layer, settings, manifest.as_bytes()] {
        tree.file(blob(bytes), bytes);
    }
    tree.file("oci-layout", object([("imageLayoutVersion", string("1.0.0"))]));
    tree.file("index.json", index);
    tree.file("manifest.json", array([older]));
    tree
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::TARGETS;
    use std::path::PathBuf;

    #[test]
    fn every_digest_in_the_image_leads_to_a_file() {
        let product = Product { root: PathBuf::new(), version: "0.9.0".to_owned(), time: 1_000_000_000 };
        let built = Built { program: b"program".to_vec(), bill: String::new(), share: Tree::default() };
        let layer = layer(&built.program).tar("", product.time).unwrap();
        let settings = settings(&product, &TARGETS[0], "2001-09-09T01:46:40Z", &sha256(&layer));
        assert!(settings.contains(&format!(r#""diff_ids":["sha256:{}"]"#, sha256(&layer))), "{settings}");
        assert!(settings.contains(r#""Healthcheck":{"Test":["CMD","/tobari","healthcheck"]"#), "{settings}");
        let tree = whole(&product, &layer, settings.as_bytes());
        let (mut digests, mut blobs) = (0, 0);
        for (path, bytes) in tree.files() {
            if let Some(digest) = path.strip_prefix("blobs/sha256/") {
                assert_eq!(sha256(bytes), digest);
                blobs += 1;
            }
            // the layer is the one file that is no text
            for piece in String::from_utf8_lossy(bytes).split("sha256:").skip(1).filter(|_| bytes != layer) {
                let digest = &piece[..64];
                assert!(tree.files().any(|(path, _)| path.ends_with(digest)), "{path}: {digest}");
                digests += 1;
            }
        }
        assert_eq!((blobs, digests), (3, 4), "the manifest, its layer and its settings, and the layer again");
        assert_eq!(pack(&product, &built, &TARGETS[0]), pack(&product, &built, &TARGETS[0]));
    }
}
