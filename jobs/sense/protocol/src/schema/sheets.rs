//! Sheets: which bytes of a frame are which columns.

use super::{Channel, Column, Counting, Schema, SchemaError};
use tobari_device::READINGS;

/// The largest number of sheets: their numbers have twelve bits.
const MAX_SHEETS: usize = 1 << 12;

/// The columns of one sheet, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    counting: Counting,
    samples: usize,
    columns: Vec<Column>,
}

impl Sheet {
    /// The columns of a sample, in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The number of samples of a full frame.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// The number of bytes that can be other than zero. They are the first ones.
    pub fn used(&self) -> usize {
        self.first() + self.samples * self.columns.len()
    }

    /// The bytes before the rows: the byte of the count.
    fn first(&self) -> usize {
        usize::from(self.counting == Counting::Frame)
    }

    /// The places of a column, one for each sample; `None` if the sheet does not have it.
    pub fn places(&self, column: Column) -> Option<impl Iterator<Item = usize>> {
        let place = self.columns.iter().position(|known| *known == column)?;
        Some((0..self.samples).map(move |sample| self.first() + sample * self.columns.len() + place))
    }

    /// The number of samples of `frames` frames with these sums.
    pub fn count(&self, sums: &[i64; READINGS], frames: i64) -> i64 {
        match self.counting {
            Counting::Row => self.places(Column::Present).map_or(0, |places| places.map(|place| sums[place]).sum()),
            Counting::Frame => sums[0],
            Counting::Full => frames.saturating_mul(self.samples as i64),
        }
    }

    /// The largest sum that a place can have over this many frames, if it has ones and zeros or,
    /// for sums of readings themselves, counts; `None` for bytes.
    pub fn most(&self, place: usize, frames: i64, readings: bool) -> Option<i64> {
        if place < self.first() {
            return readings.then_some(frames.saturating_mul(self.samples as i64));
        }
        let column = self.columns.get((place - self.first()) % self.columns.len().max(1))?;
        let unit = matches!(column, Column::Present | Column::Bin(..) | Column::Above(..));
        (unit && place < self.used()).then_some(frames)
    }
}

impl Channel {
    /// The columns of one of its readings.
    fn columns(&self, channel: usize, element: usize) -> impl Iterator<Item = Column> + '_ {
        let values = (0..self.limbs()).map(move |limb| Column::Value { channel, element, limb });
        let squares = if self.square { 2 * self.limbs() } else { 0 };
        let squares = (0..squares).map(move |limb| Column::Square { channel, element, limb });
        let bins = if self.edges.is_empty() { 0 } else { self.edges.len() + 1 };
        let bins = (0..bins).map(move |bin| Column::Bin(channel, bin));
        let above = (0..self.above.len()).map(move |which| Column::Above(channel, which));
        values.chain(squares).chain(bins).chain(above)
    }
}

impl Schema {
    /// All sheets, by number: one if a row group fits into a frame. In rows that are divided a
    /// place of each sheet stays free, because a device's key, passed off as a sum, fills all of
    /// them.
    pub fn sheets(&self) -> Vec<Sheet> {
        let whole = self.divided(usize::MAX);
        let fits = whole.iter().all(|sheet| sheet.used() <= READINGS);
        if fits || !self.profile.is_stamped() { whole } else { self.divided(READINGS - 1) }
    }

    /// Sheets of at most this many bytes, if no reading alone has more.
    fn divided(&self, most: usize) -> Vec<Sheet> {
        let counting = self.counting();
        let new = || Sheet {
            counting,
            samples: self.samples,
            columns: if counting == Counting::Row { vec![Column::Present] } else { Vec::new() },
        };
        let (mut sheets, mut sheet) = (Vec::new(), new());
        let mut add = |columns: Vec<Column>| {
            let is_full = sheet.first() + self.samples * (sheet.columns.len() + columns.len()) > most;
            if is_full && sheet.columns.len() > new().columns.len() {
                sheets.push(std::mem::replace(&mut sheet, new()));
            }
            sheet.columns.extend(columns);
        };
        for (i, channel) in self.channels.iter().enumerate() {
            (0..channel.readings()).for_each(|element| add(channel.columns(i, element).collect()));
        }
        for (pair, names) in self.products.iter().enumerate() {
            let bytes = names.iter().filter_map(|name| self.channel(name)).map(|i| self.channels[i].limbs()).sum();
            add((0..bytes).map(|limb| Column::Product { pair, limb }).collect());
        }
        sheets.push(sheet);
        sheets
    }

    /// The number of sheets without a free place: their sums cannot be told from a device's key.
    pub fn full_sheets(&self) -> usize {
        self.sheets().iter().filter(|sheet| sheet.used() == READINGS).count()
    }

    pub(super) fn check_sheets(&self) -> Result<(), SchemaError> {
        let sheets = self.sheets();
        if let Some(large) = sheets.iter().find(|sheet| sheet.used() > READINGS) {
            return Err(SchemaError::Room { samples: self.samples, columns: large.columns.len() });
        }
        if sheets.len() > MAX_SHEETS {
            return Err(SchemaError::Count {
                expected: "at most 4096 frames for a row, with fewer samples, channels or bits",
                found: sheets.len(),
            });
        }
        for (pair, names) in self.products.iter().enumerate() {
            let has = |sheet: &&Sheet| {
                let there = |column: Column| sheet.columns.contains(&column);
                there(Column::Product { pair, limb: 0 })
                    && names
                        .iter()
                        .filter_map(|name| self.channel(name))
                        .all(|channel| there(Column::Value { channel, element: 0, limb: 0 }))
            };
            if !sheets.iter().any(|sheet| has(&sheet)) {
                return Err(SchemaError::Channel {
                    channel: names[0].clone(),
                    expected: "the product and both of its channels in one frame: use fewer samples or columns",
                });
            }
        }
        Ok(())
    }

    /// The readings of a row group's frames, one for each sheet, for a device to encrypt. A row has
    /// the numbers of all readings. Missing rows are marked as missing.
    ///
    /// # Errors
    /// [`SchemaError::Count`] for more rows than a frame has, or rows of a wrong length;
    /// [`SchemaError::Partial`] for fewer rows if frames are full; [`SchemaError::Reading`] for
    /// numbers out of range.
    pub fn frames(&self, rows: &[Vec<u32>]) -> Result<Vec<[u8; READINGS]>, SchemaError> {
        if rows.len() > self.samples {
            return Err(SchemaError::Count { expected: "no more rows than a frame has samples", found: rows.len() });
        }
        if self.counting() == Counting::Full && rows.len() < self.samples {
            return Err(SchemaError::Partial { samples: self.samples, found: rows.len() });
        }
        for row in rows {
            if row.len() != self.row_length() {
                return Err(SchemaError::Count { expected: "a number for each reading", found: row.len() });
            }
            if let Some((channel, _)) = self.row_channels().zip(row).find(|(channel, number)| **number > channel.most())
            {
                return Err(SchemaError::Reading { channel: channel.name.clone() });
            }
        }
        // where each channel's readings begin in a row
        let starts: Vec<usize> = self
            .channels
            .iter()
            .scan(0, |next, channel| {
                let start = *next;
                *next += channel.readings();
                Some(start)
            })
            .collect();
        let numbers = Numbers { schema: self, starts };
        let frame = |sheet: &Sheet| {
            let mut readings = [0; READINGS];
            if sheet.counting == Counting::Frame {
                readings[0] = rows.len() as u8;
            }
            let places = readings[sheet.first()..].chunks_mut(sheet.columns.len());
            for (row, place) in rows.iter().zip(places) {
                place.iter_mut().zip(&sheet.columns).for_each(|(byte, column)| *byte = numbers.byte(*column, row));
            }
            readings
        };
        Ok(self.sheets().iter().map(frame).collect())
    }
}

/// The numbers of rows.
struct Numbers<'a> {
    schema: &'a Schema,
    starts: Vec<usize>,
}

impl Numbers<'_> {
    fn of(&self, row: &[u32], channel: usize, element: usize) -> u32 {
        row[self.starts[channel] + element]
    }

    /// The byte of a column in a row.
    fn byte(&self, column: Column, row: &[u32]) -> u8 {
        let channel = |i: usize| &self.schema.channels[i];
        match column {
            Column::Present => 1,
            Column::Value { channel: i, element, limb } => {
                byte(self.of(row, i, element).into(), channel(i).limbs(), limb)
            }
            Column::Square { channel: i, element, limb } => {
                let number = u64::from(self.of(row, i, element));
                byte(number * number, 2 * channel(i).limbs(), limb)
            }
            Column::Bin(i, bin) => {
                let starts = channel(i).bins(&channel(i).edges).unwrap_or_default();
                let number = self.of(row, i, 0);
                u8::from(starts.iter().filter(|start| **start <= number).count() == bin)
            }
            Column::Above(i, which) => {
                let most = channel(i).threshold(channel(i).above[which]);
                u8::from(most.is_some_and(|most| self.of(row, i, 0) > most))
            }
            Column::Product { pair, limb } => {
                let of = |which: usize| {
                    let i = self.schema.channel(&self.schema.products[pair][which]);
                    i.map_or((0, 0), |i| (u64::from(self.of(row, i, 0)), channel(i).limbs()))
                };
                let (one, other) = (of(0), of(1));
                byte(one.0 * other.0, one.1 + other.1, limb)
            }
        }
    }
}

/// A byte of a number that has this many, the highest first.
fn byte(number: u64, bytes: usize, limb: usize) -> u8 {
    (number >> (8 * (bytes - 1 - limb))) as u8
}
