//! Options and commands that this build lacks, because their cargo feature is off.
//!
//! Few users need these options, and each feature adds many crates, so the default build leaves
//! them out. The error message says how to get them.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// An option or command, its feature, and whether this build has the feature.
const WORDS: [(&str, &str, bool); 15] = [
    ("--tls-acme", "acme", cfg!(feature = "acme")),
    ("--tls-acme-contact", "acme", cfg!(feature = "acme")),
    ("--tls-acme-folder", "acme", cfg!(feature = "acme")),
    ("--tls-acme-directory", "acme", cfg!(feature = "acme")),
    ("--tls-acme-ca", "acme", cfg!(feature = "acme")),
    ("--recipient", "age", cfg!(feature = "age")),
    ("-r", "age", cfg!(feature = "age")),
    ("--recipients-file", "age", cfg!(feature = "age")),
    ("-R", "age", cfg!(feature = "age")),
    ("--identity", "age", cfg!(feature = "age")),
    ("-i", "age", cfg!(feature = "age")),
    ("--call-bus", "cascade", cfg!(feature = "cascade")),
    ("--call-bus-login", "cascade", cfg!(feature = "cascade")),
    ("--call-bus-name", "cascade", cfg!(feature = "cascade")),
    ("export", "parquet", cfg!(feature = "parquet")),
];

/// The message for a word whose feature this build lacks; none for any other word.
pub(crate) fn of_word(word: &str) -> Option<String> {
    let (word, feature, _) = WORDS.iter().find(|(known, _, here)| *known == word && !here)?;
    Some(format!(
        "this build of tobari has no {word}: it lacks the feature `{feature}`. Build it with \
         `cargo build --release --features full`, or take the container, which has it"
    ))
}

/// The same message for the word that clap reports as unknown.
pub(crate) fn of_error(error: &Error) -> Option<String> {
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else { return None };
    of_word(word.split('=').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::args::Arguments;
    use clap::CommandFactory;

    fn said(line: &str) -> Option<String> {
        let error = Arguments::command().try_get_matches_from(line.split(' ')).err()?;
        of_error(&error)
    }

    #[test]
    fn a_word_of_another_build_is_said_to_be_one_and_no_other_word_is() {
        let lines = [
            ("tobari seal a -o b --recipient age1x", "age"),
            ("tobari unseal a -o b -i c", "age"),
            ("tobari serve --tls-acme a.example", "acme"),
            ("tobari serve --call-bus=nats://a", "cascade"),
            ("tobari sense export --frames a -o b", "parquet"),
        ];
        for (line, feature) in lines {
            let here = WORDS.iter().find(|(_, name, _)| *name == feature).unwrap().2;
            let text = said(line);
            assert_eq!(text.is_none(), here, "{line}: {text:?}");
            assert!(text.is_none_or(|text| text.contains(feature) && text.contains("--features full")), "{line}");
        }
        assert_eq!(said("tobari serve --no-such-option"), None);
        assert_eq!(said("tobari no-such-verb"), None);
    }

    /// A word that is misspelled in the list would never be found.
    #[test]
    fn every_word_is_an_option_or_a_verb_where_its_feature_is_here() {
        fn has(command: &clap::Command, word: &str) -> bool {
            let long = |arg: &clap::Arg| arg.get_long().is_some_and(|long| word.strip_prefix("--") == Some(long));
            let short = |arg: &clap::Arg| arg.get_short().is_some_and(|short| word == format!("-{short}"));
            command.get_arguments().any(|arg| long(arg) || short(arg))
                || command.get_subcommands().any(|verb| verb.get_name() == word || has(verb, word))
        }
        let mut command = Arguments::command();
        command.build();
        for (word, _, here) in WORDS {
            assert!(!here || has(&command, word), "{word}");
        }
    }
}
