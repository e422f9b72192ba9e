//! The effective settings. The command line takes precedence over the environment, the environment
//! over the settings file, and the file over the defaults.
//!
//! `tobari.toml` holds the settings of the server: `log` and `log-format`, and under `[serve]` the
//! options of `tobari serve` by their long names. A setting of the file that neither the command
//! line nor the environment gives is appended to the command line. So one parser reads and checks
//! everything.

use crate::absent;
use crate::args::{Arguments, Verb};
use crate::cmd::config::Setting;
use crate::cmd::serve::ServeArguments;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::path::Path;
use tobari_command::output::{Failure, print_error};
use tobari_host::files::read_bounded;

/// The maximum size of a settings file, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Options of the server that neither a file nor a variable can set.
const NOT_SETTINGS: [&str; 6] = ["config", "json", "try", "until-stdin-closes", "help", "version"];
/// Settings outside of `[serve]`.
const GLOBAL: [&str; 2] = ["log", "log-format"];

/// The arguments of this process, from the command line, the environment and the settings file. A
/// wrong command line ends the process, as with clap; with `as_json`, a line for programs is
/// printed first.
pub(crate) fn arguments(as_json: bool) -> Result<Arguments, Failure> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let variables = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    let found =
        CommandLine::read(named_like_a_verb(words), variables).map_err(|wrong| wrong.failure_or_exit(as_json))?;
    Arguments::from_arg_matches(&found.matches).map_err(|error| Wrong::Clap(error).failure_or_exit(as_json))
}

/// Why a command line cannot be used.
enum Wrong {
    /// An error of clap, with a usage line. A request for help is one, too.
    Clap(clap::Error),
    Said(Failure),
}

impl From<Failure> for Wrong {
    fn from(failure: Failure) -> Self {
        Wrong::Said(failure)
    }
}

impl Wrong {
    fn failure_or_exit(self, as_json: bool) -> Failure {
        match self {
            Wrong::Said(failure) => failure,
            Wrong::Clap(error) => {
                if as_json && error.use_stderr() {
                    print_error(error.to_string().trim_end(), 2);
                }
                error.exit()
            }
        }
    }

    fn failure(self) -> Failure {
        match self {
            Wrong::Said(failure) => failure,
            Wrong::Clap(error) => Failure::Call(error.to_string()),
        }
    }
}

/// `tobari seal verify -o OUT` seals a folder named `verify`: the command `verify` has no output.
/// Clap would take the name for the command.
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
        // an option's value may have this name, too; behind `./` it means the same
        words.iter_mut().skip(rest).filter(is_verb).for_each(|word| *word = Path::new(".").join(&word).into());
    }
    words
}

/// The arguments and settings of `tobari serve` with this file and the environment of this process.
pub(crate) fn of_file(file: &Path) -> Result<(Box<ServeArguments>, Vec<Setting>), Failure> {
    let words = ["tobari".into(), "serve".into(), "--config".into(), file.as_os_str().to_owned()];
    let variables = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    let found = CommandLine::read(words.into(), variables).map_err(Wrong::failure)?;
    let settings = found.settings();
    match Arguments::from_arg_matches(&found.matches).map(|arguments| arguments.verb) {
        Ok(Verb::Serve(serve)) => Ok((serve, settings)),
        Ok(_) => Err(Failure::Work("expected the settings of a server, found another command's".to_owned())),
        Err(error) => Err(Failure::Call(error.to_string())),
    }
}

/// A parsed command line, and the names of the options that a file gave.
struct CommandLine {
    command: Command,
    matches: ArgMatches,
    of_file: Vec<String>,
}

impl CommandLine {
    /// Reads the words of a command line, given the names of the environment variables.
    fn read(mut words: Vec<OsString>, variables: Vec<String>) -> Result<Self, Wrong> {
        let command = command();
        // the file may supply a missing option: errors are reported below
        let first = command.clone().ignore_errors(true).try_get_matches_from(&words).map_err(Wrong::Clap)?;
        let (mut of_file, mut name) = (Vec::new(), String::new());
        if first.subcommand_name() == Some("serve") {
            check_variables(&command, variables)?;
        }
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
                return Wrong::Said(Failure::Call(format!("{name}{absent}")));
            }
            if of_file.is_empty() || !error.use_stderr() {
                return Wrong::Clap(error);
            }
            Wrong::Said(Failure::Call(format!("{name}{}", error.to_string().trim_end())))
        })?;
        Ok(Self { command, matches, of_file })
    }

    /// Every setting with its values and its source.
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

/// The prefix of the server's environment variables.
const PREFIX: &str = "TOBARI_SERVE_";

/// The environment variable of an option of the server.
pub(crate) fn variable_of(option: &str) -> String {
    format!("{PREFIX}{}", option.replace('-', "_").to_uppercase())
}

/// Reports a variable with the server's prefix that sets no option. A typing error would otherwise
/// silently drop a limit or a token file.
fn check_variables(command: &Command, variables: Vec<String>) -> Result<(), Failure> {
    let known: Vec<String> = serve_options(command).iter().map(|(name, _)| variable_of(name)).collect();
    let is_unknown = |name: &String| name.starts_with(PREFIX) && !known.contains(name) && !is_of_a_service(name);
    let Some(name) = variables.into_iter().find(is_unknown) else { return Ok(()) };
    let option = name.trim_start_matches(PREFIX).to_lowercase().replace('_', "-");
    if let Some(absent) = absent::of_word(&format!("--{option}")) {
        return Err(Failure::Call(format!("{name}: {absent}")));
    }
    let remedy = match nearest(command, &option).filter(|near| known.contains(&variable_of(near))) {
        Some(near) => format!("did you mean {}?", variable_of(&near)),
        None => "unset the variable; `tobari serve --help` lists the options".to_owned(),
    };
    Err(Failure::Call(format!("the environment variable {name} sets no option of `tobari serve`: {remedy}")))
}

/// Kubernetes gives every container variables for each service. The variables of a service named
/// `tobari-serve` begin with the same prefix as ours.
fn is_of_a_service(name: &str) -> bool {
    let rest = name.trim_start_matches(PREFIX);
    rest.starts_with("SERVICE_HOST") || rest.starts_with("SERVICE_PORT") || rest == "PORT" || rest.starts_with("PORT_")
}

/// The option of the server that clap would suggest for a misspelt one.
fn nearest(command: &Command, option: &str) -> Option<String> {
    let error = command.clone().try_get_matches_from(["tobari", "serve", &format!("--{option}")]).err()?;
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(near)) => near.split(['=', ' ']).next()?.strip_prefix("--").map(str::to_owned),
        _ => None,
    }
}

/// The command line, with a variable for each option of the server.
fn command() -> Command {
    let mut command = Arguments::command();
    let variables: Vec<(String, &'static str)> = serve_options(&command)
        .into_iter()
        // leaked: needed until the program ends
        .map(|(name, id)| (id, &*Box::leak(variable_of(&name).into_boxed_str())))
        .collect();
    command = command.mut_subcommand("serve", |serve| {
        variables
            .into_iter()
            .fold(serve, |serve, (id, variable)| serve.mut_arg(id, |option| option.env(variable).hide_env(true)))
    });
    command
}

/// The long names and clap's ids of the server's own options that can be set.
pub(crate) fn serve_options(command: &Command) -> Vec<(String, String)> {
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

/// The settings of a file: each option with its words on a command line.
fn settings(command: &Command, file: &Path) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let wrong = |what: String| Failure::Call(format!("{}: {what}", file.display()));
    let bytes = read_bounded(file, MAX_BYTES).map_err(|error| Failure::Call(error.to_string()))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| wrong("the file is not text in UTF-8".to_owned()))?;
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
            let near = nearest(command, &name).filter(|near| known.iter().any(|(option, _)| option == near));
            let remedy = near.filter(|_| !global).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            return Err(wrong(format!("expected {place}, found {name}{remedy}")));
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

/// A value as words of a command line; none for a type that no option takes.
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
        let found = read(words.into_iter().chain([path.into_os_string()]).collect(), &[]).unwrap();
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

    fn read(words: Vec<OsString>, variables: &[&str]) -> Result<CommandLine, String> {
        let variables = variables.iter().map(|&name| name.to_owned()).collect();
        CommandLine::read(words, variables).map_err(|wrong| wrong.failure().to_string())
    }

    #[test]
    fn a_variable_that_sets_nothing_is_reported_with_the_one_that_was_meant() {
        let serve = |variable: &str| read(vec!["tobari".into(), "serve".into()], &[variable]).err();
        let misspelt = serve("TOBARI_SERVE_ADR").unwrap();
        assert!(misspelt.contains("TOBARI_SERVE_ADR ") && misspelt.contains("mean TOBARI_SERVE_ADDR?"), "{misspelt}");
        let none = serve("TOBARI_SERVE_XYZZY").unwrap();
        assert!(none.contains("TOBARI_SERVE_XYZZY") && none.contains("unset"), "{none}");
        for never in ["TOBARI_SERVE_JSON", "TOBARI_SERVE_CONFIG"] {
            assert!(serve(never).unwrap().contains(never), "an option that no variable sets");
        }
        for known in ["TOBARI_SERVE_ADDR", "TOBARI_SERVE_MAX_ROOMS", "TOBARI_LOG", "PATH"] {
            assert_eq!(serve(known), None, "{known}");
        }
        for service in ["TOBARI_SERVE_SERVICE_HOST", "TOBARI_SERVE_PORT", "TOBARI_SERVE_PORT_7610_TCP"] {
            assert_eq!(serve(service), None, "{service}: set by Kubernetes");
        }
        assert!(read(vec!["tobari".into(), "info".into()], &["TOBARI_SERVE_ADR"]).is_ok(), "another command");
    }
}
