//! The communication benchmark (hicr.txt 5.1): a message makes round trips through two opposing channels of capacity 1.

use std::time::{Duration, Instant};

use runtime::{
    CommunicationManager, Error, InstanceId, Tag,
    frontends::channel::{Consumer, Mode, Producer, PushError, Setup, Shape, open},
};

/// The endpoints of one side.
pub struct Side<'a> {
    there: Producer<'a>,
    back: Consumer<'a>,
    message: runtime::LocalSlot,
    bytes: Vec<u8>,
    communication: &'a dyn CommunicationManager,
}

/// Opens both channels for messages of `size` bytes between two Instances, or two threads of one: (first, second).
pub fn sides<'a>(
    setup: Setup<'a>,
    tag: u64,
    [first, second]: [InstanceId; 2],
    size: usize,
) -> Result<[Option<Side<'a>>; 2], Error> {
    let shape = Shape::Fixed { capacity: 1, size };
    let there = open(setup, Tag(tag), &[first], second, Mode::NonLocking, shape)?;
    let back = open(setup, Tag(tag + 1), &[second], first, Mode::NonLocking, shape)?;
    let make = |ends: (Option<Producer<'a>>, Option<Consumer<'a>>)| -> Result<_, Error> {
        let (Some(there), Some(back)) = ends else { return Ok(None) };
        let message = setup.memory.allocate(setup.space, size)?;
        let communication = setup.communication;
        Ok(Some(Side { there, back, message, bytes: vec![0; size], communication }))
    };
    Ok([make((there.0, back.1))?, make((back.0, there.1))?])
}

impl Side<'_> {
    fn send(&mut self) -> Result<(), Error> {
        loop {
            match self.there.push_slot(&self.message, 0) {
                Ok(()) => return Ok(()),
                Err(PushError::Failed(error)) => return Err(error),
                Err(_) => std::hint::spin_loop(),
            }
        }
    }

    fn receive(&mut self) -> Result<(), Error> {
        while !self.back.pop_into(&mut self.bytes)? {
            self.back.until_some(None)?;
        }
        Ok(())
    }

    /// The first side: the duration of each of `rounds` round trips.
    pub fn ping(&mut self, rounds: usize) -> Result<Vec<Duration>, Error> {
        self.message.write(0, &vec![7; self.bytes.len()])?;
        let mut round = || {
            let begin = Instant::now();
            self.send()?;
            self.receive()?;
            Ok(begin.elapsed())
        };
        let times = (0..rounds).map(|_| round()).collect::<Result<Vec<_>, Error>>()?;
        if self.bytes.iter().any(|byte| *byte != 7) {
            return Err(Error::misuse("play", "the echoed message differs from the sent one"));
        }
        Ok(times)
    }

    /// The second side: echoes.
    pub fn pong(&mut self, rounds: usize) -> Result<(), Error> {
        for _ in 0..rounds {
            self.receive()?;
            self.message.write(0, &self.bytes)?;
            self.send()?;
        }
        // Fence the last copy, which an early exit would lose.
        self.communication.fence((&self.message).into(), rounds as u64, 0)?.done()
    }
}
