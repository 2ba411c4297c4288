//! A thread that a driver may block, and its clients, which are not blocked.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The maximum age of an answer that came too late for its client, and is given to the next one with the same request.
const FRESH: Duration = Duration::from_secs(10);

/// A thread that answers one request after the other.
///
/// While it is blocked no request is queued, and clients get an error at once.
#[derive(Debug)]
pub struct Worker<Q, A> {
    line: Mutex<Line<Q, A>>,
    thread: JoinHandle<()>,
    limit: Duration,
    fresh: Duration,
}

#[derive(Debug)]
struct Line<Q, A> {
    questions: Sender<Q>,
    /// Each with its time.
    answers: Receiver<(Option<A>, Instant)>,
    /// The request, if any, whose answer is pending although its client has given up.
    late: Option<Q>,
    /// The last late answer to each request, with its time.
    kept: Vec<(Q, A, Instant)>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// It is blocked in this request, or in an earlier one.
    Hangs,
    /// It failed fatally.
    Panicked,
}

impl<Q: Clone + PartialEq + Send + 'static, A: Send + 'static> Worker<Q, A> {
    /// Starts the thread, which first initializes itself; `limit` is the time-out of a request.
    ///
    /// Fails if the system has no more threads.
    pub fn start<F: FnMut(Q) -> A>(
        name: &str,
        limit: Duration,
        make_ready: impl FnOnce() -> F + Send + 'static,
    ) -> std::io::Result<Self> {
        let (questions, asked) = channel();
        let (said, answers) = channel();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut answer = make_ready();
            for question in asked {
                let answer = catch_unwind(AssertUnwindSafe(|| answer(question))).ok();
                if said.send((answer, Instant::now())).is_err() {
                    return;
                }
            }
        })?;
        let line = Line { questions, answers, late: None, kept: Vec::new() };
        Ok(Self { line: Mutex::new(line), thread, limit, fresh: FRESH })
    }

    /// Whether the thread has exited because it could not initialize itself.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// The answer, if it arrives in time, or arrived late for the same request a moment ago.
    pub fn ask(&self, question: Q) -> Result<A, Silence> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(late) = line.late.take() {
            match line.answers.try_recv() {
                // It woke up; its answer is still recent.
                Ok((answer, given)) => {
                    line.kept.retain(|kept| kept.0 != late && kept.2.elapsed() < self.fresh);
                    line.kept.extend(answer.map(|answer| (late, answer, given)));
                }
                Err(TryRecvError::Empty) => line.late = Some(late),
                Err(TryRecvError::Disconnected) => return Err(Silence::Panicked),
            }
        }
        // Otherwise a driver that always takes longer would never be heard.
        let at = line.kept.iter().position(|kept| kept.0 == question);
        if let Some((_, answer, given)) = at.map(|at| line.kept.swap_remove(at))
            && given.elapsed() < self.fresh
        {
            return Ok(answer);
        }
        if line.late.is_some() {
            return Err(Silence::Hangs);
        }
        if line.questions.send(question.clone()).is_err() {
            return Err(Silence::Panicked);
        }
        match line.answers.recv_timeout(self.limit) {
            Ok((Some(answer), _)) => Ok(answer),
            Ok((None, _)) | Err(RecvTimeoutError::Disconnected) => Err(Silence::Panicked),
            Err(RecvTimeoutError::Timeout) => {
                line.late = Some(question);
                Err(Silence::Hangs)
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
        let answer = move |question: u32| {
            count.send(question).unwrap();
            if question == 1 {
                sleeping.recv().unwrap();
            }
            question * 10
        };
        let worker = Worker::start("test", Duration::from_millis(20), || answer).unwrap();
        // On a busy machine any answer may be late: retry.
        let insist = |question| {
            loop {
                match worker.ask(question) {
                    Err(Silence::Hangs) => thread::yield_now(),
                    other => return other,
                }
            }
        };
        assert_eq!(insist(7), Ok(70));
        assert_eq!(worker.ask(1), Err(Silence::Hangs));
        assert_eq!(worker.ask(2), Err(Silence::Hangs));
        wake.send(()).unwrap();
        assert_eq!(insist(3), Ok(30));
        let mut asked: Vec<u32> = counted.try_iter().collect();
        asked.dedup();
        assert!(asked == [7, 1, 3], "2 was never asked: {asked:?}");
    }

    #[test]
    fn late_answers_are_reused_for_the_same_request_while_fresh() {
        for fresh in [Duration::MAX, Duration::ZERO] {
            let (wake, sleeping) = channel::<()>();
            let mut times = 0;
            let answer = move |question: u32| {
                // an error once it was woken for good
                let _ = sleeping.recv();
                times += 1;
                (question, times)
            };
            let worker = Worker::start("test", Duration::from_millis(20), || answer).unwrap();
            let worker = Worker { fresh, ..worker };
            let insist = |question| {
                loop {
                    match worker.ask(question) {
                        Err(Silence::Hangs) => thread::yield_now(),
                        other => return other.unwrap(),
                    }
                }
            };
            assert_eq!(worker.ask(5), Err(Silence::Hangs));
            drop(wake);
            if !fresh.is_zero() {
                assert_eq!(insist(6).0, 6, "who asks something else has an answer to that");
            }
            let (question, times) = insist(5);
            assert_eq!((question, times > 1), (5, fresh.is_zero()));
        }
    }

    #[test]
    fn a_late_answer_is_handed_out_while_another_question_is_waited_for() {
        let (wake, sleeping) = channel::<()>();
        let (count, counted) = channel();
        let answer = move |question: u32| {
            count.send(question).unwrap();
            // an error at the end of the test
            let _ = sleeping.recv();
            question * 10
        };
        let worker = Worker::start("test", Duration::from_millis(20), || answer).unwrap();
        let worker = Worker { fresh: Duration::MAX, ..worker };
        assert_eq!(worker.ask(5), Err(Silence::Hangs));
        wake.send(()).unwrap();
        while !counted.try_iter().any(|question| question == 6) {
            assert_eq!(worker.ask(6), Err(Silence::Hangs));
        }
        assert_eq!(worker.ask(5), Ok(50));
        assert_eq!(worker.ask(5), Err(Silence::Hangs), "once");
    }

    #[test]
    fn a_panic_is_no_answer_and_not_the_end() {
        let worker = Worker::start("test", Duration::from_mins(1), || {
            |question: u32| {
                assert!(question != 0, "nothing to divide by");
                10 / question
            }
        });
        let worker = worker.unwrap();
        assert_eq!(worker.ask(0), Err(Silence::Panicked));
        assert_eq!(worker.ask(5), Ok(2));
        assert!(!worker.has_ended());
    }

    #[test]
    fn a_worker_that_cannot_initialize_has_exited() {
        let worker = Worker::start("test", Duration::from_mins(1), || -> fn(u32) -> u32 {
            panic!("there is nothing to ask");
        });
        let worker = worker.unwrap();
        assert_eq!(worker.ask(5), Err(Silence::Panicked));
        while !worker.has_ended() {
            thread::yield_now();
        }
        assert_eq!(worker.ask(5), Err(Silence::Panicked));
    }
}
