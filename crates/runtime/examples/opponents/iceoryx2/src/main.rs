//! Ping-pong by iceoryx2, a baseline of `ping_pong`: `ping_pong_iceoryx2 [LARGEST] [ROUNDS]`, between two processes.
//!
//! From 1 byte to LARGEST by powers of two, with two opposing services whose subscribers keep one sample. Both ends
//! poll, as in `ping_pong`. Two modes: bytes are copied into and out of the loaned sample; or nothing is copied and the
//! receiver reads one byte, as iceoryx2 is designed for.

use std::{
    error::Error,
    hint::{black_box, spin_loop},
    process::Command,
    time::Instant,
};

use iceoryx2::{
    port::{publisher::Publisher, subscriber::Subscriber},
    prelude::{Node, NodeBuilder, ipc},
};

type Ends = (Publisher<ipc::Service, [u8], ()>, Subscriber<ipc::Service, [u8], ()>);

/// Opens a publisher and a subscriber of opposing services.
fn ends(node: &Node<ipc::Service>, out: &str, back: &str, size: usize) -> Result<Ends, Box<dyn Error>> {
    let service = |name: &str| -> Result<_, Box<dyn Error>> {
        let service = node.service_builder(&name.try_into()?).publish_subscribe::<[u8]>();
        let one = service.max_publishers(1).max_subscribers(1).subscriber_max_buffer_size(1);
        Ok(one.enable_safe_overflow(false).history_size(0).open_or_create()?)
    };
    let publisher = service(out)?.publisher_builder().initial_max_slice_len(size).create()?;
    Ok((publisher, service(back)?.subscriber_builder().create()?))
}

struct Side {
    ends: Ends,
    bytes: Vec<u8>,
    copies: bool,
}

impl Side {
    /// Returns the number of recipients.
    fn send(&mut self) -> Result<usize, Box<dyn Error>> {
        let sample = self.ends.0.loan_slice_uninit(self.bytes.len())?;
        let sample = if self.copies {
            sample.write_from_slice(&self.bytes)
        } else {
            // SAFETY: the memory is mapped, and every bit pattern is a byte; its contents do not matter here.
            unsafe { sample.assume_init() }
        };
        Ok(sample.send()?)
    }

    fn receive(&mut self) -> Result<(), Box<dyn Error>> {
        loop {
            if let Some(sample) = self.ends.1.receive()? {
                if self.copies {
                    self.bytes.copy_from_slice(&sample);
                } else {
                    black_box(sample[0]);
                }
                return Ok(());
            }
            spin_loop();
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, otherwise| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (largest, rounds) = (number(0, 1_usize), number(1, 10_usize));
    let run = number(2, std::process::id() as usize);
    let echoes = arguments.len() > 2;
    let other = || -> Result<_, Box<dyn Error>> {
        let words = [largest, rounds, run].map(|number| number.to_string());
        Ok(Command::new(std::env::current_exe()?).args(words).spawn()?)
    };
    let other = if echoes { None } else { Some(other()?) };
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    for power in 0..=largest.ilog2() {
        let size = 1_usize << power;
        let rounds = if size <= 4096 { rounds * 1000 } else { rounds };
        let (there, back) = (format!("cairn-{run}-there-{power}"), format!("cairn-{run}-back-{power}"));
        let ends = if echoes { ends(&node, &back, &there, size)? } else { ends(&node, &there, &back, size)? };
        let mut side = Side { ends, bytes: vec![7; size], copies: true };
        // Samples sent before the peer is connected reach no one.
        if echoes {
            side.receive()?;
        }
        while side.send()? == 0 {
            spin_loop();
        }
        if !echoes {
            side.receive()?;
        }
        for copies in [true, false] {
            side.copies = copies;
            let mut times = Vec::new();
            for _ in 0..rounds {
                if echoes {
                    side.receive()?;
                    side.send()?;
                    continue;
                }
                let begin = Instant::now();
                side.send()?;
                side.receive()?;
                times.push(begin.elapsed().as_secs_f64());
            }
            times.sort_by(f64::total_cmp);
            if let Some(best) = times.first() {
                let (how, median) = (if copies { "copied" } else { "in place" }, times[times.len() / 2]);
                println!(
                    "iceoryx2, {how}, {size} bytes: best {:.3} us, median {:.3} us",
                    best * 1e6,
                    median * 1e6
                );
            }
        }
    }
    if let Some(mut other) = other {
        other.wait()?;
    }
    Ok(())
}
