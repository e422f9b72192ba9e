//! The npm package of the browser's clients: the modules of `web/dist`, and the JavaScript that
//! gives their functions types. The pages themselves stay with the server.

use super::pack::Tree;
use super::{Product, names};
use crate::json::{array, object, string};

/// Names to import, their JavaScript, and the module that it needs.
const CLIENTS: [(&str, &str, Option<&str>); 5] = [
    ("call", "client.js", Some("tobari.wasm")),
    ("infer", "infer-client.js", Some("ask.wasm")),
    ("search", "search-client.js", Some("ask.wasm")),
    ("sense", "sense-client.js", Some("sense.wasm")),
    ("server", "server.js", None),
];
/// What these files import.
const SHARED: [&str; 1] = ["module.js"];
/// A module beside those of the clients: calls with keys that the members agree on.
const MORE: &str = "tobari-mls.wasm";

/// The content of the package.
///
/// # Errors
/// A missing file of the repository.
pub(super) fn pack(product: &Product) -> Result<Tree, String> {
    let mut tree = Tree::default();
    for name in CLIENTS.iter().map(|(_, file, _)| *file).chain(SHARED) {
        tree.file(name, product.read(&format!("web/{name}"))?);
    }
    for name in CLIENTS.iter().filter_map(|(.., module)| *module).chain([MORE]) {
        tree.file(format!("dist/{name}"), product.read(&format!("web/dist/{name}"))?);
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        tree.file(licence, product.read(licence)?);
    }
    tree.file("package.json", manifest(product));
    tree.file("README.md", readme());
    Ok(tree)
}

fn manifest(product: &Product) -> String {
    let clients = CLIENTS.iter().map(|(name, file, _)| (format!("./{name}"), format!("./{file}")));
    let exports: Vec<(String, String)> = clients.chain([("./dist/*".to_owned(), "./dist/*".to_owned())]).collect();
    object([
        ("name", string(names::NPM)),
        ("version", string(&product.version)),
        ("description", string("Clients of Tobari for browsers: servers compute on data that they cannot see")),
        ("license", string("MIT OR Apache-2.0")),
        ("type", string("module")),
        ("exports", object(exports.iter().map(|(name, file)| (name.as_str(), string(file))))),
        ("sideEffects", "false".to_owned()),
        ("keywords", array(["homomorphic-encryption", "privacy", "webassembly"].map(string))),
    ]) + "\n"
}

fn readme() -> String {
    let name = names::NPM;
    let rows: String = CLIENTS
        .iter()
        .filter_map(|(client, _, module)| Some(format!("| `{name}/{client}` | `{name}/dist/{}` |\n", (*module)?)))
        .collect();
    format!(
        "# Tobari in the browser\n\nClients that encrypt in the page. A server computes on the ciphertexts, and cannot read \
         them.\n\n```js\nimport {{ Infer }} from \"{name}/infer\";\n\nconst file = new URL(import.meta.resolve(\"{name}/dist/ask.wasm\"));\n\
         const module = await WebAssembly.compileStreaming(fetch(file));\nconst client = await Infer.make(module, (bytes) => \
         crypto.getRandomValues(bytes));\n```\n\n| import | its module |\n|---|---|\n{rows}\nThe modules import nothing: they reach no \
         network and no page. `{name}/server` sends requests.\nFor calls with keys that the members agree on, use `dist/{MORE}`.\n\n\
         Tobari is research software, not reviewed by anybody outside the project.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_package_has_every_file_that_its_files_import() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = pack(&Product { root: root.to_owned(), version: "0.9.0".to_owned(), time: 0 }).unwrap();
        let names: Vec<&str> = tree.files().map(|(path, _)| path).collect();
        let mut imports = 0;
        for (path, bytes) in tree.files().filter(|(path, _)| path.ends_with(".js")) {
            for piece in String::from_utf8_lossy(bytes).split("from \"./").skip(1) {
                let import = piece.split('"').next().unwrap();
                assert!(names.contains(&import), "{path} imports {import}: {names:?}");
                imports += 1;
            }
        }
        assert!(imports >= 4, "{imports}");
    }
}
