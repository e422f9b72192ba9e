//! The table of rooms: one line for each package of the workspace.
//!
//! A line has the package's folder, the packages that it may use, whether it is pure, the places of
//! `unsafe`, and whether it runs in a browser. The checks and the steps use this table, and have no
//! list of packages or paths of their own. The check `crates::on_the_map` compares the table with
//! the workspace, so a room that is added, moved or removed needs a change here.
//!
//! The table goes from the bottom up: leaves first, programs last. Each room may use any room
//! below, and no room above or beside it. `order` has the rules for the lines.

use super::SourceFile;

/// The file of this table.
pub(crate) const TABLE: &str = "xtask/src/layout/rooms.rs";

/// A package of the workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Its name in the manifest; its folder may have another name.
    pub(crate) package: &'static str,
    /// Its folder, from the root of the repository.
    pub(crate) path: &'static str,
    /// The packages of the workspace that it may depend on, including those for its tests. A leaf
    /// has none.
    pub(crate) may_use: &'static [&'static str],
    /// `Some` for a pure room, which computes and never accesses the machine. The list has the
    /// external packages that its product code may depend on: arithmetic, hygiene, errors and text.
    pub(crate) outside: Option<&'static [&'static str]>,
    /// The places of `unsafe`: files, and folders with a final `/`, below its path. Without such
    /// places the roots of the room must forbid `unsafe`. With some places the roots deny it, and
    /// the places allow it again. With `WHOLE` the roots need no attribute.
    pub(crate) unsafe_in: &'static [&'static str],
    pub(crate) browser: Browser,
}

/// Whether the step `wasm` compiles a room for browsers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Browser {
    /// It does not run in browsers, or the step `web` compiles it, feature by feature.
    No,
    /// It is compiled in one run with the other rooms.
    Together,
    /// It is compiled in a run of its own: its library asks a page for randomness, and the other
    /// rooms must not.
    Alone,
}

/// The whole room as a place of `unsafe`.
const WHOLE: &[&str] = &[""];

/// The default values of a line: the room uses no other room, may access the machine, has no
/// `unsafe`, and does not run in a browser.
pub(crate) const PLAIN: Room =
    Room { package: "", path: "", may_use: &[], outside: None, unsafe_in: &[], browser: Browser::No };

/// Every package of the workspace, from the bottom up.
pub(crate) const ROOMS: &[Room] = &[
    Room {
        package: "tobari-octets",
        path: "crates/octets",
        outside: Some(&["sha2", "thiserror"]),
        browser: Browser::Together,
        ..PLAIN
    },
    Room {
        package: "tobari-simd",
        path: "crates/simd",
        outside: Some(&["chacha20", "thiserror", "zeroize"]),
        unsafe_in: &["src/kernels/"],
        browser: Browser::Together,
        ..PLAIN
    },
    Room {
        package: "tobari-aes",
        path: "crates/aes",
        may_use: &["tobari-simd"],
        outside: Some(&["aes", "thiserror", "zeroize"]),
        unsafe_in: &["src/kernels/"],
        browser: Browser::Together,
    },
    Room {
        package: "tobari-lattice",
        path: "crates/lattice",
        may_use: &["tobari-octets", "tobari-simd"],
        outside: Some(&["chacha20", "rand_core", "subtle", "thiserror", "zeroize"]),
        unsafe_in: &["src/kernels/"],
        browser: Browser::Together,
    },
    Room {
        package: "tobari-curve",
        path: "crates/curve",
        may_use: &["tobari-octets", "tobari-simd"],
        outside: Some(&["chacha20", "rand_core", "subtle", "thiserror", "zeroize"]),
        unsafe_in: &["src/kernels/"],
        browser: Browser::Together,
    },
    Room {
        package: "tobari-plan",
        path: "crates/plan",
        outside: Some(&["serde", "thiserror"]),
        browser: Browser::Together,
        ..PLAIN
    },
    Room {
        package: "tobari-engine",
        path: "crates/engine",
        may_use: &["tobari-octets", "tobari-lattice", "tobari-plan"],
        outside: Some(&["chacha20", "rand_core", "thiserror", "zeroize"]),
        browser: Browser::Together,
        ..PLAIN
    },
    Room {
        package: "tobari-enclave",
        path: "crates/enclave",
        outside: Some(&[
            "chacha20poly1305",
            "ed25519-dalek",
            "hkdf",
            "hpke",
            "p256",
            "p384",
            "rand_core",
            "sha2",
            "thiserror",
            "zeroize",
        ]),
        browser: Browser::Together,
        ..PLAIN
    },
    Room {
        package: "tobari-device",
        path: "crates/device",
        outside: Some(&["aes-gcm", "chacha20", "embedded-storage", "hmac", "sha2", "subtle", "zeroize"]),
        browser: Browser::Together,
        ..PLAIN
    },
    Room {
        package: "tobari-host",
        path: "crates/host",
        may_use: &["tobari-lattice", "tobari-plan", "tobari-enclave"],
        unsafe_in: WHOLE, // the machine
        ..PLAIN
    },
    Room { package: "tobari-client", path: "crates/client", ..PLAIN },
    Room {
        package: "tobari-node",
        path: "crates/node",
        may_use: &["tobari-client", "tobari-octets", "tobari-host"],
        ..PLAIN
    },
    Room {
        package: "tobari-command",
        path: "crates/command",
        may_use: &["tobari-client", "tobari-host", "tobari-node"],
        ..PLAIN
    },
    Room {
        package: "tobari-reference",
        path: "crates/reference",
        may_use: &["tobari-command", "tobari-engine", "tobari-host", "tobari-lattice", "tobari-plan"],
        ..PLAIN
    },
    Room {
        package: "tobari-call-group",
        path: "jobs/call/group",
        outside: Some(&[
            "aes-gcm",
            "chacha20",
            "curve25519-dalek",
            "ed25519-dalek",
            "hkdf",
            "hmac",
            "mls-rs",
            "mls-rs-core",
            "mls-rs-crypto-hpke",
            "mls-rs-crypto-traits",
            "rand_core",
            "sha2",
            "thiserror",
            "zeroize",
        ]),
        browser: Browser::Alone,
        ..PLAIN
    },
    Room {
        package: "tobari-call",
        path: "jobs/call/protocol",
        may_use: &["tobari-call-group", "tobari-octets", "tobari-simd", "tobari-curve"],
        outside: Some(&[
            "aes-gcm",
            "bytes",
            "chacha20",
            "ed25519-dalek",
            "hkdf",
            "rand_core",
            "serde",
            "serde_json",
            "sha2",
            "subtle",
            "thiserror",
            "zeroize",
        ]),
        browser: Browser::Together,
        ..PLAIN
    },
    Room { package: "tobari-call-files", path: "jobs/call/files", may_use: &["tobari-host"], ..PLAIN },
    Room {
        package: "tobari-call-edge",
        path: "jobs/call/edge",
        may_use: &[
            "tobari-client",
            "tobari-command",
            "tobari-curve",
            "tobari-host",
            "tobari-node",
            "tobari-octets",
            "tobari-call",
            "tobari-call-files",
        ],
        ..PLAIN
    },
    Room {
        package: "tobari-search",
        path: "jobs/search/protocol",
        may_use: &["tobari-octets", "tobari-lattice", "tobari-plan", "tobari-engine"],
        outside: Some(&["chacha20", "curve25519-dalek", "rand_core", "sha2", "thiserror", "zeroize"]),
        browser: Browser::Together,
        ..PLAIN
    },
    Room {
        package: "tobari-search-files",
        path: "jobs/search/files",
        may_use: &["tobari-host", "tobari-lattice", "tobari-search"],
        unsafe_in: &["tests/decode_cost.rs"],
        ..PLAIN
    },
    Room {
        package: "tobari-search-edge",
        path: "jobs/search/edge",
        may_use: &[
            "tobari-client",
            "tobari-command",
            "tobari-engine",
            "tobari-host",
            "tobari-lattice",
            "tobari-node",
            "tobari-octets",
            "tobari-plan",
            "tobari-reference",
            "tobari-search",
            "tobari-search-files",
        ],
        ..PLAIN
    },
    Room {
        package: "tobari-infer",
        path: "jobs/infer/protocol",
        may_use: &["tobari-octets", "tobari-lattice", "tobari-plan", "tobari-engine", "tobari-enclave"],
        outside: Some(&["bytes", "chacha20", "rand_core", "serde", "sha2", "thiserror", "zeroize"]),
        browser: Browser::Together,
        ..PLAIN
    },
    Room {
        package: "tobari-infer-deep",
        path: "jobs/infer/deep",
        may_use: &["tobari-octets", "tobari-lattice", "tobari-infer"],
        outside: Some(&["chacha20", "rand_core", "sha2", "thiserror", "zeroize"]),
        ..PLAIN
    },
    Room {
        package: "tobari-infer-files",
        path: "jobs/infer/files",
        may_use: &["tobari-host", "tobari-lattice", "tobari-enclave", "tobari-infer", "tobari-infer-deep"],
        ..PLAIN
    },
    Room {
        package: "tobari-infer-edge",
        path: "jobs/infer/edge",
        may_use: &[
            "tobari-client",
            "tobari-command",
            "tobari-enclave",
            "tobari-host",
            "tobari-lattice",
            "tobari-node",
            "tobari-octets",
            "tobari-plan",
            "tobari-infer",
            "tobari-infer-deep",
            "tobari-infer-files",
        ],
        ..PLAIN
    },
    Room {
        package: "tobari-sense",
        path: "jobs/sense/protocol",
        may_use: &["tobari-octets", "tobari-lattice", "tobari-plan", "tobari-engine", "tobari-device"],
        outside: Some(&[
            "chacha20",
            "hmac",
            "ml-kem",
            "rand_core",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
            "zeroize",
        ]),
        browser: Browser::Together,
        ..PLAIN
    },
    Room {
        package: "tobari-sense-files",
        path: "jobs/sense/files",
        may_use: &["tobari-octets", "tobari-host", "tobari-device", "tobari-lattice", "tobari-sense"],
        ..PLAIN
    },
    Room {
        package: "tobari-sense-edge",
        path: "jobs/sense/edge",
        may_use: &[
            "tobari-client",
            "tobari-command",
            "tobari-device",
            "tobari-engine",
            "tobari-host",
            "tobari-lattice",
            "tobari-node",
            "tobari-octets",
            "tobari-plan",
            "tobari-reference",
            "tobari-sense",
            "tobari-sense-files",
        ],
        ..PLAIN
    },
    Room {
        package: "tobari-seal",
        path: "jobs/seal/protocol",
        may_use: &["tobari-aes"],
        outside: Some(&["aes-gcm", "argon2", "bytes", "hkdf", "hmac", "rand_core", "sha2", "thiserror", "zeroize"]),
        browser: Browser::Together,
        ..PLAIN
    },
    Room {
        package: "tobari-seal-files",
        path: "jobs/seal/files",
        may_use: &["tobari-aes", "tobari-host", "tobari-plan", "tobari-seal"],
        unsafe_in: &["src/dispatch/openssl.rs", "src/dispatch/reach.rs"],
        ..PLAIN
    },
    Room {
        package: "tobari-seal-edge",
        path: "jobs/seal/edge",
        may_use: &["tobari-command", "tobari-host", "tobari-plan", "tobari-seal", "tobari-seal-files"],
        ..PLAIN
    },
    Room {
        package: "tobari-cli",
        path: "cli",
        may_use: &[
            "tobari-client",
            "tobari-command",
            "tobari-curve",
            "tobari-device",
            "tobari-enclave",
            "tobari-host",
            "tobari-lattice",
            "tobari-node",
            "tobari-reference",
            "tobari-simd",
            "tobari-call",
            "tobari-call-files",
            "tobari-call-edge",
            "tobari-search",
            "tobari-search-files",
            "tobari-search-edge",
            "tobari-infer",
            "tobari-infer-deep",
            "tobari-infer-files",
            "tobari-infer-edge",
            "tobari-sense",
            "tobari-sense-files",
            "tobari-sense-edge",
            "tobari-seal",
            "tobari-seal-files",
            "tobari-seal-edge",
        ],
        ..PLAIN
    },
    Room {
        package: "tobari-bench",
        path: "tools/bench",
        may_use: &[
            "tobari-aes",
            "tobari-client",
            "tobari-command",
            "tobari-curve",
            "tobari-device",
            "tobari-host",
            "tobari-lattice",
            "tobari-plan",
            "tobari-reference",
            "tobari-simd",
            "tobari-call",
            "tobari-call-edge",
            "tobari-search",
            "tobari-search-edge",
            "tobari-infer",
            "tobari-infer-deep",
            "tobari-infer-files",
            "tobari-infer-edge",
            "tobari-sense",
            "tobari-sense-edge",
            "tobari-seal",
            "tobari-seal-files",
            "tobari-seal-edge",
        ],
        ..PLAIN
    },
    Room {
        package: "tobari-ct",
        path: "tools/ct",
        may_use: &["tobari-curve", "tobari-lattice", "tobari-simd"],
        unsafe_in: &["src/memcheck.rs", "src/memory.rs", "src/trace.rs"],
        ..PLAIN
    },
    Room {
        package: "tobari-corpora",
        path: "tools/corpora",
        may_use: &[
            "tobari-curve",
            "tobari-device",
            "tobari-enclave",
            "tobari-host",
            "tobari-lattice",
            "tobari-plan",
            "tobari-call-group",
            "tobari-call",
            "tobari-call-files",
            "tobari-search",
            "tobari-search-files",
            "tobari-infer",
            "tobari-infer-deep",
            "tobari-infer-files",
            "tobari-sense",
            "tobari-seal",
            "tobari-seal-files",
        ],
        ..PLAIN
    },
    Room {
        package: "tobari-wasm",
        path: "web/client",
        may_use: &[
            "tobari-curve",
            "tobari-device",
            "tobari-lattice",
            "tobari-octets",
            "tobari-call-group",
            "tobari-call",
            "tobari-infer",
            "tobari-search",
            "tobari-sense",
        ],
        unsafe_in: &["src/abi/"], // exports names to JavaScript
        ..PLAIN
    },
    Room {
        package: "tobari-py",
        path: "python",
        // the last two only share features in tests; the module does not use them
        may_use: &[
            "tobari-device",
            "tobari-engine",
            "tobari-lattice",
            "tobari-octets",
            "tobari-plan",
            "tobari-infer",
            "tobari-infer-deep",
            "tobari-infer-files",
            "tobari-search",
            "tobari-search-files",
            "tobari-sense",
            "tobari-sense-files",
            "tobari-cli",
            "tobari-enclave",
        ],
        ..PLAIN
    },
    Room { package: "xtask", path: "xtask", ..PLAIN },
];

impl Room {
    /// The path of a file below the room, from the room's own folder on; none for other files.
    pub(crate) fn inside<'f>(&self, path: &'f str) -> Option<&'f str> {
        path.strip_prefix(self.path)?.strip_prefix('/')
    }

    /// Whether `unsafe` may be written in the file with this path from the room's folder on.
    pub(crate) fn allows_unsafe(&self, inside: &str) -> bool {
        let is_folder = |place: &str| place.is_empty() || place.ends_with('/');
        self.unsafe_in.iter().any(|place| if is_folder(place) { inside.starts_with(place) } else { inside == *place })
    }

    /// The level that the roots of the room must set for `unsafe_code`.
    pub(crate) fn unsafe_level(&self) -> Option<&'static str> {
        match self.unsafe_in {
            [] => Some("forbid"),
            places if places == WHOLE => None,
            _ => Some("deny"),
        }
    }
}

/// The room of this package.
pub(crate) fn find<'r>(rooms: &'r [Room], package: &str) -> Option<&'r Room> {
    rooms.iter().find(|room| room.package == package)
}

/// The path of this package's room, from the root of the repository.
///
/// # Errors
/// No room has this package.
pub(crate) fn path(package: &str) -> Result<&'static str, String> {
    find(ROOMS, package).map(|room| room.path).ok_or_else(|| format!("{TABLE} has no room {package}"))
}

/// The innermost room with this file, and the file's path from the room's folder on.
pub(crate) fn containing<'r, 'f>(rooms: &'r [Room], path: &'f str) -> Option<(&'r Room, &'f str)> {
    let inside = rooms.iter().filter_map(|room| Some((room, room.inside(path)?)));
    inside.min_by_key(|(_, inside)| inside.len())
}

/// Every room whose manifest is among the files, with the manifest.
pub(crate) fn members<'a>(
    rooms: &'a [Room],
    files: &'a [SourceFile],
) -> impl Iterator<Item = (&'a Room, &'a SourceFile)> {
    let manifest = |room: &Room| files.iter().find(|file| room.inside(&file.path) == Some("Cargo.toml"));
    rooms.iter().filter_map(move |room| Some((room, manifest(room)?)))
}

/// A table for the tests of the checks. No folder has the name of its package.
#[cfg(test)]
pub(crate) const TOY: &[Room] = &[
    Room {
        package: "house-core",
        path: "crates/core",
        outside: Some(&["zeroize"]),
        unsafe_in: &["src/simd/", "src/simd.rs"],
        ..PLAIN
    },
    Room { package: "house-song", path: "jobs/sing/protocol", may_use: &["house-core"], outside: Some(&[]), ..PLAIN },
    Room { package: "house-machine", path: "crates/machine", unsafe_in: WHOLE, ..PLAIN },
    Room { package: "house", path: "cli", may_use: &["house-core", "house-song", "house-machine"], ..PLAIN },
    Room { package: "chores", path: "xtask", ..PLAIN },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_innermost_room_around_it() {
        let nested =
            [Room { package: "outer", path: "web", ..PLAIN }, Room { package: "inner", path: "web/client", ..PLAIN }];
        let of = |path| containing(&nested, path).map(|(room, inside)| (room.package, inside));
        assert_eq!(of("web/client/src/lib.rs"), Some(("inner", "src/lib.rs")));
        assert_eq!(of("web/clients/a.rs"), Some(("outer", "clients/a.rs")));
        assert_eq!(of("website/a.rs"), None);
    }

    #[test]
    fn a_room_is_found_by_its_package_and_by_nothing_else() {
        assert_eq!(path("xtask"), Ok("xtask"));
        assert!(path("crates/xtask").is_err() && path("").is_err());
    }

    #[test]
    fn a_place_of_unsafe_is_a_file_a_folder_or_the_whole_room() {
        let allows = |package: &str, inside: &str| find(TOY, package).unwrap().allows_unsafe(inside);
        assert!(allows("house-core", "src/simd.rs") && allows("house-core", "src/simd/a/b.rs"));
        assert!(!allows("house-core", "src/simd.rs.rs") && !allows("house-core", "src/simd_other.rs"));
        assert!(allows("house-machine", "tests/a.rs") && !allows("house", "src/main.rs"));
    }

    #[test]
    fn the_level_at_the_roots_follows_from_the_places() {
        let level = |package: &str| find(TOY, package).unwrap().unsafe_level();
        assert_eq!(level("house"), Some("forbid"));
        assert_eq!(level("house-core"), Some("deny"));
        assert_eq!(level("house-machine"), None);
    }

    #[test]
    fn every_pure_room_may_use_pure_rooms_only() {
        for room in ROOMS.iter().filter(|room| room.outside.is_some()) {
            let pure = |name: &&str| find(ROOMS, name).is_some_and(|used| used.outside.is_some());
            assert!(room.may_use.iter().all(pure), "{}", room.package);
        }
    }
}
