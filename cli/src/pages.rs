//! The files of the pages, which are built into this program: see [`tobari_node::Bundle`].

use tobari_node::{Bundle, PageFile};

macro_rules! files {
    ($($name:literal: $kind:literal),* $(,)?) => {
        &[$(PageFile { name: $name, kind: $kind, bytes: include_bytes!(concat!("../../web/", $name)) }),*]
    };
}

/// Sorted by name; `web/bundle.js` lists the same files.
static FILES: &[PageFile] = files! {
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

/// All files of the pages.
pub fn bundle() -> Bundle {
    Bundle::of(FILES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_those_that_the_page_hashes_itself() {
        let names: Vec<&str> = bundle().names().collect();
        assert!(names.is_sorted_by(|a, b| a < b));
        let script = FILES.iter().find(|file| file.name == "bundle.js").unwrap().bytes;
        let script = String::from_utf8(script.to_vec()).unwrap();
        let list = script.split_once('[').unwrap().1.split_once(']').unwrap().0;
        let listed: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(listed, names);
    }
}
