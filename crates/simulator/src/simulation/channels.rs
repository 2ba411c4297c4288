//! Message dependencies of the blocking simulations, precomputed from the trace.

use crate::platform::Platform;
use crate::trace::Trace;

/// A message that an actor will receive.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedMessage {
    /// Its logical time.
    pub time: f64,
    /// Its sender.
    pub sender: u32,
}

/// The channels between the actors of a trace.
#[derive(Debug)]
pub struct Channels {
    /// By actor: messages from other actors, times ascending.
    pub inbound: Vec<Vec<ExpectedMessage>>,
    /// By actor and row: index of the message among its receiver's messages.
    pub place: Vec<Vec<u32>>,
    /// By actor: the other actors it sends to, ascending, and the lookahead of each channel.
    pub outbound: Vec<Vec<(u32, f64)>>,
}

impl Channels {
    /// The channels of a whole trace.
    pub fn of(trace: &Trace) -> Self {
        let actors = trace.actors();
        let mut arriving: Vec<Vec<(f64, u32, u32)>> = vec![Vec::new(); actors];
        let mut place: Vec<Vec<u32>> = Vec::with_capacity(actors);
        let mut outbound = Vec::with_capacity(actors);
        for actor in 0..actors {
            let mut ahead: Vec<Option<f64>> = vec![None; actors];
            for (row, sent) in trace.of(actor).iter().enumerate() {
                let to = sent.to as usize;
                if to != actor {
                    arriving[to].push((sent.time, number(actor), number(row)));
                    let lookahead = ahead[to].get_or_insert(f64::INFINITY);
                    *lookahead = lookahead.min(sent.time - sent.at);
                }
            }
            place.push(vec![0; trace.of(actor).len()]);
            outbound.push(
                ahead.iter().enumerate().filter_map(|(to, least)| Some((number(to), (*least)?))).collect(),
            );
        }
        let mut inbound = Vec::with_capacity(actors);
        for arriving in &mut arriving {
            arriving.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            for (position, (_, sender, row)) in arriving.iter().enumerate() {
                place[*sender as usize][*row as usize] = number(position);
            }
            inbound
                .push(arriving.iter().map(|&(time, sender, _)| ExpectedMessage { time, sender }).collect());
        }
        Self { inbound, place, outbound }
    }
}

/// The unit of each label rank; rank 0 is none.
pub fn units_by_rank(platform: &Platform) -> Vec<usize> {
    let mut by_rank = vec![usize::MAX; platform.units() + 1];
    for (unit, rank) in platform.rank.iter().enumerate() {
        by_rank[*rank as usize] = unit;
    }
    by_rank
}

/// A position in compact form.
pub fn number(position: usize) -> u32 {
    u32::try_from(position).expect("traces hold fewer rows than 2^32")
}
