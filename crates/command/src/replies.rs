//! Server replies that are common to all jobs: refusals, and text to show.

use crate::output::Failure;
use tobari_client::HttpReply;

/// Characters of a refusal to show.
const MOST_OF_A_REFUSAL: usize = 300;

/// The reply, if it is a success.
pub fn good(reply: HttpReply) -> Result<HttpReply, Failure> {
    if (200..300).contains(&reply.status) { Ok(reply) } else { Err(refused(&reply)) }
}

/// The failure for a server's refusal.
pub fn refused(reply: &HttpReply) -> Failure {
    let text = shown(&String::from_utf8_lossy(&reply.body), MOST_OF_A_REFUSAL);
    if reply.status == 404 && text.trim().is_empty() {
        // no route, so no job of the server can explain more
        let remedy = "start it with --search, --infer or --sense, or ask another server";
        return Failure::Work(format!("the server does not offer this job (404): {remedy}"));
    }
    Failure::Work(format!("refused by the server ({}): {text}", reply.status))
}

/// At most `most` characters of a server's text, without terminal control characters.
pub fn shown(text: &str, most: usize) -> String {
    text.chars().filter(|character| !character.is_control()).take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_words_of_a_server_steer_a_terminal() {
        for code in (0..0x20).chain(0x7f..0xa0) {
            let control = char::from_u32(code).unwrap_or_default();
            assert_eq!(shown(&format!("a{control}[31mb"), 80), "a[31mb", "{code:#x}");
        }
        assert_eq!(shown("あいう", 2), "あい");
    }
}
