//! Reports how well the built-in model classifies digits.
//!
//! ```sh
//! cargo run --release -p tobari-infer-files --example digits_report -- MNIST-FOLDER
//! ```
//!
//! The report has the labels of all test images in doubles and in integers, the confusion matrix,
//! the range of every stage, the time of an image on one thread, and drawn digits.

#![allow(clippy::print_stdout, reason = "an example tells what it does")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;
use tobari_infer::Model;
use tobari_infer::digits::{STYLES, draw};
use tobari_infer_files::images::{IdxImages, read_idx_tests};

fn main() -> Result<(), Box<dyn Error>> {
    let Some(folder) = std::env::args().nth(1) else {
        println!("NOT RUN: expected a folder with the files of MNIST");
        return Ok(());
    };
    let (images, labels) = read_idx_tests(Path::new(&folder))?;
    let model = Model::digits()?;
    let hex: String = model.digest().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("model {hex}, {} bytes", model.encode().len());
    accuracy(&model, &images, &labels)?;
    ranges(&model, &images)?;
    times(&model, &images)?;
    drawn(&model)
}

fn accuracy(model: &Model, images: &IdxImages, labels: &[u8]) -> Result<(), Box<dyn Error>> {
    let fixed = model.fixed()?;
    let (mut right, mut others, mut worst, mut confusion) = ([0; 2], 0, 0f64, [[0; 10]; 10]);
    for (image, label) in images.iter().zip(labels) {
        let logits = model.forward(image)?;
        let doubles = (0..10).fold(0, |best, class| if logits[class] > logits[best] { class } else { best });
        let integers = fixed.classify(image)?;
        let scale = 2f64.powi(model.logit_bits() - 24);
        let error = |(a, b): (&f64, i64)| (a - b as f64 * scale).abs();
        worst = logits.iter().zip(fixed.logits(image)?).map(error).fold(worst, f64::max);
        right[0] += usize::from(doubles == usize::from(*label));
        right[1] += usize::from(integers == usize::from(*label));
        others += usize::from(doubles != integers);
        confusion[usize::from(*label)][integers] += 1;
    }
    println!("right of {}: {} in doubles, {} in integers; {others} labels differ", labels.len(), right[0], right[1]);
    println!("largest difference of a logit between them: {worst:.2e}");
    println!("labels down, answers across:");
    confusion.iter().for_each(|row| println!("{}", row.map(|count| format!("{count:6}")).concat()));
    Ok(())
}

fn ranges(model: &Model, images: &IdxImages) -> Result<(), Box<dyn Error>> {
    let all: Vec<&[u8]> = images.iter().collect();
    println!("largest |u| of each stage over the test images, for any image, and the largest sum of weights of a row:");
    for (range, stage) in model.ranges(&all)?.iter().zip(model.stages()) {
        println!(
            "{:8} {:8.4} {:10.3} {:10.3}   weights in 2^-{}",
            range.name, range.seen, range.bound, range.gain, stage.weight_bits
        );
    }
    Ok(())
}

fn times(model: &Model, images: &IdxImages) -> Result<(), Box<dyn Error>> {
    let fixed = model.fixed()?;
    let images: Vec<&[u8]> = images.iter().take(1000).collect();
    let mut best = [f64::INFINITY; 2];
    for _ in 0..9 {
        let start = Instant::now();
        for image in &images {
            std::hint::black_box(model.forward(image)?);
        }
        best[0] = best[0].min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        for image in &images {
            std::hint::black_box(fixed.classify(image)?);
        }
        best[1] = best[1].min(start.elapsed().as_secs_f64());
    }
    let [doubles, integers] = best.map(|seconds| seconds * 1e6 / images.len() as f64);
    println!("an image, fastest of 9 runs over 1,000: {doubles:.1} us in doubles, {integers:.1} us in integers");
    Ok(())
}

fn drawn(model: &Model) -> Result<(), Box<dyn Error>> {
    let fixed = model.fixed()?;
    let mut wrong = Vec::new();
    for (at, style) in STYLES.iter().enumerate() {
        for digit in 0..10 {
            let found = fixed.classify(&draw(digit, style))?;
            if found != usize::from(digit) {
                wrong.push(format!("style {at}: {digit} read as {found}"));
            }
        }
    }
    println!("drawn digits: {} of {} wrong {wrong:?}", wrong.len(), 10 * STYLES.len());
    Ok(())
}
