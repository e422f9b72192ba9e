//! Every example in the help of a command runs as it is written.

use crate::support::shell::Shell;
use crate::support::tobari;
use std::path::Path;
use tobari_infer::digits::{STYLES, draw};

/// The commands, in an order in which each finds the output of earlier ones. The test reports a
/// command that is missing here by its name.
const ORDER: &[&str] = &[
    "info",
    "completions",
    "man",
    "demo",
    "plan infer",
    "plan memory",
    "plan search",
    "plan sense",
    "config check",
    "search index",
    "search check",
    "search keygen",
    "search token",
    "call keygen",
    "call mix",
    "infer draw",
    "infer compile",
    "infer simulate",
    "seal",
    "seal verify",
    "seal ls",
    "unseal",
    "sense keygen",
    "sense provision",
    "sense enrol",
    "sense query",
    // from here on with a server, which the test starts
    "search query",
    "search beacon",
    "healthcheck",
    "call link",
    "call join",
    "call open",
    "infer keygen",
    "infer encrypt",
    "infer run",
    "infer decrypt",
    "infer enclave",
    "infer ask",
    "sense keyholder",
    "sense encrypt",
    "sense send",
    "sense forget",
    // from here on without a server
    "sense export",
    "backup",
    "backup verify",
    "backup ls",
    "restore",
    "serve",
];
const FIRST_WITH_SERVER: &str = "search query";
const FIRST_WITHOUT: &str = "sense export";
const SERVER: &str = "tobari serve --try --data data --sense fleets --infer digits --infer-enclave enclave-plain";

/// The words of every command that does something, with its examples.
fn examples_below(words: &[&str]) -> Vec<(String, Vec<String>)> {
    let help = tobari(&[words, &["--help"]].concat());
    let help = String::from_utf8(help.stdout).unwrap();
    let section = |title: &str| {
        let lines = help.lines().skip_while(move |line| *line != title).skip(1);
        lines.take_while(|line| line.starts_with(' ')).map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let verbs = section("Commands:");
    let verbs = verbs.iter().filter_map(|line| line.split(' ').next()).filter(|verb| *verb != "help");
    let mut found: Vec<_> = verbs.flat_map(|verb| examples_below(&[words, &[verb]].concat())).collect();
    // `tobari seal` does something itself and has commands below it
    if found.is_empty() || help.contains("Arguments:") {
        found.push((words.join(" "), section("Examples:")));
    }
    found
}

/// Creates the files that examples name.
fn prepare(folder: &Path) {
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../jobs/call/edge/assets");
    for name in ["alice.wav", "bob.wav"] {
        std::fs::copy(assets.join(name), folder.join(name)).unwrap();
    }
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors/onnx/digits.onnx");
    std::fs::copy(vectors, folder.join("net.onnx")).unwrap();
    write(
        "panel.vcf",
        "##fileformat=VCFv4.2\n##contig=<ID=chr20>\n##FORMAT=<ID=GT,Number=1,Type=String,Description=\"Genotype\">\n\
         #CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\tone\ttwo\n\
         chr20\t1000\t.\tA\tG\t.\tPASS\t.\tGT\t0|1\t1|1\n\
         chr20\t1050\t.\tC\tT\t.\tPASS\t.\tGT\t0|1\t0|1\n",
    );
    let images: Vec<Vec<u8>> = (0..60).map(|at| draw((at % 10) as u8, &STYLES[at / 10])).collect();
    let head = [[0, 0, 8, 3], 60u32.to_be_bytes(), 28u32.to_be_bytes(), 28u32.to_be_bytes()].concat();
    std::fs::write(folder.join("images.idx"), [head, images.concat()].concat()).unwrap();
    write("codes.tsv", "code-7\t12\ncode-8\t3\n");
    write("tobari.toml", "[serve]\naddr = \"127.0.0.1:7610\"\nmax-rooms = 7\n");
    write(
        "schema.toml",
        "profile = \"u25\"\nsamples = 4\n\n[[channel]]\nname = \"temperature\"\nleast = -40\nstep = 0.5\n",
    );
    write(
        "question.toml",
        "name = \"mean\"\nleast-devices = 2\nwindow = { length = \"1s\" }\n\n[[statistic]]\nkind = \"mean\"\nchannel = \"temperature\"\n",
    );
    write("devices.csv", "name,tenant\nlisted-1,north\nlisted-2,south\n");
    write("readings.csv", "21.5\n22\n20.5\n21\n");
    std::fs::create_dir(folder.join("docs")).unwrap();
    write("docs/one.txt", "a file\n");
}

#[test]
fn every_command_has_two_examples_and_they_run() {
    let found = examples_below(&[]);
    assert!(found.len() > 40, "{} commands", found.len());
    for (command, examples) in &found {
        assert!(ORDER.contains(&command.as_str()), "`tobari {command}` is not in the order of this test");
        assert!(examples.len() >= 2, "`tobari {command} --help` has {} examples", examples.len());
    }
    let mut shell = Shell::new();
    prepare(shell.folder());
    let mut failed = Vec::new();
    for command in ORDER {
        match *command {
            FIRST_WITH_SERVER => assert!(shell.type_line(SERVER).ok),
            FIRST_WITHOUT => shell.stop_servers(),
            _ => {}
        }
        // some commands exist only in builds with a feature
        let Some((_, examples)) = found.iter().find(|(name, _)| name == command) else { continue };
        for example in examples {
            let typed = shell.type_line(example);
            if !typed.ok {
                failed.push(format!("$ {example}\n{}", typed.text.trim()));
            }
            if *command == "serve" {
                shell.stop_servers();
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
