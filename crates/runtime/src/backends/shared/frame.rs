//! Length-prefixed postcard messages over a stream.

use std::io::{self, Read};

use serde::{Serialize, de::DeserializeOwned};

/// The maximum message size in bytes.
pub const LARGEST: usize = 16 << 20;

/// Encodes a message with its length prefix.
pub fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= LARGEST);
    let length = length.ok_or_else(|| io::Error::other("the message is too large"))?;
    Ok([&length.to_le_bytes()[..], &bytes].concat())
}

/// Receives one message.
pub fn receive<M: DeserializeOwned>(stream: &mut impl Read) -> io::Result<M> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too large"));
    }
    // Allocates as data arrives, so that a bogus length takes no memory.
    let mut bytes = Vec::new();
    stream.take(length as u64).read_to_end(&mut bytes)?;
    postcard::from_bytes(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
