//! What launcher and Instances say to each other: postcard behind a length, over a stream.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

pub use crate::backends::shared::frame::receive;
use crate::{
    backends::shared::{
        arbiter::{Agreed, Call},
        frame::frame,
    },
    model::{Description, Error, Event, InstanceId, InstanceState, InstanceTemplate, Key, Refused, Tag},
};

/// Where the launcher listens, and who the Instance is, in the environment.
pub const ADDRESS: &str = "CAIRN_RUN_ADDRESS";
/// Where others reach the Instance by a network: an address of its host, `127.0.0.1` unless it says otherwise.
pub const REACHED_AT: &str = "CAIRN_ADDRESS";
/// Whether Instances are to speak over TCP.
pub const TCP: &str = "CAIRN_RUN_TCP";
/// What proves to the launcher which Instance connects.
pub const TOKEN: &str = "CAIRN_RUN_TOKEN";

/// From an Instance to its launcher.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToLauncher {
    /// The first message.
    Hello {
        token: String,
        /// Where others reach it, if they do so by a network.
        address: Option<String>,
    },
    /// It comes to a collective.
    Gather(Call),
    /// It goes without waiting for the outcome.
    Withdraw { tag: Tag, round: Option<u64> },
    /// It destroyed a slot without a fence.
    Release { tag: Tag, key: Key },
    /// It asks for Instances.
    Create { request: u64, n: usize, template: InstanceTemplate },
    /// It has one end.
    Terminate { request: u64, id: InstanceId },
    /// It wants an answer once this one has ended, or at once if that process is none of its.
    Outlive { request: u64, id: InstanceId, process: u32 },
    /// It ends all.
    Abort { code: i32, reason: String },
}

/// From a launcher to an Instance.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToInstance {
    /// The answer to `Hello`.
    Welcome {
        me: InstanceId,
        root: InstanceId,
        /// What all of the run know, and nobody else.
        secret: [u8; 32],
        all: Vec<(Description, InstanceState)>,
    },
    /// A new Instance.
    Added(Description),
    /// Where an Instance is reached.
    Reached { id: InstanceId, address: String },
    /// An Instance has a new state.
    Event(Event),
    /// A collective's outcome.
    Decided { tag: Tag, round: Option<u64>, result: Result<Agreed, Error> },
    /// What became of those that were asked for.
    Created { request: u64, answers: Vec<Result<InstanceId, Refused>> },
    /// Whether it was done.
    Done { request: u64, result: Result<(), Error> },
}

/// Sends one message.
pub fn send(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    stream.write_all(&frame(message)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// No bytes make a reader panic, or take more memory than they are.
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes: Vec<u8>) {
            let _ = receive::<ToLauncher>(&mut &bytes[..]);
            let _ = receive::<ToInstance>(&mut &bytes[..]);
            let mut framed = u32::try_from(bytes.len()).unwrap().to_le_bytes().to_vec();
            framed.extend(&bytes);
            let _ = receive::<ToLauncher>(&mut &framed[..]);
            let _ = receive::<ToInstance>(&mut &framed[..]);
        }
    }
}
