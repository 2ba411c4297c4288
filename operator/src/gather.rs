//! A burst of events is one look: whoever is rung for is looked after a moment later, however often it rings until then.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::time::{Duration, Instant};

use futures::channel::mpsc::UnboundedReceiver;
use futures::{Stream, StreamExt, stream};

/// Who was rung for and is not looked after yet, in the order of the first ring.
struct Gathered<T> {
    names: HashSet<T>,
    line: VecDeque<(Instant, T)>,
}

impl<T: Hash + Eq + Clone> Gathered<T> {
    fn new() -> Self {
        Self { names: HashSet::new(), line: VecDeque::new() }
    }

    /// Somebody is rung for, to be looked after `at` that time. Who waits already waits no longer for it.
    fn ring(&mut self, it: T, at: Instant) {
        if self.names.insert(it.clone()) {
            self.line.push_back((at, it));
        }
    }

    /// When the next is to be looked after.
    fn next(&self) -> Option<Instant> {
        self.line.front().map(|(at, _)| *at)
    }

    /// Whose time has come.
    fn due(&mut self, now: Instant) -> Option<T> {
        if self.next()? > now {
            return None;
        }
        let (_, it) = self.line.pop_front()?;
        self.names.remove(&it);
        Some(it)
    }
}

/// Each one `moment` after it was first rung for; ends with the rings.
pub fn gather<T: Hash + Eq + Clone>(rings: UnboundedReceiver<T>, moment: Duration) -> impl Stream<Item = T> {
    stream::unfold((rings, Gathered::new()), move |(mut rings, mut gathered)| async move {
        loop {
            if let Some(it) = gathered.due(Instant::now()) {
                return Some((it, (rings, gathered)));
            }
            let next = gathered.next();
            let wait = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                rung = rings.next() => gathered.ring(rung?, Instant::now() + moment),
                () = wait => {}
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is looked after when, of `NAME@MILLISECOND` rings, each 100 ms after its first ring.
    fn looks(rings: &str) -> String {
        let start = Instant::now();
        let mut gathered = Gathered::new();
        let mut rings: VecDeque<(&str, u64)> = rings
            .split(' ')
            .map(|ring| ring.split_once('@').unwrap())
            .map(|(name, at)| (name, at.parse().unwrap()))
            .collect();
        let mut looks = Vec::new();
        for millisecond in 0..1000 {
            let now = start + Duration::from_millis(millisecond);
            while rings.front().is_some_and(|(_, at)| *at <= millisecond) {
                let (name, _) = rings.pop_front().unwrap();
                gathered.ring(name, now + Duration::from_millis(100));
            }
            while let Some(name) = gathered.due(now) {
                looks.push(format!("{name}@{millisecond}"));
            }
        }
        assert!(gathered.names.is_empty() && gathered.next().is_none());
        looks.join(" ")
    }

    #[test]
    fn a_burst_is_one_look_and_steady_rings_hold_up_nobody() {
        let steady: Vec<String> = (0..30).map(|n| format!("a@{}", n * 10)).collect();
        for (rings, expected) in [
            ("a@0", "a@100"),
            ("a@0 a@40 a@90", "a@100"),
            ("a@0 b@30 a@50 b@100", "a@100 b@130"),
            ("a@0 a@150", "a@100 a@250"),
            (&steady.join(" "), "a@100 a@210 a@320"),
        ] {
            assert_eq!(looks(rings), expected, "{rings}");
        }
    }
}
