//! WAV files built byte by byte: honest by default, and each field can be set to a false value.

pub(crate) const PCM: u16 = 1;
pub(crate) const FLOAT: u16 = 3;
pub(crate) const EXTENSIBLE: u16 = 0xfffe;

/// The description of a WAV file; [`Wav::bytes`] builds the file.
#[derive(Clone)]
pub(crate) struct Wav {
    pub(crate) tag: u16,
    pub(crate) channels: u16,
    pub(crate) rate_hz: u32,
    pub(crate) bits: u16,
    /// The bytes after the first 16 of the format chunk.
    pub(crate) format_tail: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// Whole chunks between the format and the data, and after the data.
    pub(crate) before_data: Vec<u8>,
    pub(crate) after_data: Vec<u8>,
    pub(crate) riff_len: Option<u32>,
    pub(crate) data_len: Option<u32>,
    pub(crate) bytes_per_second: Option<u32>,
    pub(crate) frame_bytes: Option<u16>,
}

impl Wav {
    pub(crate) fn new(tag: u16, channels: u16, rate_hz: u32, bits: u16, data: Vec<u8>) -> Self {
        let (format_tail, before_data, after_data) = (Vec::new(), Vec::new(), Vec::new());
        let (riff_len, data_len, bytes_per_second, frame_bytes) = (None, None, None, None);
        Self {
            tag,
            channels,
            rate_hz,
            bits,
            format_tail,
            data,
            before_data,
            after_data,
            riff_len,
            data_len,
            bytes_per_second,
            frame_bytes,
        }
    }

    pub(crate) fn pcm16(channels: u16, rate_hz: u32, samples: &[i16]) -> Self {
        Self::new(PCM, channels, rate_hz, 16, samples.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    pub(crate) fn float(channels: u16, rate_hz: u32, samples: &[f32]) -> Self {
        Self::new(FLOAT, channels, rate_hz, 32, samples.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// The same file with a `WAVE_FORMAT_EXTENSIBLE` header.
    pub(crate) fn extensible(mut self, valid_bits: u16) -> Self {
        self.format_tail = [&22_u16.to_le_bytes()[..], &valid_bits.to_le_bytes(), &[4, 0, 0, 0]].concat();
        self.format_tail.extend_from_slice(&self.tag.to_le_bytes());
        self.format_tail.extend_from_slice(b"\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71");
        self.tag = EXTENSIBLE;
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let frame_bytes = self.frame_bytes.unwrap_or(self.channels.wrapping_mul(self.bits / 8));
        let bytes_per_second = self.bytes_per_second.unwrap_or(self.rate_hz.wrapping_mul(u32::from(frame_bytes)));
        let mut format = Vec::new();
        format.extend_from_slice(&self.tag.to_le_bytes());
        format.extend_from_slice(&self.channels.to_le_bytes());
        format.extend_from_slice(&self.rate_hz.to_le_bytes());
        format.extend_from_slice(&bytes_per_second.to_le_bytes());
        format.extend_from_slice(&frame_bytes.to_le_bytes());
        format.extend_from_slice(&self.bits.to_le_bytes());
        format.extend_from_slice(&self.format_tail);
        let mut data = chunk(b"data", &self.data);
        if let Some(len) = self.data_len {
            data[4..8].copy_from_slice(&len.to_le_bytes());
        }
        let body = [&b"WAVE"[..], &chunk(b"fmt ", &format), &self.before_data, &data, &self.after_data].concat();
        let riff_len = self.riff_len.unwrap_or(body.len() as u32);
        [&b"RIFF"[..], &riff_len.to_le_bytes(), &body].concat()
    }
}

/// A chunk, with its pad byte if its length is odd.
pub(crate) fn chunk(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let pad = &[0][..body.len() % 2];
    [kind, &(body.len() as u32).to_le_bytes()[..], body, pad].concat()
}

/// Different pseudorandom numbers for every seed.
pub(crate) fn noise(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    })
}
