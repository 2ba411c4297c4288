//! A delaying workqueue: duplicate keys are merged, the earliest deadline is served first.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

use futures::stream::FuturesUnordered;
use futures::{FutureExt, Stream, StreamExt};

/// Keys ordered by deadline, so that a key that is enqueued often does not starve others. A key is never reconciled
/// concurrently.
struct Queue<T> {
    /// Equal deadlines are served in order of arrival.
    waiting: BTreeMap<Deadline, T>,
    deadlines: HashMap<T, Deadline>,
    /// Keys in reconcile, with the deadline of the next one.
    running: HashMap<T, Option<Instant>>,
    /// Number of keys enqueued so far.
    arrivals: u64,
}

/// A deadline, and a number to break ties.
type Deadline = (Instant, u64);

impl<T: Hash + Eq + Clone> Queue<T> {
    fn new() -> Self {
        Self { waiting: BTreeMap::new(), deadlines: HashMap::new(), running: HashMap::new(), arrivals: 0 }
    }

    /// Enqueues a key. A queued key keeps its earlier deadline; one in reconcile runs once more afterwards.
    fn enqueue(&mut self, it: T, at: Instant) {
        if let Some(again) = self.running.get_mut(&it) {
            *again = Some(again.map_or(at, |again| again.min(at)));
            return;
        }
        if let Some(deadline) = self.deadlines.get(&it) {
            if deadline.0 <= at {
                return;
            }
            self.waiting.remove(deadline);
        }
        let deadline = (at, self.arrivals);
        self.arrivals += 1;
        self.deadlines.insert(it.clone(), deadline);
        self.waiting.insert(deadline, it);
    }

    /// The next deadline.
    fn next(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(deadline, _)| deadline.0)
    }

    /// Takes the next key whose deadline has passed.
    fn pop_due(&mut self, now: Instant) -> Option<T> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= now)?;
        let it = first.remove();
        self.deadlines.remove(&it);
        self.running.insert(it.clone(), None);
        Some(it)
    }

    /// Ends a reconcile; the key is queued again for `again`, or if it was enqueued meanwhile.
    fn done(&mut self, it: T, again: Option<Instant>) {
        let requested = self.running.remove(&it).flatten();
        if let Some(at) = requested.into_iter().chain(again).min() {
            self.enqueue(it, at);
        }
    }
}

/// Reconciles requested keys after their delay, and again after the delay that a reconcile returns, up to `at_once`
/// concurrently. Ends with the requests.
pub async fn run_workqueue<T, L>(
    requests: impl Stream<Item = (T, Duration)>,
    at_once: usize,
    reconcile: impl Fn(T) -> L,
) where
    T: Hash + Eq + Clone,
    L: Future<Output = Option<Duration>>,
{
    let mut requests = std::pin::pin!(requests);
    let mut queue: Queue<T> = Queue::new();
    let mut reconciles = FuturesUnordered::new();
    loop {
        while reconciles.len() < at_once
            && let Some(it) = queue.pop_due(Instant::now())
        {
            reconciles.push(reconcile(it.clone()).map(|again| (it, again)));
        }
        let next = queue.next().filter(|_| reconciles.len() < at_once);
        let wait = async {
            match next {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            requested = requests.next() => {
                let Some((it, after)) = requested else { return };
                queue.enqueue(it, Instant::now() + after);
            }
            Some((it, again)) = reconciles.next() => queue.done(it, again.map(|after| Instant::now() + after)),
            () = wait => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use futures::channel::mpsc;
    use proptest::prelude::*;
    use tokio::sync::Notify;

    use super::*;

    /// When each key is reconciled, for `NAME@MILLISECOND` requests with 100 ms delay, a reconcile of `length` ms and one
    /// worker.
    fn reconciles(requests: &str, length: u64, again: Option<u64>) -> String {
        let start = Instant::now();
        let at = |millisecond| start + Duration::from_millis(millisecond);
        let mut queue = Queue::new();
        let requests: Vec<(&str, u64)> = requests
            .split(' ')
            .map(|enqueue| enqueue.split_once('@').unwrap())
            .map(|(name, at)| (name, at.parse().unwrap()))
            .collect();
        let (mut reconciles, mut busy) = (Vec::new(), None);
        for millisecond in 0..1000 {
            for (name, _) in requests.iter().filter(|(_, at)| *at == millisecond) {
                queue.enqueue(*name, at(millisecond + 100));
            }
            if let Some((name, _)) = busy.take_if(|(_, until)| *until == millisecond) {
                queue.done(name, again.map(|after| at(millisecond + after)));
            }
            while busy.is_none()
                && let Some(name) = queue.pop_due(at(millisecond))
            {
                reconciles.push(format!("{name}@{millisecond}"));
                match length {
                    0 => queue.done(name, again.map(|after| at(millisecond + after))),
                    _ => busy = Some((name, millisecond + length)),
                }
            }
        }
        reconciles.join(" ")
    }

    #[test]
    fn a_burst_is_one_reconcile_and_frequent_requests_starve_no_key() {
        let every_10_ms =
            |name: &str| (0..30).map(|n| format!("{name}@{}", n * 10)).collect::<Vec<_>>().join(" ");
        let steady = every_10_ms("a");
        let all = format!("{} {} {}", every_10_ms("a"), every_10_ms("b"), "c@5");
        for (requests, length, again, expected) in [
            ("a@0", 0, None, "a@100"),
            ("a@0 a@40 a@90", 0, None, "a@100"),
            ("a@0 b@30 a@50 b@100", 0, None, "a@100 b@130"),
            ("a@0 a@150", 0, None, "a@100 a@250"),
            (&steady, 0, None, "a@100 a@210 a@320"),
            // A key enqueued during its reconcile runs once more.
            ("a@0 a@120", 50, None, "a@100 a@220"),
            ("a@0 a@120", 150, None, "a@100 a@250"),
            ("a@0 a@101 a@105", 300, None, "a@100 a@400"),
            // An earlier request shortens the requeue delay.
            ("a@0", 50, Some(400), "a@100 a@550"),
            ("a@0 a@200", 50, Some(400), "a@100 a@300 a@750"),
            // A key requested once between two frequent ones is third.
            (&all, 100, None, "a@100 b@200 c@300 a@400 b@500"),
        ] {
            assert_eq!(reconciles(requests, length, again), expected, "{requests}, {length} ms, {again:?}");
        }
    }

    proptest! {
        /// However often keys are enqueued, none waits for more reconciles than there are other keys.
        #[test]
        fn no_key_waits_for_more_reconciles_than_other_keys(requests in proptest::collection::vec((0..9_u8, 0..3_u8), 1..200)) {
            let start = Instant::now();
            let mut queue = Queue::new();
            let mut waits: HashMap<u8, u32> = HashMap::new();
            for (step, (key, reconciles)) in (0_u64..).zip(requests) {
                let now = start + Duration::from_millis(step);
                queue.enqueue(key, now);
                waits.entry(key).or_default();
                for _ in 0..reconciles {
                    let Some(next) = queue.pop_due(now) else { break };
                    let waited = waits.remove(&next);
                    prop_assert!(waited.is_some_and(|waited| waited < 9), "{next} waited for {waited:?} looks");
                    for waited in waits.values_mut() {
                        *waited += 1;
                    }
                    queue.done(next, None);
                }
                prop_assert_eq!(queue.waiting.len(), queue.deadlines.len());
                prop_assert_eq!(queue.waiting.len(), waits.len());
            }
        }
    }

    /// Three reconciles of each of three keys, two at once.
    #[tokio::test]
    async fn concurrency_is_bounded_and_no_key_runs_twice_at_once() {
        let (enqueue, requests) = mpsc::unbounded();
        for name in ["a", "b", "c", "a", "b", "c"] {
            enqueue.unbounded_send((name, Duration::ZERO)).unwrap();
        }
        let (busy, most, reconciles) = (RefCell::new(Vec::new()), Cell::new(0), RefCell::new(Vec::new()));
        let all = Notify::new();
        let reconcile = |name| {
            assert!(!busy.borrow().contains(&name), "{name} is being reconciled already");
            busy.borrow_mut().push(name);
            most.set(busy.borrow().len().max(most.get()));
            reconciles.borrow_mut().push(name);
            let (busy, reconciles, all) = (&busy, &reconciles, &all);
            async move {
                tokio::task::yield_now().await;
                busy.borrow_mut().retain(|other| *other != name);
                let of_it = reconciles.borrow().iter().filter(|other| **other == name).count();
                if reconciles.borrow().len() == 9 && busy.borrow().is_empty() {
                    all.notify_one();
                }
                (of_it < 3).then_some(Duration::ZERO)
            }
        };
        tokio::select! {
            () = run_workqueue(requests, 2, reconcile) => panic!("the requests continue"),
            () = all.notified() => {}
        }
        assert_eq!(most.get(), 2);
        drop(enqueue);
    }
}
