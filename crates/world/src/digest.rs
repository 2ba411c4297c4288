//! Digests of texts.

use sha2::{Digest, Sha256};

/// SHA-256 of a text in hexadecimal digits, with the prefix `sha256:`.
pub(crate) fn digest(text: &str) -> String {
    Sha256::digest(text).iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}
