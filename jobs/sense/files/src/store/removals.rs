//! The times of removed frames, as disjoint intervals. A window that one of them touches has no
//! right result any more.

use redb::{ReadableTable, StorageError, Table, TableDefinition};

/// The first time of an interval, and its last, in milliseconds since 1970.
pub(super) const REMOVED: TableDefinition<'_, u64, u64> = TableDefinition::new("removed");

/// Times that are no further apart are of one interval, so that a store that removes frames for
/// years has few.
const NEAR_MS: u64 = 60_000;

/// Adds a time.
pub(super) fn note(table: &mut Table<'_, u64, u64>, time_ms: u64) -> Result<(), StorageError> {
    let before = table.range(..=time_ms)?.next_back().transpose()?.map(|(from, to)| (from.value(), to.value()));
    let (from, mut to) = match before {
        Some((_, to)) if time_ms <= to => return Ok(()),
        Some((from, to)) if time_ms <= to.saturating_add(NEAR_MS) => (from, time_ms),
        _ => (time_ms, time_ms),
    };
    // joins those behind it
    loop {
        let near = from.saturating_add(1)..=to.saturating_add(NEAR_MS);
        let next = table.range(near)?.next().transpose()?.map(|(from, to)| (from.value(), to.value()));
        let Some((start, end)) = next else { break };
        table.remove(start)?;
        to = to.max(end);
    }
    table.insert(from, to)?;
    Ok(())
}

/// Whether an interval has a time from `from_ms` to before `until_ms`.
pub(super) fn touches(table: &impl ReadableTable<u64, u64>, from_ms: u64, until_ms: u64) -> Result<bool, StorageError> {
    let last = table.range(..until_ms)?.next_back().transpose()?;
    Ok(last.is_some_and(|(_, to)| to.value() >= from_ms))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use redb::{Database, ReadableDatabase, ReadableTableMetadata, backends::InMemoryBackend};

    #[test]
    fn intervals_of_any_order_of_times_touch_the_windows_of_these_times_and_their_neighbours_alone() {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        // minutes 0 to 9, then 40 to 49, in any order; then one between that joins nothing
        let minutes = [3, 1, 9, 0, 7, 5, 2, 8, 6, 4, 49, 41, 45, 40, 43, 42, 44, 47, 46, 48, 20, 3, 45];
        for minute in minutes {
            let writing = database.begin_write().unwrap();
            note(&mut writing.open_table(REMOVED).unwrap(), 60_000 * minute).unwrap();
            writing.commit().unwrap();
        }
        let table = database.begin_read().unwrap().open_table(REMOVED).unwrap();
        assert_eq!(table.len().unwrap(), 3);
        for start in 0..60 {
            for end in start + 1..=60 {
                let expected = minutes.iter().any(|minute| (start..end).contains(minute));
                assert_eq!(touches(&table, 60_000 * start, 60_000 * end).unwrap(), expected, "{start}..{end}");
            }
        }
        assert!(!touches(&table, 0, 0).unwrap() && !touches(&table, u64::MAX, u64::MAX).unwrap());
    }
}
