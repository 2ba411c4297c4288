//! Texts that may be compressed: large snapshots are kept as gzip.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;

/// What a gzip archive begins with (RFC 1952, 2.3.1).
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Why bytes are no text.
#[derive(Debug, thiserror::Error)]
pub enum PackedError {
    /// An archive ends too early, was changed on its way, or is none.
    #[error("is a broken gzip archive ({0}); copy it again, or give what was packed")]
    Broken(std::io::Error),
    /// Nobody could read this.
    #[error("is neither text in UTF-8 nor a gzip archive of one (byte {0})")]
    NoText(usize),
}

/// The text in these bytes, unpacked where they begin as gzip does, whatever their file is called.
///
/// # Errors
/// They are a broken archive, or no UTF-8.
pub fn text(bytes: Vec<u8>) -> Result<String, PackedError> {
    let bytes = if bytes.starts_with(&MAGIC) { unpacked(&bytes)? } else { bytes };
    String::from_utf8(bytes).map_err(|problem| PackedError::NoText(problem.utf8_error().valid_up_to()))
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, PackedError> {
    let mut found = Vec::new();
    MultiGzDecoder::new(bytes).read_to_end(&mut found).map_err(PackedError::Broken)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn text_is_text_packed_in_parts_or_not_at_all() {
        assert_eq!(text(Vec::new()).unwrap(), "");
        assert_eq!(text(b"{}".to_vec()).unwrap(), "{}");
        assert_eq!(text(gzip(b"{}")).unwrap(), "{}");
        assert_eq!(text([gzip(b"{"), gzip(b"}")].concat()).unwrap(), "{}");
    }

    #[test]
    fn no_archive_that_was_cut_or_changed_is_taken() {
        let whole = gzip(b"a snapshot of everything that there is");
        for end in 2..whole.len() {
            let cut = text(whole[..end].to_vec());
            assert!(matches!(cut, Err(PackedError::Broken(_))), "cut at {end}: {cut:?}");
        }
        let mut changed = whole.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(matches!(text(changed), Err(PackedError::Broken(_))));
        for bytes in [b"ab\xff".to_vec(), gzip(b"ab\xff")] {
            assert!(matches!(text(bytes), Err(PackedError::NoText(2))));
        }
    }
}
