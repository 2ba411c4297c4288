//! `ETF_INDEXED`: ETF's decisions without a scan of every task.

use std::collections::VecDeque;

use super::classes::NEVER;
use super::round::{Round, Scheduler};

/// ETF that evaluates one task per class: tasks of a class differ only in their queue position, so that ETF would
/// choose the first of them. O(RCP) for C classes (ours).
#[derive(Debug, Default)]
pub struct EtfIndexed;

impl Scheduler for EtfIndexed {
    fn name(&self) -> &'static str {
        "ETF_INDEXED"
    }

    fn schedule(&mut self, round: &mut Round<'_>) {
        let pes = round.pes();
        let mut queues: Vec<(u32, VecDeque<usize>)> = Vec::new();
        let mut number = vec![usize::MAX; round.classes.all().len()];
        for position in round.left() {
            let class = round.queue[position].class;
            let at = &mut number[class as usize];
            if *at == usize::MAX {
                *at = queues.len();
                queues.push((class, VecDeque::new()));
            }
            queues[*at].1.push_back(position);
        }
        while !queues.is_empty() && !round.full() {
            round.charge_evaluations((pes * queues.len()) as u64);
            let mut least = (NEVER, usize::MAX, 0, 0);
            for (at, (class, queue)) in queues.iter().enumerate() {
                let estimates = &round.classes.all()[*class as usize].on;
                for (pe, (available, estimate)) in round.pool.available.iter().zip(estimates).enumerate() {
                    let end = available.saturating_add(*estimate);
                    if end < NEVER && (end, queue[0], pe) < (least.0, least.1, least.2) {
                        least = (end, queue[0], pe, at);
                    }
                }
            }
            let (_, position, pe, at) = least;
            if !round.dispatch(position, pe) {
                return;
            }
            queues[at].1.pop_front();
            if queues[at].1.is_empty() {
                queues.remove(at);
            }
        }
    }
}
