//! The file of a model, `.tim`.
//!
//! | field | bytes |
//! |---|---|
//! | `TIM`, version 2 | 4 |
//! | stages; exponent of the logits, signed | 1; 4 |
//! | the margin between labels in logits, a double; 0 if unknown | 8 |
//! | with a margin: 1 if powers follow, 0 otherwise; a double for the input of each stage ([`Calibration`]) | 1; 8 each |
//! | for each stage: length of its name; the name, UTF-8 without control characters | 1; so many |
//! | … channels, rows, columns of its input and of its output | 4 each |
//! | … bits after the point of weights and of offsets | 1 each |
//! | … 0 for a dense map; 1 for a convolution, then kernel, stride, padding, rows before columns | 1; 4 each |
//! | … bytes of a weight: the fewest of 1, 2, 4, 7 that hold all; the weights as signed integers | 1; so many each |
//! | … 1 if all offsets of a channel are equal, and stored once for each channel; or 0 | 1 |
//! | … bytes of an offset: the fewest of 1, 2, 4, 7 that hold all; the offsets as signed integers | 1; so many each |
//! | SHA-256 of all the bytes before | 32 |
//!
//! Integers are big-endian. The number of weights follows from the shapes, so the reader checks
//! that their bytes exist before it allocates anything. A model has exactly one byte string. The
//! checksum finds damage and identifies a model ([`Model::digest`]); it does not authenticate the
//! author.
//!
//! **A small file cannot become a large model.** A number takes at least one byte in the file and
//! eight in memory. Offsets stored once per channel are copied to all outputs after all stages are
//! read, and the number of copies is limited ([`MAX_SPREAD`]): a model takes at most ten times the
//! bytes of its file, plus 32 MiB.

use super::model::{
    Calibration, MAX_BITS, MAX_NAME_BYTES, MAX_NUMBERS, MAX_SPREAD, MAX_STAGES, MAX_WEIGHTS, Map, Model, ModelError,
    Stage, Volume,
};
use sha2::{Digest, Sha256};

/// The most bytes of a file.
pub const MAX_MODEL_BYTES: usize = 1 << 28;
const MAGIC: [u8; 4] = *b"TIM\x02";
const CHECKSUM_BYTES: usize = 32;
/// Sizes of an integer in bytes. Integers on the model's grids have 53 bits and a sign.
const WIDTHS: [usize; 4] = [1, 2, 4, 7];

/// Errors of [`Model::decode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelBytesError {
    /// Too few bytes, or too many.
    #[error("malformed model: expected {expected} bytes at {place}, found {found}")]
    Length {
        /// The place in the file.
        place: &'static str,
        /// The number expected.
        expected: u64,
        /// The number left.
        found: u64,
    },
    /// Another kind of file, or another version.
    #[error("expected a model of version 2, which begins {MAGIC:02x?}, found {0:02x?}")]
    Magic([u8; 4]),
    /// A field with an invalid value.
    #[error("malformed model: {0}")]
    Malformed(&'static str),
    /// The file was changed or damaged.
    #[error("damaged model: the checksum at the end does not match the content")]
    Checksum,
    /// Stages that do not form a model.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Model {
    /// The model's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(self.stages().len() as u8);
        out.extend_from_slice(&self.logit_bits().to_be_bytes());
        put_calibration(&mut out, self.calibration());
        self.stages().iter().for_each(|stage| put_stage(&mut out, stage));
        let checksum = Sha256::digest(&out);
        out.extend_from_slice(&checksum);
        out
    }

    /// Decodes a model.
    ///
    /// # Errors
    /// [`ModelBytesError`] for invalid bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, ModelBytesError> {
        let mut fields = Fields { rest: bytes };
        let magic = fields.array("the beginning")?;
        if magic == *b"TIM\x01" {
            return Err(ModelBytesError::Malformed(
                "expected version 2, found 1, which has no margin between labels: make the model again (`tobari infer compile`)",
            ));
        }
        if magic != MAGIC {
            return Err(ModelBytesError::Magic(magic));
        }
        if bytes.len() > MAX_MODEL_BYTES {
            return Err(ModelBytesError::Malformed("expected at most 2^28 bytes, found more"));
        }
        let (before, checksum) = match bytes.split_last_chunk::<CHECKSUM_BYTES>() {
            Some(split) if fields.rest.len() >= CHECKSUM_BYTES => split,
            _ => return Err(fields.short("the checksum", CHECKSUM_BYTES)),
        };
        if Sha256::digest(before)[..] != checksum[..] {
            return Err(ModelBytesError::Checksum);
        }
        fields.rest = &before[MAGIC.len()..];
        let [count] = fields.array("the number of stages")?;
        if !(1..=MAX_STAGES).contains(&usize::from(count)) {
            return Err(ModelBytesError::Malformed("expected 1 to 64 stages, found another number"));
        }
        let logit_bits = i32::from_be_bytes(fields.array("the exponent of the logits")?);
        let calibration = take_calibration(&mut fields, count)?;
        let stages = (0..count).map(|_| take_stage(&mut fields));
        let mut stages = stages.collect::<Result<Vec<_>, ModelBytesError>>()?;
        match fields.rest.len() {
            0 => {
                spread(&mut stages)?;
                let model = Self::new(stages, logit_bits)?;
                Ok(match calibration {
                    Some(calibration) => model.calibrated(calibration)?,
                    None => model,
                })
            }
            more => Err(ModelBytesError::Length { place: "the end", expected: 0, found: more as u64 }),
        }
    }

    /// SHA-256 of the model's bytes without the checksum, which identifies the model.
    pub fn digest(&self) -> [u8; 32] {
        let bytes = self.encode();
        let mut digest = [0; 32];
        digest.copy_from_slice(&bytes[bytes.len() - CHECKSUM_BYTES..]);
        digest
    }
}

fn put_calibration(out: &mut Vec<u8>, calibration: Option<&Calibration>) {
    let Some(Calibration { margin, powers }) = calibration else {
        out.extend_from_slice(&[0; 8]);
        return;
    };
    out.extend_from_slice(&margin.to_be_bytes());
    out.push(u8::from(!powers.is_empty()));
    powers.iter().for_each(|power| out.extend_from_slice(&power.to_be_bytes()));
}

fn take_calibration(fields: &mut Fields<'_>, stages: u8) -> Result<Option<Calibration>, ModelBytesError> {
    let margin = fields.array("the margin")?;
    if margin == [0; 8] {
        return Ok(None);
    }
    let powers = match fields.array("whether there are powers")? {
        [0] => Vec::new(),
        [1] => {
            let one = |_| Ok::<_, ModelBytesError>(f64::from_be_bytes(fields.array("powers")?));
            (0..stages).map(one).collect::<Result<_, _>>()?
        }
        _ => return Err(ModelBytesError::Malformed("expected 0 or 1 before the powers, found another")),
    };
    Ok(Some(Calibration { margin: f64::from_be_bytes(margin), powers }))
}

/// The length of a file with these stages: an upper bound, at most a few thousand bytes too high.
pub(super) fn length(stages: &[Stage]) -> u64 {
    let numbers = |numbers: &[f64], bits: u32| {
        let most = numbers.iter().fold(0f64, |most, x| most.max(x.abs())) * 2f64.powi(bits as i32);
        let width = WIDTHS.into_iter().find(|width| most < 2f64.powi(8 * *width as i32 - 1)).unwrap_or(7);
        (numbers.len() * width) as u64
    };
    let one = |stage: &Stage| {
        let rest = (MAX_NAME_BYTES + 128) as u64;
        rest + numbers(stage.map.weights(), stage.weight_bits) + numbers(&stage.bias, stage.bias_bits)
    };
    stages.iter().map(one).sum()
}

/// Checks the copies of the offsets of complete stages against the limit.
pub(super) fn check_spread(stages: &[Stage]) -> Result<(), ModelError> {
    limit_spread(stages.iter().map(|stage| {
        let all = stage.bias.len();
        let offsets = if by_channel(stage) { stage.output.channels } else { all };
        [stage.map.weights().len(), offsets, all]
    }))
}

/// Copies offsets stored once per channel to every number of the output.
fn spread(stages: &mut [Stage]) -> Result<(), ModelError> {
    limit_spread(stages.iter().map(|stage| [stage.map.weights().len(), stage.bias.len(), stage.output.len()]))?;
    for stage in stages {
        if stage.bias.len() < stage.output.len() {
            let area = stage.output.height * stage.output.width;
            let mut all = Vec::with_capacity(stage.output.len());
            stage.bias.iter().for_each(|offset| all.extend(std::iter::repeat_n(*offset, area)));
            stage.bias = all;
        }
    }
    Ok(())
}

/// Takes for each stage: weights, offsets in the file, and offsets in memory.
fn limit_spread(stages: impl Iterator<Item = [usize; 3]>) -> Result<(), ModelError> {
    let (held, found) = stages.fold((0, 0), |(held, found), [weights, offsets, all]| {
        (held + weights + offsets, found + all.saturating_sub(offsets))
    });
    // eight bytes for each number of the file, and for a quarter more: ten for each byte of the
    // file
    let most = MAX_SPREAD + held / 4;
    if found > most { Err(ModelError::Spread { most, found }) } else { Ok(()) }
}

/// Whether all offsets of each channel are the same.
fn by_channel(stage: &Stage) -> bool {
    let area = stage.output.height * stage.output.width;
    stage.bias.chunks(area).all(|channel| channel.iter().all(|b| *b == channel[0]))
}

fn put_stage(out: &mut Vec<u8>, stage: &Stage) {
    out.push(stage.name.len() as u8);
    out.extend_from_slice(stage.name.as_bytes());
    let volume = |volume: Volume| [volume.channels, volume.height, volume.width];
    put_u32s(out, &[volume(stage.input), volume(stage.output)].concat());
    out.extend_from_slice(&[stage.weight_bits as u8, stage.bias_bits as u8]);
    match &stage.map {
        Map::Dense { .. } => out.push(0),
        Map::Convolution { kernel, stride, padding, .. } => {
            out.push(1);
            put_u32s(out, &[*kernel, *stride, *padding].concat());
        }
    }
    put_integers(out, stage.map.weights(), stage.weight_bits);
    let area = stage.output.height * stage.output.width;
    let by_channel = by_channel(stage);
    out.push(u8::from(by_channel));
    let bias: Vec<f64> = stage.bias.iter().copied().step_by(if by_channel { area } else { 1 }).collect();
    put_integers(out, &bias, stage.bias_bits);
}

fn put_u32s(out: &mut Vec<u8>, numbers: &[usize]) {
    // at most 2^20 each: the model's check ensures it
    numbers.iter().for_each(|number| out.extend_from_slice(&(*number as u32).to_be_bytes()));
}

fn put_integers(out: &mut Vec<u8>, numbers: &[f64], bits: u32) {
    let integers: Vec<i64> = numbers.iter().map(|x| (x * 2f64.powi(bits as i32)) as i64).collect();
    let width = WIDTHS.into_iter().find(|width| fit(&integers, *width)).unwrap_or(7);
    out.push(width as u8);
    integers.iter().for_each(|x| out.extend_from_slice(&x.to_be_bytes()[8 - width..]));
}

/// Whether integers of `width` bytes hold all numbers.
fn fit(integers: &[i64], width: usize) -> bool {
    let most = 1i64 << (8 * width - 1);
    integers.iter().all(|x| (-most..most).contains(x))
}

/// Reads a stage. Offsets stored once per channel are not copied yet.
fn take_stage(fields: &mut Fields<'_>) -> Result<Stage, ModelBytesError> {
    let [length] = fields.array("the length of a name")?;
    if usize::from(length) > MAX_NAME_BYTES {
        return Err(ModelBytesError::Malformed("expected a name of at most 64 bytes, found a longer one"));
    }
    let name = std::str::from_utf8(fields.take("a name", length.into())?);
    let name = name.ok().filter(|name| !name.chars().any(char::is_control));
    let name =
        name.ok_or(ModelBytesError::Malformed("expected a name without control characters, found other bytes"))?;
    let [input, output] = [fields.u32s("a shape")?, fields.u32s("a shape")?];
    let [input, output] =
        [input, output].map(|[channels, height, width]: [usize; 3]| Volume { channels, height, width });
    for volume in [input, output] {
        let count = volume.channels.checked_mul(volume.height).and_then(|count| count.checked_mul(volume.width));
        if !count.is_some_and(|count| (1..=MAX_NUMBERS).contains(&count)) {
            return Err(ModelBytesError::Malformed("expected 1 to 2^20 numbers in and out, found another number"));
        }
    }
    let [weight_bits, bias_bits] = fields.array("the bits after the point")?.map(u32::from);
    let kind = fields.array("the kind of a map")?;
    let (geometry, count) = match kind {
        [0] => (None, input.len().checked_mul(output.len())),
        [1] => {
            let [a, b, c, d, e, f] = fields.u32s("a kernel")?;
            let taps = a.checked_mul(b).and_then(|taps| taps.checked_mul(input.channels));
            (Some(([a, b], [c, d], [e, f])), taps.and_then(|taps| taps.checked_mul(output.channels)))
        }
        _ => return Err(ModelBytesError::Malformed("expected 0 or 1 as the kind of a map, found another")),
    };
    let count = count.filter(|count| *count <= MAX_WEIGHTS);
    let count = count.ok_or(ModelBytesError::Malformed("expected at most 2^24 weights, found more"))?;
    let weights = take_integers(fields, count, weight_bits)?;
    let area = output.height * output.width;
    let bias = match fields.array("whether offsets are one a channel")? {
        [1] => take_integers(fields, output.channels, bias_bits)?,
        [0] => {
            let bias = take_integers(fields, output.len(), bias_bits)?;
            if bias.chunks(area).all(|channel| channel.iter().all(|b| *b == channel[0])) {
                return Err(ModelBytesError::Malformed(
                    "expected one offset a channel where all are the same, found more",
                ));
            }
            bias
        }
        _ => return Err(ModelBytesError::Malformed("expected 0 or 1 before the offsets, found another")),
    };
    let map = match geometry {
        None => Map::Dense { weights },
        Some((kernel, stride, padding)) => Map::Convolution { kernel, stride, padding, weights },
    };
    Ok(Stage { name: name.to_owned(), input, output, map, bias, weight_bits, bias_bits })
}

fn take_integers(fields: &mut Fields<'_>, count: usize, bits: u32) -> Result<Vec<f64>, ModelBytesError> {
    let [width] = fields.array("the bytes of an integer")?.map(usize::from);
    let at = WIDTHS.iter().position(|allowed| *allowed == width);
    let at = at.ok_or(ModelBytesError::Malformed("expected integers of 1, 2, 4 or 7 bytes, found others"))?;
    if bits > MAX_BITS {
        return Err(ModelBytesError::Malformed("expected at most 64 bits after the point, found more"));
    }
    let length = count.checked_mul(width).ok_or(ModelBytesError::Malformed("expected fewer integers"))?;
    let bytes = fields.take("integers", length)?;
    let integers: Vec<i64> = bytes
        .chunks_exact(width)
        .map(|bytes| {
            let first = i64::from(bytes[0] as i8);
            bytes[1..].iter().fold(first, |integer, byte| integer << 8 | i64::from(*byte))
        })
        .collect();
    if at > 0 && fit(&integers, WIDTHS[at - 1]) {
        return Err(ModelBytesError::Malformed("expected the fewest bytes that hold all integers, found more"));
    }
    // exact: the model's check rejects numbers of more than 52 bits
    Ok(integers.into_iter().map(|x| x as f64 * 2f64.powi(-(bits as i32))).collect())
}

/// Reads fields from the front.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn short(&self, place: &'static str, expected: usize) -> ModelBytesError {
        ModelBytesError::Length { place, expected: expected as u64, found: self.rest.len() as u64 }
    }

    fn take(&mut self, place: &'static str, count: usize) -> Result<&'a [u8], ModelBytesError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.short(place, count))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, place: &'static str) -> Result<[u8; N], ModelBytesError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(place, N)?);
        Ok(out)
    }

    fn u32s<const N: usize>(&mut self, place: &'static str) -> Result<[usize; N], ModelBytesError> {
        let bytes = self.take(place, 4 * N)?;
        let mut out = [0; N];
        out.iter_mut()
            .zip(bytes.as_chunks::<4>().0)
            .for_each(|(out, bytes)| *out = u32::from_be_bytes(*bytes) as usize);
        Ok(out)
    }
}

/// Fuzzing: bytes that decode as a model must encode to the same bytes. Runs with and without a
/// correct checksum appended.
#[doc(hidden)]
pub fn fuzz_model(data: &[u8]) {
    let summed = [data, &Sha256::digest(data)[..]].concat();
    for bytes in [data, &summed] {
        let Ok(model) = Model::decode(bytes) else { continue };
        assert_eq!(model.encode(), bytes);
        let work: usize = model.stages().iter().map(|stage| stage.map.weights().len() * stage.output.len()).sum();
        if work < 1 << 20 {
            let image = vec![255; model.input().len()];
            assert!(model.forward(&image).is_ok());
            if let Ok(fixed) = model.fixed() {
                assert!(fixed.classify(&image).is_ok_and(|class| class < model.classes()));
            }
        }
    }
}
