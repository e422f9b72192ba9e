//! The call as it is meant: the command line, before it the environment, before that a file, before
//! all what is usual.
//!
//! `tobari.toml` has the settings of the server: `log` and `log-format`, and under `[serve]` the
//! options of `tobari serve` by their long names. What of it is given neither on the command line
//! nor in the environment is put behind the command line, so that one parser reads and checks
//! everything.

use crate::absent;
use crate::args::{Arguments, Verb};
use crate::cmd::config::Setting;
use crate::cmd::serve::ServeArguments;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::path::Path;
use tobari_command::output::Failure;
use tobari_host::files::read_bounded;

/// No file of settings is longer.
const MAX_BYTES: u64 = 1 << 20;
/// Options of the server that no file and no variable can give.
const NOT_SETTINGS: [&str; 6] = ["config", "json", "try", "until-stdin-closes", "help", "version"];
/// What stands outside of `[serve]`.
const GLOBAL: [&str; 2] = ["log", "log-format"];

/// What this process is called with. Ends the process where the command line is wrong, as clap
/// does.
pub(crate) fn arguments() -> Result<Arguments, Failure> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let found = Found::read(named_like_a_verb(words))?;
    match Arguments::from_arg_matches(&found.matches) {
        Ok(arguments) => Ok(arguments),
        Err(error) => error.exit(),
    }
}

/// `tobari seal verify -o OUT` seals a folder of that name: only what is sealed has an output. Clap
/// would take the name for the verb.
fn named_like_a_verb(mut words: Vec<OsString>) -> Vec<OsString> {
    let has_output = |word: &OsString| {
        let word = word.to_string_lossy();
        word == "-o"
            || word == "--output"
            || word.starts_with("--output=")
            || word.starts_with("-o") && !word.starts_with("--")
    };
    let verb = words.iter().skip(1).position(|word| word == "seal" || word == "backup").map(|at| at + 2);
    if let Some(rest) = verb
        && words.iter().skip(rest).any(has_output)
    {
        let is_verb = |word: &&mut OsString| ["verify", "ls", "help"].iter().any(|verb| **word == *verb);
        // the value of an option may be called so, too, and means the same behind `./`
        words.iter_mut().skip(rest).filter(is_verb).for_each(|word| *word = Path::new(".").join(&word).into());
    }
    words
}

/// A call of `tobari serve` with this file and this process's environment, as it would be
/// understood.
pub(crate) fn of_file(file: &Path) -> Result<(Box<ServeArguments>, Vec<Setting>), Failure> {
    let words = ["tobari".into(), "serve".into(), "--config".into(), file.as_os_str().to_owned()];
    let found = Found::read(words.into())?;
    let settings = found.settings();
    match Arguments::from_arg_matches(&found.matches).map(|arguments| arguments.verb) {
        Ok(Verb::Serve(serve)) => Ok((serve, settings)),
        Ok(_) => Err(Failure::Work("expected the settings of a server, found another command's".to_owned())),
        Err(error) => Err(Failure::Call(error.to_string())),
    }
}

/// A command line, and what of it a file has given.
struct Found {
    command: Command,
    matches: ArgMatches,
    of_file: Vec<String>,
}

impl Found {
    fn read(mut words: Vec<OsString>) -> Result<Self, Failure> {
        let command = command();
        // what is wrong may be right with the file: it is said below
        let first = command.clone().ignore_errors(true).try_get_matches_from(&words);
        let first = first.unwrap_or_else(|error| error.exit());
        let (mut of_file, mut name) = (Vec::new(), String::new());
        if let Some(("serve", serve)) = first.subcommand()
            && let Some(file) = serve.get_one::<std::path::PathBuf>("config")
        {
            name = format!("{}: ", file.display());
            let settings = settings(&command, file)?;
            for (option, values) in settings {
                let id = id_of(&command, &option).unwrap_or_default();
                let given = serve.value_source(&id);
                if !matches!(given, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
                    words.extend(values.into_iter().map(OsString::from));
                    of_file.push(option);
                }
            }
        }
        let matches = command.clone().try_get_matches_from(&words);
        let matches = matches.map_err(|error| {
            if let Some(absent) = absent::of_error(&error) {
                return Failure::Call(format!("{name}{absent}"));
            }
            if of_file.is_empty() || !error.use_stderr() {
                error.exit();
            }
            Failure::Call(format!("{name}{}", error.to_string().trim_end()))
        })?;
        Ok(Self { command, matches, of_file })
    }

    /// All that can be set, and what it is.
    fn settings(&self) -> Vec<Setting> {
        let Some(("serve", serve)) = self.matches.subcommand() else { return Vec::new() };
        let setting = |(name, id): (String, String)| {
            let source = match serve.value_source(&id) {
                _ if self.of_file.contains(&name) => "file",
                Some(ValueSource::CommandLine) => "command line",
                Some(ValueSource::EnvVariable) => "environment",
                _ => "default",
            };
            let raw = serve.get_raw(&id).into_iter().flatten();
            Setting { name, values: raw.map(|value| value.to_string_lossy().into_owned()).collect(), source }
        };
        options(&self.command).into_iter().map(setting).collect()
    }
}

/// The command line, with a variable for each option of the server.
fn command() -> Command {
    let mut command = Arguments::command();
    let variables: Vec<(String, &'static str)> = serve_options(&command)
        .into_iter()
        .map(|(name, id)| {
            let variable = format!("TOBARI_SERVE_{}", name.replace('-', "_").to_uppercase());
            // as long as the program
            (id, &*Box::leak(variable.into_boxed_str()))
        })
        .collect();
    command = command.mut_subcommand("serve", |serve| {
        variables
            .into_iter()
            .fold(serve, |serve, (id, variable)| serve.mut_arg(id, |option| option.env(variable).hide_env(true)))
    });
    command
}

/// Long names and numbers of the server's own options that can be set.
fn serve_options(command: &Command) -> Vec<(String, String)> {
    let serve = command.find_subcommand("serve").into_iter().flat_map(Command::get_arguments);
    serve
        .filter_map(|option| Some((option.get_long()?.to_owned(), option.get_id().as_str().to_owned())))
        .filter(|(name, _)| !NOT_SETTINGS.contains(&name.as_str()) && !GLOBAL.contains(&name.as_str()))
        .collect()
}

/// All options that can be set.
fn options(command: &Command) -> Vec<(String, String)> {
    let global = GLOBAL.map(|name| (name.to_owned(), name.replace('-', "_")));
    global.into_iter().chain(serve_options(command)).collect()
}

fn id_of(command: &Command, name: &str) -> Option<String> {
    options(command).into_iter().find(|(option, _)| option == name).map(|(_, id)| id)
}

/// What a file sets: each option with the words that it is on a command line.
fn settings(command: &Command, file: &Path) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let wrong = |what: String| Failure::Call(format!("{}: {what}", file.display()));
    let bytes = read_bounded(file, MAX_BYTES).map_err(|error| Failure::Call(error.to_string()))?;
    let text =
        std::str::from_utf8(&bytes).map_err(|_| wrong("expected text in UTF-8, found other bytes".to_owned()))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    let known = options(command);
    let mut settings = Vec::new();
    let mut take = |name: String, value: &toml::Value, global: bool| -> Result<(), Failure> {
        let is_known = known.iter().any(|(option, _)| *option == name) && GLOBAL.contains(&name.as_str()) == global;
        if !is_known {
            if let Some(absent) = absent::of_word(&format!("--{name}")) {
                return Err(wrong(absent));
            }
            let place = if global { "log, log-format or [serve]" } else { "an option of `tobari serve`" };
            return Err(wrong(format!("expected {place}, found {name}")));
        }
        let Some(words) = words(&name, value) else {
            let what = "a text, a number, true, false or a list of texts or numbers";
            return Err(wrong(format!("{name}: expected {what}, found {}", value.type_str())));
        };
        settings.push((name, words));
        Ok(())
    };
    for (name, value) in table {
        match value {
            toml::Value::Table(serve) if name == "serve" => {
                serve.into_iter().try_for_each(|(name, value)| take(name, &value, false))?;
            }
            value => take(name, &value, true)?,
        }
    }
    Ok(settings)
}

/// A value as words of a command line; none for what no option takes.
fn words(name: &str, value: &toml::Value) -> Option<Vec<String>> {
    let one = |value: &toml::Value| match value {
        toml::Value::String(text) => Some(format!("--{name}={text}")),
        toml::Value::Integer(number) => Some(format!("--{name}={number}")),
        toml::Value::Float(number) => Some(format!("--{name}={number}")),
        _ => None,
    };
    match value {
        toml::Value::Boolean(true) => Some(vec![format!("--{name}")]),
        toml::Value::Boolean(false) => Some(Vec::new()),
        toml::Value::Array(values) => values.iter().map(one).collect(),
        value => one(value).map(|word| vec![word]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tobari.toml");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    fn set(settings: &[Setting], name: &str) -> (String, &'static str) {
        let setting = settings.iter().find(|setting| setting.name == name).unwrap();
        (setting.values.join(" "), setting.source)
    }

    #[test]
    fn a_file_sets_what_the_command_line_does_not() {
        let (_folder, path) = file(
            "log = \"warn\"\n[serve]\naddr = \"127.0.0.1:9\"\nmax-rooms = 7\ntls-self-signed = true\nbehind-proxy = false\n\
             search = [\"a.tsi\", \"b.tsi\"]\n",
        );
        let (serve, settings) = of_file(&path).unwrap();
        assert_eq!((serve.addr.port(), serve.tls_self_signed, serve.behind_proxy), (9, true, false));
        assert_eq!(serve.files(), ["a.tsi", "b.tsi"].map(Path::new), "the tables");
        assert_eq!(set(&settings, "max-rooms"), ("7".to_owned(), "file"));
        assert_eq!(set(&settings, "addr"), ("127.0.0.1:9".to_owned(), "file"));
        assert_eq!(set(&settings, "log"), ("warn".to_owned(), "file"));
        assert_eq!(set(&settings, "drain"), ("0".to_owned(), "default"));
        let words = ["tobari", "serve", "--addr", "127.0.0.1:8", "--search", "c.tsi", "--config"].map(OsString::from);
        let found = Found::read(words.into_iter().chain([path.into_os_string()]).collect()).unwrap();
        let settings = found.settings();
        assert_eq!(set(&settings, "addr"), ("127.0.0.1:8".to_owned(), "command line"));
        assert_eq!(
            set(&settings, "search"),
            ("c.tsi".to_owned(), "command line"),
            "a list is replaced, not made longer"
        );
        assert_eq!(set(&settings, "max-rooms"), ("7".to_owned(), "file"));
    }

    #[test]
    fn whatever_is_no_setting_is_said_with_its_name() {
        for (text, said) in [
            ("adr = 1", "found adr"),
            ("[serve]\nadr = 1", "found adr"),
            ("[serve]\nlog = \"info\"", "found log"),
            ("addr = \"127.0.0.1:9\"", "found addr"),
            ("[serve]\nconfig = \"x\"", "found config"),
            ("[serve]\njson = true", "found json"),
            ("[serve]\naddr = {}", "addr: expected a text"),
            ("[serve]\naddr = [[1]]", "addr: expected a text"),
            ("[serve]\naddr = \"here\"", "invalid value 'here'"),
            ("[serve]\nmax-rooms = -1", "invalid value"),
            ("[serve]\ntls-cert = \"c\"", "--tls-key"),
            ("[serve", "TOML"),
        ] {
            let (_folder, path) = file(text);
            let error = of_file(&path).err().unwrap().to_string();
            assert!(error.contains(said) && error.contains("tobari.toml"), "{text}: {error}");
        }
        assert!(of_file(Path::new("no-such.toml")).is_err());
    }

    #[test]
    fn every_option_of_the_server_has_a_variable_of_its_own() {
        let command = command();
        let serve = command.find_subcommand("serve").unwrap();
        for (name, id) in serve_options(&command) {
            let option = serve.get_arguments().find(|option| *option.get_id() == *id).unwrap();
            let expected = format!("TOBARI_SERVE_{}", name.replace('-', "_").to_uppercase());
            assert_eq!(option.get_env().unwrap().to_str(), Some(expected.as_str()));
        }
    }
}
