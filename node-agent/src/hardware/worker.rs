//! A thread that a driver may block without blocking its clients.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::reading::DeviceReading;

/// The maximum age of a late response, which is returned to the next client with the same request.
const MAX_AGE: Duration = Duration::from_secs(10);

/// A thread that handles one request after the other.
///
/// While it is blocked, requests are not queued, and clients get an error immediately.
#[derive(Debug)]
pub struct Worker<Req, Res> {
    channels: Mutex<Channels<Req, Res>>,
    thread: JoinHandle<()>,
    limit: Duration,
    max_age: Duration,
}

#[derive(Debug)]
struct Channels<Req, Res> {
    requests: Sender<Req>,
    /// The responses with their time; `None` after a panic.
    responses: Receiver<(Option<Res>, Instant)>,
    /// The timed-out request whose response is still pending.
    pending: Option<Req>,
    /// The last late response to each request, with its time.
    late: Vec<(Req, Res, Instant)>,
}

/// A request to the thread of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The devices.
    Devices,
    /// Their readings.
    Counters,
}

/// The response to a [`Request`].
#[derive(Debug)]
pub enum Response<D> {
    /// The devices, or why they cannot be read.
    Devices(D),
    /// The readings; none on failure.
    Counters(Vec<DeviceReading>),
}

/// Why there is no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoResponse {
    /// The thread is blocked in this request, or in an earlier one.
    Hangs,
    /// The thread panicked.
    Panicked,
}

impl<Req: Clone + PartialEq + Send + 'static, Res: Send + 'static> Worker<Req, Res> {
    /// Starts the thread, which first calls `init`. `limit` is the timeout of a request.
    ///
    /// Fails if the system cannot create a thread.
    pub fn start<F: FnMut(Req) -> Res>(
        name: &str,
        limit: Duration,
        init: impl FnOnce() -> F + Send + 'static,
    ) -> std::io::Result<Self> {
        let (requests, receiver) = channel();
        let (sender, responses) = channel();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut handle = init();
            for request in receiver {
                let response = catch_unwind(AssertUnwindSafe(|| handle(request))).ok();
                if sender.send((response, Instant::now())).is_err() {
                    return;
                }
            }
        })?;
        let channels = Channels { requests, responses, pending: None, late: Vec::new() };
        Ok(Self { channels: Mutex::new(channels), thread, limit, max_age: MAX_AGE })
    }

    /// Whether the thread has exited, as its initialization panicked.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Sends a request. Returns its response, or a recent late one to the same request.
    pub fn request(&self, request: Req) -> Result<Res, NoResponse> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pending) = channels.pending.take() {
            match channels.responses.try_recv() {
                // The thread is no longer blocked; its response may still be recent.
                Ok((response, at)) => {
                    channels.late.retain(|it| it.0 != pending && it.2.elapsed() < self.max_age);
                    channels.late.extend(response.map(|response| (pending, response, at)));
                }
                Err(TryRecvError::Empty) => channels.pending = Some(pending),
                Err(TryRecvError::Disconnected) => return Err(NoResponse::Panicked),
            }
        }
        // Without late responses, a driver that always exceeds the timeout would never yield a result.
        let index = channels.late.iter().position(|it| it.0 == request);
        if let Some((_, response, at)) = index.map(|index| channels.late.swap_remove(index))
            && at.elapsed() < self.max_age
        {
            return Ok(response);
        }
        if channels.pending.is_some() {
            return Err(NoResponse::Hangs);
        }
        if channels.requests.send(request.clone()).is_err() {
            return Err(NoResponse::Panicked);
        }
        match channels.responses.recv_timeout(self.limit) {
            Ok((Some(response), _)) => Ok(response),
            Ok((None, _)) | Err(RecvTimeoutError::Disconnected) => Err(NoResponse::Panicked),
            Err(RecvTimeoutError::Timeout) => {
                channels.pending = Some(request);
                Err(NoResponse::Hangs)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_worker_gets_no_further_request() {
        let (wake, sleeping) = channel::<()>();
        let (count, counted) = channel();
        let handle = move |request: u32| {
            count.send(request).unwrap();
            if request == 1 {
                sleeping.recv().unwrap();
            }
            request * 10
        };
        let worker = Worker::start("test", Duration::from_millis(20), || handle).unwrap();
        // Any response may be late on a busy machine, so retry.
        let insist = |request| {
            loop {
                match worker.request(request) {
                    Err(NoResponse::Hangs) => thread::yield_now(),
                    other => return other,
                }
            }
        };
        assert_eq!(insist(7), Ok(70));
        assert_eq!(worker.request(1), Err(NoResponse::Hangs));
        assert_eq!(worker.request(2), Err(NoResponse::Hangs));
        wake.send(()).unwrap();
        assert_eq!(insist(3), Ok(30));
        let mut received: Vec<u32> = counted.try_iter().collect();
        received.dedup();
        assert!(received == [7, 1, 3], "2 was never sent: {received:?}");
    }

    #[test]
    fn recent_late_responses_are_returned_for_the_same_request() {
        for max_age in [Duration::MAX, Duration::ZERO] {
            let (wake, sleeping) = channel::<()>();
            let mut times = 0;
            let handle = move |request: u32| {
                // returns an error once the sender is dropped
                let _ = sleeping.recv();
                times += 1;
                (request, times)
            };
            let worker = Worker::start("test", Duration::from_millis(20), || handle).unwrap();
            let worker = Worker { max_age, ..worker };
            let insist = |request| {
                loop {
                    match worker.request(request) {
                        Err(NoResponse::Hangs) => thread::yield_now(),
                        other => return other.unwrap(),
                    }
                }
            };
            assert_eq!(worker.request(5), Err(NoResponse::Hangs));
            drop(wake);
            if !max_age.is_zero() {
                assert_eq!(insist(6).0, 6, "another request gets its own response");
            }
            let (request, times) = insist(5);
            assert_eq!((request, times > 1), (5, max_age.is_zero()));
        }
    }

    #[test]
    fn a_late_response_is_returned_while_another_request_is_pending() {
        let (wake, sleeping) = channel::<()>();
        let (count, counted) = channel();
        let handle = move |request: u32| {
            count.send(request).unwrap();
            // returns an error at the end of the test
            let _ = sleeping.recv();
            request * 10
        };
        let worker = Worker::start("test", Duration::from_millis(20), || handle).unwrap();
        let worker = Worker { max_age: Duration::MAX, ..worker };
        assert_eq!(worker.request(5), Err(NoResponse::Hangs));
        wake.send(()).unwrap();
        while !counted.try_iter().any(|request| request == 6) {
            assert_eq!(worker.request(6), Err(NoResponse::Hangs));
        }
        assert_eq!(worker.request(5), Ok(50));
        assert_eq!(worker.request(5), Err(NoResponse::Hangs), "once");
    }

    #[test]
    fn the_worker_survives_a_panic() {
        let worker = Worker::start("test", Duration::from_mins(1), || {
            |request: u32| {
                assert!(request != 0, "division by zero");
                10 / request
            }
        });
        let worker = worker.unwrap();
        assert_eq!(worker.request(0), Err(NoResponse::Panicked));
        assert_eq!(worker.request(5), Ok(2));
        assert!(!worker.has_ended());
    }

    #[test]
    fn a_worker_that_cannot_initialize_has_exited() {
        let worker = Worker::start("test", Duration::from_mins(1), || -> fn(u32) -> u32 {
            panic!("the initialization fails");
        });
        let worker = worker.unwrap();
        assert_eq!(worker.request(5), Err(NoResponse::Panicked));
        while !worker.has_ended() {
            thread::yield_now();
        }
        assert_eq!(worker.request(5), Err(NoResponse::Panicked));
    }
}
