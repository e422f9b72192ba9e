//! The benchmarks of each job at each size, and the headlines of the page.

use super::{Job, Size};

/// A part of the report.
pub(super) struct Part {
    pub(super) job: Job,
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// A description of the benchmark, and notes for its reader.
    pub(super) about: &'static str,
    /// The text for a part without a peer in `record`.
    pub(super) no_peers: Option<&'static str>,
    /// The arguments of `tobari-bench`.
    pub(super) calls: fn(Size) -> Vec<&'static str>,
    /// The shown files, and their titles; files of the same name hold the same table.
    pub(super) tables: &'static [(&'static str, &'static str)],
    pub(super) headlines: &'static [Headline],
}

/// A row at the head of the page: our cell, and a cell of the paper or the target.
pub(super) struct Headline {
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) ours: Place,
    pub(super) paper: Place,
    /// The note to the row.
    pub(super) note: &'static str,
}

/// A cell: the file, the beginnings of cells in its row, and its column.
pub(super) struct Place {
    pub(super) file: &'static str,
    pub(super) row: &'static [(&'static str, &'static str)],
    pub(super) column: &'static str,
}

impl Part {
    /// Whether this machine can run the part.
    pub(super) fn runs_here(&self) -> bool {
        let linux = cfg!(linux_64);
        linux || !matches!(self.job, Job::Infer | Job::Seal)
    }
}

const OUR_CURVE: &[(&str, &str)] =
    &[("engine", "tobari"), ("curve", "secp256k1"), ("mode", "elgamal"), ("timing", "variable")];
const OUR_CONSTANT_TIME: &[(&str, &str)] =
    &[("engine", "tobari"), ("curve", "secp256k1"), ("mode", "elgamal"), ("timing", "constant")];
const PAPERS_CURVE: &[(&str, &str)] = &[("engine", "paper"), ("curve", "secp256k1")];

/// A headline of table 4, beside the paper's.
const fn of_a_sample(
    what: &'static str,
    row: &'static [(&'static str, &'static str)],
    column: &'static str,
    note: &'static str,
) -> Headline {
    let ours = Place { file: "table4.csv", row, column };
    let paper = Place { file: "table4.csv", row: PAPERS_CURVE, column };
    Headline { what, unit: "ns", ours, paper, note }
}

/// All parts, in the order of the page.
pub(super) static PARTS: [Part; 6] = [
    Part {
        job: Job::Call,
        name: "call",
        title: "Call: voices that the server cannot hear",
        about: "The time of one operation on one sample of 16 kHz speech, by curve, and of the sum of a whole room. The paper counts clocks with four threads on the client; its nanoseconds here are those clocks \
over the frequency that it states. Its table 6 falls as one over the square of the threads, as if it had been divided twice: read its many-thread rows with that in mind.",
        no_peers: None,
        calls: |size| match size {
            Size::Least => vec!["call --paper --curve secp256k1 --runs 1"],
            Size::Small => vec!["call --paper --curve secp256k1,NIST_P256 --runs 5"],
            Size::Paper => vec!["call --paper"],
        },
        tables: &[
            ("table4.csv", "Table 4: the time of an operation on a sample, the paper's and this machine's"),
            ("table5.csv", "Table 5: the paper's real-time criteria"),
            ("table6.csv", "Table 6: the time of the sum of a room on a sample"),
        ],
        headlines: &[
            of_a_sample(
                "Encrypt a sample, secp256k1, constant time",
                OUR_CONSTANT_TIME,
                "encrypt_ns",
                "ours on one thread, the paper's with four and in variable time",
            ),
            of_a_sample(
                "Encrypt a sample, secp256k1, variable time",
                OUR_CURVE,
                "encrypt_ns",
                "ours on one thread, the paper's with four",
            ),
            of_a_sample(
                "Decrypt a sample, secp256k1, variable time",
                OUR_CURVE,
                "decrypt_ns",
                "ours on one thread, the paper's with four",
            ),
            Headline {
                what: "Add up 1,024 speakers on one thread",
                unit: "ns",
                ours: Place {
                    file: "table6.csv",
                    row: &[("engine", "tobari"), ("inputs", "1024"), ("threads", "1")],
                    column: "ns",
                },
                paper: Place {
                    file: "table6.csv",
                    row: &[("engine", "paper"), ("inputs", "1024"), ("threads", "1")],
                    column: "ns",
                },
                note: "a sample of secp256k1",
            },
        ],
    },
    Part {
        job: Job::Sense,
        name: "sense",
        title: "Sense: readings that the server cannot see",
        about: "What a device and the server pay for 256 readings in each design of the paper's figure 4, each in a process of its own, and frames a second that a server takes with every batch on its disk. One \
thread of this machine stands for the paper's phone. The server's cell of design 2, AES under encryption, takes minutes and 10 GiB and is not in this report: tobari-bench sense --paper --memory 10GiB has it.",
        no_peers: Some(
            "No peer's figures are on record: AES-GCM, design 2 of the table, is measured here, and AES under encryption, 16 blocks, took HElib 84 to 104 s on one core of an AMD Zen 5 at 2.6 GHz, outside the record, with almost no room left to compute.",
        ),
        calls: |size| match size {
            Size::Least => vec!["sense --paper --without-exact --frames 512 --ingest-runs 1"],
            Size::Small => vec!["sense --paper --frames 20000 --ingest-runs 1"],
            Size::Paper => vec!["sense --paper"],
        },
        tables: &[
            ("figure-4.csv", "Figure 4 as numbers: this machine in place of the paper's phone and server"),
            ("ratios.csv", "Times faster on the device than other designs, and the paper's ratios"),
        ],
        headlines: &[Headline {
            what: "Device: times faster than encrypting bit by bit",
            unit: "×",
            ours: Place { file: "ratios.csv", row: &[("beside", "1-bitwise")], column: "3-p1" },
            paper: Place { file: "ratios.csv", row: &[("beside", "1-bitwise")], column: "paper" },
            note: "one thread of this machine stands for a phone",
        }],
    },
    Part {
        job: Job::Infer,
        name: "infer",
        title: "Infer: images that the server cannot see",
        about: "A drawn digit through a small network in every combination of process, enclave and encryption, from the client's pixels to the label. The enclave is simulated: a process of its own that gives up \
every right but computing; what it costs is copies and system calls, not hardware. The paper's milliseconds are its own on other hardware, with one ciphertext a channel: the difference is layout, code and machine together.",
        no_peers: Some(
            "No peer's figures are on record: Concrete ML, Orion and HElayers take networks far larger than this one, and none of them was measured beside it.",
        ),
        calls: |size| match size {
            Size::Least => vec!["infer --paper --set infer-f --runs 1"],
            Size::Small => vec!["infer --paper --set infer-f --runs 5"],
            Size::Paper => vec!["infer --paper"],
        },
        tables: &[
            ("table6.csv", "Table 6: an image, by combination"),
            ("layers.csv", "Tables 6 and 10: by step"),
            ("sessions.csv", "What a session costs before its first image"),
            ("table7.csv", "Table 7: into the enclave, round trip"),
            ("operations.csv", "Tables 8 and 9: encoding, encryption, decryption, decoding"),
            ("tables13-14.csv", "Tables 13 and 14: the paper's policy by the paper's own costs, and the cheapest plan"),
        ],
        headlines: &[
            Headline {
                what: "An image, encrypted, in a plain process",
                unit: "ms",
                ours: Place { file: "table6.csv", row: &[("combination", "process-user-data")], column: "ms" },
                paper: Place { file: "table6.csv", row: &[("combination", "process-user-data")], column: "paper ms" },
                note: "keys made in a simulated enclave; another layout than the paper's",
            },
            Headline {
                what: "The same with encrypted weights",
                unit: "ms",
                ours: Place { file: "table6.csv", row: &[("combination", "process-both")], column: "ms" },
                paper: Place { file: "table6.csv", row: &[("combination", "process-both")], column: "paper ms" },
                note: "keys made in a simulated enclave; another layout than the paper's",
            },
        ],
    },
    Part {
        job: Job::Search,
        name: "search",
        title: "Search: questions that the table's owner cannot see",
        about: "The paper's algorithm (PBWT under encryption) with all the memory it wants and within a limit with a tier of storage, beside its table 6; and this project's own method, a question end to end by a \
server process of this machine. The paper does not say how many haplotypes its 108 KB are: 2,184 is our inference. Where the limit cannot be enforced, or a device is emulated, the label says so.",
        no_peers: Some(
            "No peer's figures are on record: a plain Beacon answers at once and protects nothing of the question, and nothing else was measured beside it.",
        ),
        calls: |size| match size {
            Size::Least => {
                vec!["search --paper --lengths 4 --haplotypes 64 --class disk --without-swap --runs 1"]
            }
            Size::Small => vec!["search --paper --lengths 4 --class disk --without-swap --runs 1", "search --runs 1"],
            Size::Paper => vec!["search --paper --class ram,nvme,sata --without-swap", "search"],
        },
        tables: &[
            ("table6.csv", "Table 6: the paper's search, seconds, and times the unlimited run"),
            ("queries.csv", "Our own method: a question end to end"),
            ("clients.csv", "Questions a second"),
        ],
        headlines: &[Headline {
            what: "The paper's search, four sites, all in memory",
            unit: "s",
            ours: Place { file: "table6.csv", row: &[("length", "4"), ("mode", "unlimited")], column: "median_s" },
            paper: Place {
                file: "table6.csv",
                row: &[("length", "4"), ("mode", "paper: no limit")],
                column: "median_s",
            },
            note: "2,184 haplotypes (inferred), ours without bootstrapping",
        }],
    },
    Part {
        job: Job::Seal,
        name: "seal",
        title: "Seal: bulk AES over a CPU and a module",
        about: "Thousands of messages under AES-CBC by every policy, over one CPU core and a crypto module. The module is emulated: a second CPU core, held to a multiple of what one chain does on the first. Ratios \
can be compared with the paper, absolute speeds cannot. The paper prints pictures; the goals stand beside.",
        no_peers: None,
        calls: |size| match size {
            Size::Least => vec!["seal --paper --quick --files 20 --runs 1"],
            Size::Small => vec!["seal --paper --quick --files 1000 --runs 3"],
            Size::Paper => vec!["seal --paper"],
        },
        tables: &[
            ("table2.csv", "Table 2: ms for all messages, by size and policy"),
            ("table3.csv", "Table 3: messages that the module took"),
            ("targets.csv", "What was to be reached"),
        ],
        headlines: &[Headline {
            what: "Part of both engines' sum at 16 KiB, best policy",
            unit: "",
            ours: Place { file: "targets.csv", row: &[("what", "part of both engines' sum")], column: "by medians" },
            paper: Place { file: "targets.csv", row: &[("what", "part of both engines' sum")], column: "wanted" },
            note: "emulated module",
        }],
    },
    Part {
        job: Job::Lattice,
        name: "lattice",
        title: "The lattice core, beside its peers",
        about: "What infer, search and sense compute with, on one thread. No paper has these figures; the peers' are those on record.",
        no_peers: None,
        calls: |size| match size {
            Size::Least => vec!["lattice --set A --runs 1"],
            Size::Small => vec!["lattice --set A --runs 5"],
            Size::Paper => vec!["lattice"],
        },
        tables: &[],
        headlines: &[],
    },
];
