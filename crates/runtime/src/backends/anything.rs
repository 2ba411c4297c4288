//! Parses arbitrary bytes as every format that arrives from peers; for the fuzz target `wire` and its test.

use std::io::Read as _;

use super::{processes, shared::frame::receive, tcp};
use crate::{hicr::Topology, model::Error};

/// Parses `bytes` in each format. Must not panic, nor allocate more than the size limit of a message.
#[doc(hidden)]
pub fn read_anything(bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    for mut framed in [(&length[..]).chain(bytes), (&[][..]).chain(bytes)] {
        // Parse all consecutive messages of each format.
        match bytes.first().map(|byte| byte % 3) {
            Some(0) => while receive::<processes::wire::ToLauncher>(&mut framed).is_ok() {},
            Some(1) => while receive::<processes::wire::ToInstance>(&mut framed).is_ok() {},
            _ => while receive::<tcp::PeerMessage>(&mut framed).is_ok() {},
        }
    }
    for head in bytes.as_chunks().0 {
        let read = tcp::Head::from_bytes(head);
        debug_assert!(read.is_none_or(|read| tcp::Head::from_bytes(&read.to_bytes()) == Some(read)));
    }
    let _: Result<Error, _> = postcard::from_bytes(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(topology) = Topology::read(text) {
            // A topology satisfies itself.
            debug_assert!(topology.satisfies(&topology));
            let _ = processes::Hosts::share(&topology, 2, true);
        }
        let _ = processes::Hosts::read(text, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backends::shared::{arbiter::Call, frame::frame},
        model::{InstanceId, Key, Tag},
    };

    /// Valid messages, to be mutated.
    fn right() -> Vec<Vec<u8>> {
        let call = || Call {
            tag: Tag(7),
            group: vec![InstanceId(1), InstanceId(2)],
            round: Some(3),
            entries: vec![(Key(1), vec![1, 2, 3])],
            in_use: Some(vec![InstanceId(1)]),
        };
        let topology = r#"{"Devices":[{"Type":"NUMA Domain","Compute Resources":[{"Type":"Processing Unit","Logical Processor Id":0}],"Memory Spaces":[{"Type":"RAM","Size":33554432}]}]}"#;
        let range = tcp::Range { slot: 1, secret: 2, offset: 3, size: 4 };
        vec![
            frame(&processes::wire::ToLauncher::Gather(call())).expect("it is small"),
            frame(&processes::wire::ToLauncher::Hello { token: "x".into(), address: Some("y".into()) })
                .expect("it is small"),
            frame(&tcp::PeerMessage::Gather { from: InstanceId(2), call: call() }).expect("it is small"),
            frame(&tcp::PeerMessage::Decided {
                tag: Tag(1),
                round: None,
                result: Err(Error::PeerLost(InstanceId(1))),
            })
            .expect("it is small"),
            [tcp::Head::Put(range).to_bytes(), tcp::Head::Done(1).to_bytes()].concat(),
            topology.as_bytes().to_vec(),
            format!("[{topology}]").into_bytes(),
        ]
    }

    /// `CAIRN_WIRE_INPUTS` sets the number of inputs.
    #[test]
    fn no_input_makes_a_reader_panic() {
        let count =
            std::env::var("CAIRN_WIRE_INPUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(20_000);
        let (mut random, right) = (fastrand::Rng::with_seed(7), right());
        for input in 0..count {
            let mut bytes = right[input % right.len()].clone();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(..=bytes.len());
                match random.u8(..5) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, random.u8(..)),
                    2 => bytes.extend(std::iter::repeat_with(|| random.u8(..)).take(at).collect::<Vec<_>>()),
                    3 if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
                    _ if at < bytes.len() => bytes[at] = random.choice([0, 0x7f, 0x80, 0xff]).unwrap_or(0),
                    _ => {}
                }
                bytes.truncate(4096);
            }
            read_anything(&bytes);
        }
    }
}
