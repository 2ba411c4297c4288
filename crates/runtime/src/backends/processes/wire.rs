//! The protocol between launcher and Instances: length-prefixed postcard messages over a stream.

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

/// Environment variable: the launcher's address.
pub const ADDRESS: &str = "CAIRN_RUN_ADDRESS";
/// Environment variable: the address of its host at which peers reach the Instance; `127.0.0.1` by default.
pub const REACHED_AT: &str = "CAIRN_ADDRESS";
/// Environment variable: whether Instances communicate over TCP.
pub const TCP: &str = "CAIRN_RUN_TCP";
/// Environment variable: the token that authenticates an Instance to the launcher.
pub const TOKEN: &str = "CAIRN_RUN_TOKEN";

/// Messages from an Instance to its launcher.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToLauncher {
    /// The first message.
    Hello {
        token: String,
        /// Its network address, if peers reach it over a network.
        address: Option<String>,
    },
    /// Enters a collective.
    Gather(Call),
    /// Withdraws from a collective.
    Withdraw { tag: Tag, round: Option<u64> },
    /// Announces a slot destroyed without a fence.
    Release { tag: Tag, key: Key },
    /// Requests new Instances.
    Create { request: u64, n: usize, template: InstanceTemplate },
    /// Requests termination of an Instance.
    Terminate { request: u64, id: InstanceId },
    /// Requests an answer once this process has ended, or at once if it is no child of the launcher.
    Outlive { request: u64, id: InstanceId, process: u32 },
    /// Aborts all Instances.
    Abort { code: i32, reason: String },
}

/// Messages from a launcher to an Instance.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToInstance {
    /// The answer to `Hello`.
    Welcome {
        me: InstanceId,
        root: InstanceId,
        /// The secret shared by all Instances of the run.
        secret: [u8; 32],
        all: Vec<(Description, InstanceState)>,
    },
    /// A new Instance.
    Added(Description),
    /// The address of an Instance.
    Reached { id: InstanceId, address: String },
    /// A state change of an Instance.
    Event(Event),
    /// The outcome of a collective.
    Decided { tag: Tag, round: Option<u64>, result: Result<Agreed, Error> },
    /// The answer to a creation request.
    Created { request: u64, answers: Vec<Result<InstanceId, Refused>> },
    /// The result of another request.
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
        /// Arbitrary bytes neither panic a reader nor make it allocate more than their size.
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
