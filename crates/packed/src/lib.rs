//! Reads text files that may be compressed with gzip, such as large snapshots.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;

/// The magic number of gzip (RFC 1952, 2.3.1).
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Why bytes cannot be read as text.
#[derive(Debug, thiserror::Error)]
pub enum PackedError {
    /// The gzip archive is truncated or corrupt.
    #[error("corrupt gzip archive ({0}): copy it again, or pass the uncompressed file")]
    Broken(std::io::Error),
    /// The text is not UTF-8.
    #[error("neither UTF-8 text nor a gzip archive of it (invalid byte at {0})")]
    NotUtf8(usize),
}

/// The text in these bytes, decompressed if they begin with the magic number of gzip.
///
/// # Errors
/// The archive is corrupt, or the text is not UTF-8.
pub fn text(bytes: Vec<u8>) -> Result<String, PackedError> {
    let bytes = if bytes.starts_with(&MAGIC) { decompress(&bytes)? } else { bytes };
    String::from_utf8(bytes).map_err(|problem| PackedError::NotUtf8(problem.utf8_error().valid_up_to()))
}

fn decompress(bytes: &[u8]) -> Result<Vec<u8>, PackedError> {
    let mut text = Vec::new();
    MultiGzDecoder::new(bytes).read_to_end(&mut text).map_err(PackedError::Broken)?;
    Ok(text)
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
    fn plain_and_compressed_text_is_read() {
        assert_eq!(text(Vec::new()).unwrap(), "");
        assert_eq!(text(b"{}".to_vec()).unwrap(), "{}");
        assert_eq!(text(gzip(b"{}")).unwrap(), "{}");
        assert_eq!(text([gzip(b"{"), gzip(b"}")].concat()).unwrap(), "{}");
    }

    #[test]
    fn truncated_and_corrupt_archives_are_rejected() {
        let whole = gzip(b"a snapshot of everything that there is");
        for end in 2..whole.len() {
            let cut = text(whole[..end].to_vec());
            assert!(matches!(cut, Err(PackedError::Broken(_))), "cut at {end}: {cut:?}");
        }
        let mut changed = whole.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(matches!(text(changed), Err(PackedError::Broken(_))));
        for bytes in [b"ab\xff".to_vec(), gzip(b"ab\xff")] {
            assert!(matches!(text(bytes), Err(PackedError::NotUtf8(2))));
        }
    }
}
