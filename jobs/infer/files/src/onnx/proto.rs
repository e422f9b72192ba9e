//! The wire format of protocol buffers, as far as ONNX needs it: a message is a sequence of fields,
//! each with a number, a kind, and an integer or bytes.
//!
//! Reading takes slices of the file and allocates nothing, so a small file cannot become large. The
//! modules that store the contents have the limits on their counts.

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Integer(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// Reads the fields of a message one by one; ends after the first invalid one.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    failed: bool,
}

/// The bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotAMessage;

pub(super) fn fields(bytes: &[u8]) -> Fields<'_> {
    Fields { rest: bytes, failed: false }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = integer(&mut self.rest)?;
        let number = key >> 3;
        let value = match key & 7 {
            0 => Value::Integer(integer(&mut self.rest)?),
            1 => Value::Fixed64(u64::from_le_bytes(take(&mut self.rest)?)),
            2 => {
                let length = usize::try_from(integer(&mut self.rest)?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            5 => Value::Fixed32(u32::from_le_bytes(take(&mut self.rest)?)),
            _ => return None,
        };
        (number > 0).then_some((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), NotAMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.failed {
            return None;
        }
        let field = self.field();
        self.failed = field.is_none();
        Some(field.ok_or(NotAMessage))
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, others) = rest.split_first_chunk()?;
    *rest = others;
    Some(*taken)
}

/// An integer with seven bits for each byte, the lowest first, the top bit set in all but the last;
/// at most ten bytes.
pub(super) fn integer(rest: &mut &[u8]) -> Option<u64> {
    let mut integer = 0u64;
    for i in 0..10 {
        let [byte] = take(rest)?;
        if i == 9 && byte > 1 {
            return None;
        }
        integer |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some(integer);
        }
    }
    None
}

/// Writes messages.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    fn put(&mut self, mut integer: u64) {
        while integer >= 0x80 {
            self.bytes.push(integer as u8 | 0x80);
            integer >>= 7;
        }
        self.bytes.push(integer as u8);
    }

    pub(super) fn integer(mut self, number: u64, value: i64) -> Self {
        self.put(number << 3);
        self.put(value as u64);
        self
    }

    pub(super) fn field(mut self, number: u64, value: &[u8]) -> Self {
        self.put(number << 3 | 2);
        self.put(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    pub(super) fn message(self, number: u64, value: &Self) -> Self {
        self.field(number, &value.bytes)
    }
}
