//! Inference in the demonstration: a server process with a model and without a key classifies drawn
//! digits; the results are compared with the plain model in integers. And attacks on inference.

mod attack;

pub use attack::attacks;

use crate::command::Remote;
use std::time::Instant;
use tobari_client::ClientTls;
use tobari_command::blind_server::BlindProcess;
use tobari_command::demo::Line;
use tobari_command::output::Failure;
use tobari_command::randomness;
use tobari_command::reach::Reach;
use tobari_infer::Model;
use tobari_infer::client::Output;
use tobari_infer::digits::{STYLES, draw};
use tobari_infer::holder::{Holder, Sealed, SealedKind};

/// The paper's seconds for an encrypted image outside the enclave: table 6, all layers.
const PAPER_SECONDS: f64 = 397.422;

/// Draws, encrypts, classifies and decrypts ten digits.
pub fn demo() -> Result<Line, Failure> {
    let model = Model::digits()?;
    let fixed = model.fixed()?;
    let server = BlindProcess::start_with(["--infer", "digits"])?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut remote = Remote::reach(server.url(), &Reach { tls: ClientTls::System, token: None })?;
        let mut rng = randomness::generator()?;
        let (digest, card) = remote.model(None).await?;
        let foretold = card.error.unwrap_or(0.0);
        let holder = Holder::generate(card, digest, &mut rng)?;
        let (mut right, mut seconds, mut error) = (0, Vec::new(), 0.0f64);
        for digit in 0..10u8 {
            let pixels = draw(digit, &STYLES[usize::from(digit) % STYLES.len()]);
            let started = Instant::now();
            let question = holder.encrypt(&Model::numbers(&pixels), &mut rng)?;
            let sealed = Sealed::decode(SealedKind::Question, &question)?;
            let keys = (digit == 0).then_some(&holder);
            let answer = remote.answer(&sealed, keys).await?;
            let answer = Sealed { kind: SealedKind::Answer, body: &answer, ..sealed }.encode();
            let told = holder.decrypt(&answer, Output::Logits)?;
            // keys are made and sent once, with the first digit
            if digit > 0 {
                seconds.push(started.elapsed().as_secs_f64());
            }
            right += usize::from(told.labels.first() == Some(&fixed.classify(&pixels)?));
            let plain = model.forward(&pixels)?;
            error = told.logits.iter().zip(&plain).map(|(a, b)| (a - b).abs()).fold(error, f64::max);
        }
        seconds.sort_by(f64::total_cmp);
        Ok(Line {
            job: "infer",
            mode: "image encrypted",
            right: right == 10 && error < foretold,
            exact: false,
            seconds: seconds[seconds.len() / 2],
            server_saw_bytes: remote.sent_bytes(),
            paper_seconds: PAPER_SECONDS,
            what: format!(
                "10 drawn digits by process {}; {right} labels equal the plain ones, logits off by at most {error:.1e}",
                server.pid()
            ),
        })
    })
}
