//! Measures documents: long sentences, words that name nothing, and long table cells.
//!
//! A document that people cannot read protects no one. The limits come from projects with
//! well-written documents: at most 2 % of sentences have more than 35 words, and at most 3.5 of 100
//! words are *it, that, those, what, which, whoever, who, one, they, so, there*. A table cell has
//! at most 20 words.

use super::{Finding, SourceFile};

/// Groups of documents, by the beginning of their paths; each group is measured as a whole.
const GROUPS: [(&str, &[&str]); 4] = [
    ("the front page", &["README.md"]),
    ("the changelog", &["CHANGELOG.md"]),
    ("the book", &["book/src/"]),
    ("the help of the commands", &["book/src/reference/commands/"]),
];
/// A longer sentence, in words, counts as long.
const LONG: usize = 35;
/// The most long sentences, in percent.
const MOST_LONG: f64 = 2.0;
/// Words that stand for something without naming it.
const PRO_FORMS: [&str; 10] = ["it", "that", "those", "what", "which", "whoever", "who", "one", "they", "so"];
const MORE_PRO_FORMS: &str = "there";
/// The most of these words in 100 words.
const MOST_PRO_FORMS: f64 = 3.5;
/// The most words in a cell.
const MOST_CELL: usize = 20;

/// Finds documents that are hard to read.
pub(crate) fn documents_are_plain(files: &[SourceFile]) -> Vec<Finding> {
    GROUPS.iter().flat_map(|(name, begins)| of_group(name, begins, files)).collect()
}

fn of_group(name: &str, begins: &[&str], files: &[SourceFile]) -> Vec<Finding> {
    let is_of = |file: &&SourceFile| file.path.ends_with(".md") && begins.iter().any(|at| file.path.starts_with(at));
    let measured: Vec<(&SourceFile, Prose)> =
        files.iter().filter(is_of).map(|file| (file, prose(&file.text))).collect();
    if measured.is_empty() {
        return vec![Finding::new(begins[0], 0, format!("{name}: no document: nothing was checked"))];
    }
    let sum = |count: fn(&Prose) -> usize| measured.iter().map(|(_, prose)| count(prose)).sum::<usize>() as f64;
    let (sentences, words) = (sum(|prose| prose.sentences.len()).max(1.0), sum(Prose::words).max(1.0));
    let (long, pro) = (100.0 * sum(Prose::long) / sentences, 100.0 * sum(Prose::pro_forms) / words);
    let mut found = Vec::new();
    if long > MOST_LONG {
        found.push(Finding::new(
            begins[0],
            0,
            format!("{name}: {long:.1} % of sentences have more than {LONG} words, at most {MOST_LONG} % may"),
        ));
        for (file, prose) in &measured {
            let lines = prose.sentences.iter().filter(|sentence| sentence.words > LONG);
            found.extend(lines.map(|sentence| {
                Finding::new(&file.path, sentence.line, format!("a sentence of {} words", sentence.words))
            }));
        }
    }
    if pro > MOST_PRO_FORMS {
        let mut worst: Vec<(f64, &str)> = measured
            .iter()
            .map(|(file, prose)| (100.0 * prose.pro_forms() as f64 / prose.words().max(1) as f64, file.path.as_str()))
            .filter(|(share, _)| *share > MOST_PRO_FORMS)
            .collect();
        worst.sort_by(|a, b| b.0.total_cmp(&a.0));
        let worst: Vec<String> = worst.iter().take(5).map(|(share, path)| format!("{path} {share:.1}")).collect();
        let message = format!(
            "{name}: {pro:.1} of 100 words are it, that, those, what, which, who, one, they, so or there, at most \
             {MOST_PRO_FORMS} may be: name things ({})",
            worst.join(", ")
        );
        found.push(Finding::new(begins[0], 0, message));
    }
    for (file, prose) in &measured {
        let cells = prose.cells.iter().filter(|(_, words)| *words > MOST_CELL);
        found.extend(cells.map(|(line, words)| {
            let message = format!("a cell of {words} words, at most {MOST_CELL}: what needs sentences is no table");
            Finding::new(&file.path, *line, message)
        }));
    }
    found
}

/// A sentence: its first line, its number of words, and the number of those that name nothing.
struct Sentence {
    line: usize,
    words: usize,
    pro_forms: usize,
}

/// The prose and the table cells of a document.
struct Prose {
    sentences: Vec<Sentence>,
    /// Lines, and numbers of words.
    cells: Vec<(usize, usize)>,
}

impl Prose {
    fn words(&self) -> usize {
        self.sentences.iter().map(|sentence| sentence.words).sum()
    }

    fn pro_forms(&self) -> usize {
        self.sentences.iter().map(|sentence| sentence.pro_forms).sum()
    }

    fn long(&self) -> usize {
        self.sentences.iter().filter(|sentence| sentence.words > LONG).count()
    }
}

/// Splits a document into sentences and cells. Code and headings are not prose.
fn prose(text: &str) -> Prose {
    let mut prose = Prose { sentences: Vec::new(), cells: Vec::new() };
    let (mut paragraph, mut fenced) = (Vec::<(usize, String)>::new(), false);
    for (line, number) in text.lines().zip(1..) {
        let fence = line.trim_start().starts_with("```");
        let is_code = fence || fenced || line.starts_with("    ");
        fenced ^= fence;
        let shown = without_marks(line);
        let trimmed = shown.trim();
        let is_table = trimmed.starts_with('|');
        let ends = trimmed.is_empty() || is_code || is_table || trimmed.starts_with('#');
        let is_item = trimmed.starts_with("- ") || trimmed.starts_with("* ");
        if ends || is_item {
            take_sentences(&mut paragraph, &mut prose.sentences);
        }
        if is_table && !is_code {
            prose.cells.extend(trimmed.split('|').map(|cell| (number, cell.split_whitespace().count())));
        } else if !ends {
            paragraph.push((number, trimmed.to_owned()));
        }
    }
    take_sentences(&mut paragraph, &mut prose.sentences);
    prose
}

/// A line without the addresses of links and without tags.
fn without_marks(line: &str) -> String {
    let mut shown = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['[', '<']) {
        let (before, from) = rest.split_at(at);
        shown += before;
        let link = from.strip_prefix('[').and_then(|inside| {
            let (name, after) = inside.split_once("](")?;
            let (_, after) = after.split_once(')')?;
            (!name.contains(']')).then_some((name, after))
        });
        let tag = from.strip_prefix('<').and_then(|inside| inside.split_once('>'));
        match (link, tag) {
            (Some((name, after)), _) => {
                shown += name;
                rest = after;
            }
            (None, Some((_, after))) => rest = after,
            (None, None) => {
                shown += &from[..1];
                rest = &from[1..];
            }
        }
    }
    shown + rest
}

/// Splits a paragraph. A sentence ends at `.`, `!`, `?` or `:` before a capital letter, code or
/// emphasis, and has at least four words.
fn take_sentences(paragraph: &mut Vec<(usize, String)>, sentences: &mut Vec<Sentence>) {
    let words: Vec<(usize, String)> = paragraph
        .drain(..)
        .flat_map(|(line, text)| text.split_whitespace().map(|word| (line, word.to_owned())).collect::<Vec<_>>())
        .collect();
    let mut begin = 0;
    for (at, (_, word)) in words.iter().enumerate() {
        let next = words.get(at + 1).and_then(|(_, next)| next.chars().next());
        let ends = word.ends_with(['.', '!', '?', ':'])
            && next.is_none_or(|next| next.is_ascii_uppercase() || next == '`' || next == '*');
        if ends || at + 1 == words.len() {
            let sentence = &words[begin..=at];
            if sentence.len() >= 4 {
                let pro_forms = sentence.iter().map(|(_, word)| pro_forms(word)).sum();
                sentences.push(Sentence { line: sentence[0].0, words: sentence.len(), pro_forms });
            }
            begin = at + 1;
        }
    }
}

/// The number of parts of a word that name nothing: `it's` and `that/those` have some.
fn pro_forms(word: &str) -> usize {
    let parts = word.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let is_one = |part: &str| {
        let part = part.to_lowercase();
        PRO_FORMS.contains(&part.as_str()) || part == MORE_PRO_FORMS
    };
    parts.filter(|part| is_one(part)).count()
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const PLAIN: &str = "# A heading that is not counted, whoever it is about\n\nThe server adds the readings. \
                         Nobody else can read them.\n\n    tobari what it that\n\n| a cell | another cell |\n";

    fn tree(text: &str) -> Vec<SourceFile> {
        let paths = ["README.md", "CHANGELOG.md", "book/src/a.md", "book/src/reference/commands/serve.md"];
        paths.iter().map(|path| file(path, text)).collect()
    }

    #[test]
    fn plain_documents_pass_and_a_missing_one_does_not() {
        assert!(documents_are_plain(&tree(PLAIN)).is_empty());
        assert_eq!(documents_are_plain(&tree(PLAIN)[1..]).len(), 1);
    }

    #[test]
    fn long_sentences_are_found_where_they_begin() {
        let long = format!("{PLAIN}\nShort words here again.\nThis {}ends.\n", "word ".repeat(40));
        let found = documents_are_plain(&[&tree(PLAIN)[1..], &[file("README.md", &long)][..]].concat());
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[1].path.as_str(), found[1].line), ("README.md", 10));
        // an address is not a word, and a list item ends the sentence before it
        let broken =
            format!("{PLAIN}\nSome [words](of/a/very/long/address.md) here\n{}", "- item with words\n".repeat(30));
        assert!(documents_are_plain(&[&tree(PLAIN)[1..], &[file("README.md", &broken)][..]].concat()).is_empty());
    }

    #[test]
    fn words_that_name_nothing_are_counted() {
        let vague = format!("{PLAIN}\nWhat it does is that which they who came so asked it's for.\n");
        let found = documents_are_plain(&[&tree(PLAIN)[1..], &[file("README.md", &vague)][..]].concat());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.contains("name things (README.md"), "{found:?}");
        assert_eq!(prose(&vague).sentences.last().unwrap().pro_forms, 8);
    }

    #[test]
    fn a_cell_that_holds_sentences_is_found() {
        let table = format!("{PLAIN}| {}| short |\n", "word ".repeat(21));
        let found = documents_are_plain(&[&tree(PLAIN)[1..], &[file("README.md", &table)][..]].concat());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].message.contains("21 words")), (8, true), "{found:?}");
    }
}
