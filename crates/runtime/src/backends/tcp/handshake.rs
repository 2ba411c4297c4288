//! Mutual authentication: both ends prove knowledge of the run's secret over nonces.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::Duration,
};

use sha2::{Digest, Sha256};

use crate::{backends::processes::draw, model::InstanceId};

/// Time limit of a handshake.
const TIMEOUT: Duration = Duration::from_secs(10);
const NONCE: usize = 32;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Agreement and messages.
    Control,
    /// Copies.
    Bulk,
}

/// HMAC-SHA-256 (RFC 2104).
fn hmac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        block.iter_mut().zip(key).for_each(|(one, key)| *one ^= key);
        block
    };
    let mut inner = Sha256::new_with_prefix(pad(0x36));
    for part in parts {
        inner.update(part);
    }
    Sha256::new_with_prefix(pad(0x5c)).chain_update(inner.finalize()).finalize().into()
}

/// Comparison in constant time.
fn equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

fn proof(
    secret: &[u8; 32],
    side: &[u8],
    theirs: &[u8],
    ours: &[u8],
    id: InstanceId,
    purpose: u8,
) -> [u8; 32] {
    hmac(secret, &[side, theirs, ours, &id.0.to_le_bytes(), &[purpose]])
}

fn unauthenticated() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the peer does not know the run's secret")
}

/// Both send a nonce; then the connecting end proves itself, then the accepting end.
struct Hello {
    ours: [u8; NONCE],
    theirs: [u8; NONCE],
}

impl Hello {
    fn exchange(stream: &mut TcpStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        let ours = draw().map_err(io::Error::other)?;
        stream.write_all(&ours)?;
        let mut theirs = [0; NONCE];
        stream.read_exact(&mut theirs)?;
        Ok(Self { ours, theirs })
    }

    fn prove(
        &self,
        stream: &mut TcpStream,
        secret: &[u8; 32],
        side: &[u8],
        (me, purpose): (InstanceId, u8),
    ) -> io::Result<()> {
        let proof = proof(secret, side, &self.theirs, &self.ours, me, purpose);
        stream.write_all(&[&me.0.to_le_bytes()[..], &[purpose], &proof].concat())
    }

    fn check(&self, stream: &mut TcpStream, secret: &[u8; 32], side: &[u8]) -> io::Result<(InstanceId, u8)> {
        let (mut id, mut purpose, mut their_proof) = ([0; 8], [0; 1], [0; 32]);
        stream.read_exact(&mut id)?;
        stream.read_exact(&mut purpose)?;
        stream.read_exact(&mut their_proof)?;
        let id = InstanceId(u64::from_le_bytes(id));
        let expected = proof(secret, side, &self.ours, &self.theirs, id, purpose[0]);
        if equal(&expected, &their_proof) { Ok((id, purpose[0])) } else { Err(unauthenticated()) }
    }
}

/// The connecting end, to the Instance `to`.
pub fn connect(
    stream: &mut TcpStream,
    secret: &[u8; 32],
    me: InstanceId,
    to: InstanceId,
    purpose: Purpose,
) -> io::Result<()> {
    let hello = Hello::exchange(stream)?;
    let purpose = u8::from(purpose == Purpose::Bulk);
    hello.prove(stream, secret, b"connects", (me, purpose))?;
    let (id, their_purpose) = hello.check(stream, secret, b"accepts")?;
    if (id, their_purpose) == (to, purpose) { Ok(()) } else { Err(unauthenticated()) }
}

/// The accepting end; returns the peer and the purpose.
pub fn accept(
    stream: &mut TcpStream,
    secret: &[u8; 32],
    me: InstanceId,
) -> io::Result<(InstanceId, Purpose)> {
    let hello = Hello::exchange(stream)?;
    let (id, purpose) = hello.check(stream, secret, b"connects")?;
    let their_purpose = if purpose == 0 { Purpose::Control } else { Purpose::Bulk };
    hello.prove(stream, secret, b"accepts", (me, purpose))?;
    Ok((id, their_purpose))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn hmac_matches_the_test_vector() {
        // RFC 4231, test case 1, its key zero-padded as the definition requires.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let code = hmac(&key, &[b"Hi ", b"There"]);
        assert_eq!(code[..8], [0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53]);
        assert_eq!(code[24..], [0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7]);
    }

    #[test]
    fn a_peer_without_the_secret_is_rejected_by_both_ends() {
        let meet = |connects: [u8; 32], accepts: [u8; 32], to: u64| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            std::thread::scope(|threads| {
                let other = threads.spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    connect(&mut stream, &connects, InstanceId(7), InstanceId(to), Purpose::Bulk)
                });
                let mut stream = listener.accept().unwrap().0;
                let accepted = accept(&mut stream, &accepts, InstanceId(3));
                drop(stream);
                (accepted.ok(), other.join().unwrap().is_ok())
            })
        };
        assert_eq!(meet([1; 32], [1; 32], 3), (Some((InstanceId(7), Purpose::Bulk)), true));
        assert_eq!(meet([1; 32], [2; 32], 3), (None, false));
        // Not the Instance that was to be reached.
        assert!(!meet([1; 32], [1; 32], 4).1);
    }
}
