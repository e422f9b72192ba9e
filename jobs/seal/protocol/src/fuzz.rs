//! Bodies of fuzz targets.

use super::record::Trailer;
use super::{Entry, FIXED_BYTES, Head, KeyFile, Meta, Next, Opening, PortableGcm, SetKey, head_bytes, process};

/// A head that decodes encodes to the same bytes. All bytes after it are opened or rejected, never
/// with a panic. The key file of the corpus is 32 bytes of 7; a file that opens to its end was
/// sealed under it.
#[doc(hidden)]
pub fn fuzz_seal_stream(data: &[u8]) {
    let Some(start) = data.first_chunk::<FIXED_BYTES>() else { return };
    let Ok(length) = head_bytes(start) else { return };
    let Some((head, mut rest)) = data.split_at_checked(length) else { return };
    let Ok(head) = Head::decode(head) else { return };
    assert_eq!(head.encode(), data[..length]);
    let file = KeyFile([7; 32]);
    // Without passphrases: each try costs at least 8 MiB.
    let Ok(mut opening) = Opening::begin(&head, |stanza| stanza.open_with_key_file(&file)) else { return };
    let mut content = 0;
    loop {
        match opening.next(rest.len(), true) {
            Ok(Next::Chunk { bytes, last }) => {
                let (chunk, after) = rest.split_at(bytes);
                let Ok(chunk) = opening.chunk(chunk.to_vec(), last) else { return };
                let Some(Ok(text)) = process(&[&chunk], &PortableGcm).pop() else { return };
                content += text.len() as u64;
                rest = after;
            }
            Ok(Next::End) => {
                let _ = opening.finish(rest, content);
                return;
            }
            Ok(Next::Need(_)) => unreachable!("everything can be seen"),
            Err(_) => return,
        }
    }
}

/// Bytes that decode as a record about a source, or as a trailer, encode to the same bytes.
#[doc(hidden)]
pub fn fuzz_seal_records(data: &[u8]) {
    if let Ok(meta) = Meta::decode(data) {
        assert_eq!(meta.encode().as_deref(), Ok(data));
        assert!(meta.content_bytes().is_none_or(|bytes| bytes <= meta.bytes));
    }
    if let Ok(trailer) = Trailer::decode(data) {
        assert_eq!(trailer.encode(), data);
    }
}

/// Entries that decode encode to the same bytes.
#[doc(hidden)]
pub fn fuzz_seal_manifest(mut data: &[u8]) {
    while let Ok(Some((entry, length))) = Entry::decode(data) {
        let mut again = Vec::new();
        assert_eq!(entry.encode(&mut again), Ok(()));
        assert_eq!(again, data[..length]);
        assert!(SetKey([1; 32]).output_name(&entry.path).is_ok());
        data = &data[length..];
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_a_trailer_or_refused(
            kind in prop::sample::select(vec![Kind::File, Kind::Directory, Kind::Symlink, Kind::Stream]),
            path in "[a./]{0,4}",
            bytes in 0_u64..9,
            place: prop::sample::Index,
            change: u8,
            more: Vec<u8>,
        ) {
            fuzz_seal_records(&more);
            if let Ok(mut record) = Meta::new(kind, path.as_bytes(), bytes).encode() {
                fuzz_seal_records(&record);
                (0..record.len()).for_each(|length| assert!(Meta::decode(&record[..length]).is_err()));
                let place = place.index(record.len());
                record[place] = change;
                fuzz_seal_records(&record);
                record.extend(more);
                fuzz_seal_records(&record);
            }
        }
    }
}
