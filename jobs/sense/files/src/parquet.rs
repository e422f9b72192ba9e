//! Frames and released figures as Parquet files, for data lakes and notebooks.
//!
//! | file | a row | columns |
//! |---|---|---|
//! | frames of a server | a frame as it arrived | `time`, `device`, `counter`, `profile`, `frame` |
//! | figures of a key holder | a figure, bin or threshold of a group in a window | see below |
//!
//! The columns of figures are `question`, `id`, `start`, `end`, `group`, `devices`, `frames`,
//! `statistic`, `channel`, `edge`, `value`, `exact` and `alarm`.
//!
//! `time`, `start` and `end` are UTC in milliseconds; `time` is that of the frame, or of its
//! storage in version 1. `frame` is a fixed-length binary of 553 to 943 bytes, stored uncompressed
//! because it does not compress. `edge` is the upper end of a histogram's bin, the threshold, or
//! the place in a vector; it is null elsewhere and in the last bin. `value` is in physical units,
//! `exact` in steps of bytes, an integer or a fraction.
//!
//! **Who sees what**: a file of frames reveals the same as the server's disk, the senders and times
//! of frames, and no reading. A file of figures reveals the same as analysts' releases.
//!
//! Rows are written in groups of [`ROWS`], so memory does not grow with the file.

use super::FrameStore;
use parquet::basic::Compression;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, Int32Type,
    Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tobari_host::files::{FileError, write_atomically_with};
use tobari_sense::ProfileName;
use tobari_sense::ingest::Checked;
use tobari_sense::release::{Figure, GroupFigures, Release};

/// The largest number of rows of a group: 3.4 MB of frames.
pub const ROWS: usize = 4096;

const FIGURES: &str = "message figures {
    required binary question (STRING);
    required binary id (STRING);
    required int64 start (TIMESTAMP(MILLIS,true));
    required int64 end (TIMESTAMP(MILLIS,true));
    required binary group (STRING);
    required int32 devices;
    required int64 frames;
    required binary statistic (STRING);
    required binary channel (STRING);
    optional double edge;
    optional double value;
    required binary exact (STRING);
    optional boolean alarm;
}";

type Writer<'a> = SerializedFileWriter<&'a mut File>;
type Group<'a, 'b> = SerializedRowGroupWriter<'a, &'b mut File>;

/// Writes the frames of a time range, in the order of their arrival. Returns their number.
///
/// # Errors
/// [`FileError::Write`], with the error of the store or the format; the file of this name is then
/// unchanged.
pub fn export_frames(
    path: &Path,
    store: &FrameStore,
    fleet: &str,
    profile: ProfileName,
    [from_ms, to_ms]: [u64; 2],
) -> Result<u64, FileError> {
    let schema = format!(
        "message frames {{
            required int64 time (TIMESTAMP(MILLIS,true));
            required int32 device;
            required int32 counter;
            required binary profile (STRING);
            required fixed_len_byte_array({}) frame;
        }}",
        profile.frame_bytes()
    );
    let mut written = 0;
    write_atomically_with(path, |file| {
        let mut writer = begin(file, &schema, fleet)?;
        let mut rows = FrameRows::default();
        store.window_with_times(from_ms, to_ms, |time_ms, bytes| {
            for frame in bytes.chunks(profile.frame_bytes()) {
                rows.push(time_ms, profile, frame)?;
                if rows.times.len() == ROWS {
                    written += rows.write(&mut writer, profile)?;
                }
            }
            Ok::<(), io::Error>(())
        })?;
        written += rows.write(&mut writer, profile)?;
        ended(writer.close()).map(|_| ())
    })?;
    Ok(written)
}

/// Writes figures. Returns the number of rows.
///
/// # Errors
/// [`FileError::Write`]; the file of this name is then unchanged.
pub fn export_releases(path: &Path, fleet: &str, releases: &[Release]) -> Result<u64, FileError> {
    let mut written = 0;
    write_atomically_with(path, |file| {
        let mut writer = begin(file, FIGURES, fleet)?;
        let mut rows = FigureRows::default();
        for release in releases {
            for group in &release.groups {
                rows.push(release, group);
                if rows.questions.len() >= ROWS {
                    written += rows.write(&mut writer)?;
                }
            }
        }
        written += rows.write(&mut writer)?;
        ended(writer.close()).map(|_| ())
    })?;
    Ok(written)
}

fn begin<'a>(file: &'a mut File, schema: &str, fleet: &str) -> io::Result<Writer<'a>> {
    let frame = || ColumnPath::from("frame");
    let properties = WriterProperties::builder()
        .set_compression(Compression::UNCOMPRESSED)
        .set_column_dictionary_enabled(frame(), false)
        .set_column_statistics_enabled(frame(), EnabledStatistics::None)
        .set_key_value_metadata(Some(vec![KeyValue::new("tobari.fleet".to_owned(), fleet.to_owned())]));
    let schema = Arc::new(ended(parse_message_type(schema))?);
    ended(SerializedFileWriter::new(file, schema, Arc::new(properties.build())))
}

fn ended<T>(result: Result<T, ParquetError>) -> io::Result<T> {
    result.map_err(io::Error::other)
}

/// Writes the next column; missing values have the level 0.
fn column<T: DataType>(group: &mut Group<'_, '_>, values: &[T::T], levels: Option<&[i16]>) -> io::Result<()> {
    let next = ended(group.next_column())?;
    let mut column = next.ok_or_else(|| io::Error::other("expected another column, found none"))?;
    ended(column.typed::<T>().write_batch(values, levels, None))?;
    ended(column.close())
}

/// Writes a column whose values may be missing.
fn optional<T: DataType>(group: &mut Group<'_, '_>, values: &[Option<T::T>]) -> io::Result<()> {
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let there: Vec<T::T> = values.iter().flatten().cloned().collect();
    column::<T>(group, &there, Some(&levels))
}

/// The number as a signed integer.
fn signed<T: TryFrom<u64>>(number: u64) -> io::Result<T> {
    T::try_from(number)
        .map_err(|_| io::Error::other("expected a number that a signed column holds, found a larger one"))
}

/// Frames that wait to be written.
#[derive(Default)]
struct FrameRows {
    times: Vec<i64>,
    devices: Vec<i32>,
    counters: Vec<i32>,
    frames: Vec<FixedLenByteArray>,
}

impl FrameRows {
    fn push(&mut self, time_ms: u64, profile: ProfileName, frame: &[u8]) -> io::Result<()> {
        let checked = Checked::of_stored(profile, frame);
        let head = checked.ok_or_else(|| io::Error::other("expected a frame in the store, found other bytes"))?.head;
        self.times.push(signed(time_ms)?);
        self.devices.push(signed(head.device.value().into())?);
        self.counters.push(signed(head.counter.into())?);
        self.frames.push(frame.to_vec().into());
        Ok(())
    }

    /// Writes the waiting rows as one group. Returns their number.
    fn write(&mut self, writer: &mut Writer<'_>, profile: ProfileName) -> io::Result<u64> {
        let rows = std::mem::take(self);
        if rows.times.is_empty() {
            return Ok(0);
        }
        let profile = ByteArray::from(profile.to_string().into_bytes());
        let mut group = ended(writer.next_row_group())?;
        column::<Int64Type>(&mut group, &rows.times, None)?;
        column::<Int32Type>(&mut group, &rows.devices, None)?;
        column::<Int32Type>(&mut group, &rows.counters, None)?;
        column::<ByteArrayType>(&mut group, &vec![profile; rows.times.len()], None)?;
        column::<FixedLenByteArrayType>(&mut group, &rows.frames, None)?;
        ended(group.close())?;
        Ok(rows.times.len() as u64)
    }
}

/// Figures that wait to be written.
#[derive(Default)]
struct FigureRows {
    questions: Vec<[ByteArray; 2]>,
    windows: Vec<[u64; 2]>,
    groups: Vec<ByteArray>,
    sizes: Vec<(u32, u64)>,
    names: Vec<[ByteArray; 2]>,
    edges: Vec<Option<f64>>,
    values: Vec<Option<f64>>,
    exact: Vec<ByteArray>,
    alarms: Vec<Option<bool>>,
}

/// The values of a row besides its group and window.
struct Cell<'a> {
    names: [&'a str; 2],
    edge: Option<f64>,
    value: Option<f64>,
    exact: String,
    alarm: Option<bool>,
}

impl FigureRows {
    fn push(&mut self, release: &Release, group: &GroupFigures) {
        for cell in group.figures.iter().flat_map(cells) {
            self.questions.push([&*release.question, &*release.id].map(ByteArray::from));
            self.windows.push([release.start_ms, release.end_ms]);
            self.groups.push(ByteArray::from(&*group.group));
            self.sizes.push((group.devices, group.frames));
            self.names.push(cell.names.map(ByteArray::from));
            self.edges.push(cell.edge);
            self.values.push(cell.value);
            self.exact.push(cell.exact.into_bytes().into());
            self.alarms.push(cell.alarm);
        }
    }

    fn write(&mut self, writer: &mut Writer<'_>) -> io::Result<u64> {
        let rows = std::mem::take(self);
        if rows.questions.is_empty() {
            return Ok(0);
        }
        let mut group = ended(writer.next_row_group())?;
        for which in 0..2 {
            let texts: Vec<ByteArray> = rows.questions.iter().map(|both| both[which].clone()).collect();
            column::<ByteArrayType>(&mut group, &texts, None)?;
        }
        for which in 0..2 {
            let times = rows.windows.iter().map(|both| signed(both[which])).collect::<io::Result<Vec<i64>>>()?;
            column::<Int64Type>(&mut group, &times, None)?;
        }
        column::<ByteArrayType>(&mut group, &rows.groups, None)?;
        let devices = rows.sizes.iter().map(|size| signed(size.0.into())).collect::<io::Result<Vec<i32>>>()?;
        column::<Int32Type>(&mut group, &devices, None)?;
        let frames = rows.sizes.iter().map(|size| signed(size.1)).collect::<io::Result<Vec<i64>>>()?;
        column::<Int64Type>(&mut group, &frames, None)?;
        for which in 0..2 {
            let texts: Vec<ByteArray> = rows.names.iter().map(|both| both[which].clone()).collect();
            column::<ByteArrayType>(&mut group, &texts, None)?;
        }
        optional::<DoubleType>(&mut group, &rows.edges)?;
        optional::<DoubleType>(&mut group, &rows.values)?;
        column::<ByteArrayType>(&mut group, &rows.exact, None)?;
        optional::<BoolType>(&mut group, &rows.alarms)?;
        ended(group.close())?;
        Ok(rows.questions.len() as u64)
    }
}

/// The rows of a figure.
fn cells(figure: &Figure) -> Vec<Cell<'_>> {
    let count = |names, edge, count: i64, alarm| Cell {
        names,
        edge,
        value: Some(count as f64),
        exact: count.to_string(),
        alarm,
    };
    match figure {
        Figure::Count { value } => {
            let names = ["count", ""];
            vec![Cell { names, edge: None, value: Some(*value as f64), exact: value.to_string(), alarm: None }]
        }
        Figure::Number { statistic, channel, value, exact } => {
            vec![Cell { names: [statistic, channel], edge: None, value: *value, exact: exact.clone(), alarm: None }]
        }
        Figure::Vector { statistic, channel, first, values, exact } => (*first..)
            .zip(values.iter().zip(exact))
            .map(|(place, (value, exact))| Cell {
                names: [statistic, channel],
                edge: Some(place as f64),
                value: *value,
                exact: exact.clone(),
                alarm: None,
            })
            .collect(),
        Figure::Histogram { channel, edges, counts } => (0..)
            .zip(counts)
            .map(|(bin, number)| count(["histogram", channel], edges.get::<usize>(bin).copied(), *number, None))
            .collect(),
        Figure::Above { channel, threshold, count: number, alarm } => {
            vec![count(["above", channel], Some(*threshold), *number, *alarm)]
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};
    use tobari_device::{Device, DeviceNumber, InsecureVolatileCounter, Profile, READINGS, Root, U25};

    fn rows(path: &Path) -> Vec<Row> {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let about = reader.metadata().file_metadata().key_value_metadata().unwrap();
        assert!(about.iter().any(|pair| pair.key == "tobari.fleet" && pair.value.as_deref() == Some("f1")));
        reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
    }

    fn fields(row: &Row) -> Vec<(&str, &Field)> {
        row.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect()
    }

    #[test]
    fn frames_are_read_back_as_they_were_stored_with_their_times_and_heads() {
        let folder = tempfile::tempdir().unwrap();
        let store = FrameStore::open(&folder.path().join("frames.redb")).unwrap();
        let mut expected = Vec::new();
        for (device, time) in [(7, 1000), (0x00ff_ffff, 2000), (9, 3000)] {
            let number = DeviceNumber::new(device).unwrap();
            let mut sealer =
                Device::<U25, _>::open(&Root::from_bytes([device as u8; 32]), number, InsecureVolatileCounter(5))
                    .unwrap();
            let mut frames = Vec::new();
            // more rows than one group has
            for reading in 0..ROWS as u32 / 2 {
                let mut frame = U25::EMPTY;
                sealer.seal(&[reading as u8; READINGS], &mut frame).unwrap();
                frames.extend_from_slice(&frame);
                expected.push((time, device as i32, 5 + reading as i32, frame));
            }
            store.append(time, U25::FRAME, &frames, &[]).unwrap();
        }
        let path = folder.path().join("frames.parquet");
        let written = export_frames(&path, &store, "f1", ProfileName::U25, [0, u64::MAX]).unwrap();
        assert_eq!(written, 3 * ROWS as u64 / 2);
        let found = rows(&path);
        assert_eq!(found.len(), expected.len());
        for (row, (time, device, counter, frame)) in found.iter().zip(&expected) {
            assert_eq!(
                fields(row),
                [
                    ("time", &Field::TimestampMillis(*time as i64)),
                    ("device", &Field::Int(*device)),
                    ("counter", &Field::Int(*counter)),
                    ("profile", &Field::Str("u25".to_owned())),
                    ("frame", &Field::Bytes(frame.to_vec().into())),
                ]
            );
        }
        assert_eq!(export_frames(&path, &store, "f1", ProfileName::U25, [2000, 3000]).unwrap(), ROWS as u64 / 2);
        assert!(rows(&path).iter().all(|row| fields(row)[1].1 == &Field::Int(0x00ff_ffff)));
        assert_eq!(export_frames(&path, &store, "f1", ProfileName::U25, [4000, 5000]).unwrap(), 0);
        assert!(rows(&path).is_empty());
        let refused = export_frames(&path, &store, "f1", ProfileName::P1, [0, u64::MAX]).unwrap_err();
        assert!(refused.to_string().contains("expected a frame"), "{refused}");
        assert!(rows(&path).is_empty(), "what was there stays");
    }

    #[test]
    fn figures_are_read_back_one_row_for_a_number_a_bin_and_a_threshold() {
        let figures = vec![
            Figure::Count { value: 8 },
            Figure::Number {
                statistic: "mean".to_owned(),
                channel: "t".to_owned(),
                value: Some(21.5),
                exact: "43/2".to_owned(),
            },
            Figure::Number {
                statistic: "variance".to_owned(),
                channel: "t".to_owned(),
                value: None,
                exact: "none".to_owned(),
            },
            Figure::Histogram { channel: "t".to_owned(), edges: vec![10.0], counts: vec![3, 5] },
            Figure::Above { channel: "t".to_owned(), threshold: 30.0, count: 2, alarm: Some(true) },
        ];
        let group = GroupFigures { group: "all".to_owned(), devices: 4, frames: 8, figures };
        let release = Release {
            question: "q".to_owned(),
            id: "00ff".to_owned(),
            start_ms: 1000,
            end_ms: 2000,
            groups: vec![group],
            sheet: 0,
            too_few: vec![],
            left_out: 0,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures.parquet");
        assert_eq!(export_releases(&path, "f1", &[release.clone(), release]).unwrap(), 12);
        let text = |text: &str| Field::Str(text.to_owned());
        let number = |value: Option<f64>| value.map_or(Field::Null, Field::Double);
        let row = |statistic, channel, edge, value, exact, alarm: Option<bool>| {
            [
                ("question", text("q")),
                ("id", text("00ff")),
                ("start", Field::TimestampMillis(1000)),
                ("end", Field::TimestampMillis(2000)),
                ("group", text("all")),
                ("devices", Field::Int(4)),
                ("frames", Field::Long(8)),
                ("statistic", text(statistic)),
                ("channel", text(channel)),
                ("edge", number(edge)),
                ("value", number(value)),
                ("exact", text(exact)),
                ("alarm", alarm.map_or(Field::Null, Field::Bool)),
            ]
        };
        let expected = [
            row("count", "", None, Some(8.0), "8", None),
            row("mean", "t", None, Some(21.5), "43/2", None),
            row("variance", "t", None, None, "none", None),
            row("histogram", "t", Some(10.0), Some(3.0), "3", None),
            row("histogram", "t", None, Some(5.0), "5", None),
            row("above", "t", Some(30.0), Some(2.0), "2", Some(true)),
        ];
        for (found, expected) in rows(&path).iter().zip(expected.iter().chain(&expected)) {
            let expected: Vec<(&str, &Field)> = expected.iter().map(|(name, field)| (*name, field)).collect();
            assert_eq!(fields(found), expected);
        }
    }
}
