//! A thread that may be kept waiting by a driver, and those who ask it, who are not.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, Sender, TryRecvError, channel},
    },
    thread,
    time::Duration,
};

/// A thread that answers one question after the other.
///
/// While it hangs in a question it is not asked another one, and who asks is told at once.
#[derive(Debug)]
pub struct Worker<Q, A> {
    line: Mutex<Line<Q, A>>,
    limit: Duration,
}

#[derive(Debug)]
struct Line<Q, A> {
    questions: Sender<Q>,
    answers: Receiver<Option<A>>,
    /// Whether an answer is still to come to a question that nobody waits for any more.
    late: bool,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// It hangs in this question, or in one before.
    Hangs,
    /// It failed in a way in which it must not.
    Panicked,
}

impl<Q: Send + 'static, A: Send + 'static> Worker<Q, A> {
    /// Starts the thread, which first makes ready to answer; `limit` is how long who asks will wait.
    ///
    /// Fails when the system gives no more threads.
    pub fn start<F: FnMut(Q) -> A>(
        name: &str,
        limit: Duration,
        make_ready: impl FnOnce() -> F + Send + 'static,
    ) -> std::io::Result<Self> {
        let (questions, asked) = channel();
        let (said, answers) = channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut answer = make_ready();
            for question in asked {
                let answer = catch_unwind(AssertUnwindSafe(|| answer(question))).ok();
                if said.send(answer).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { line: Mutex::new(Line { questions, answers, late: false }), limit })
    }

    /// The answer, if it comes in time.
    pub fn ask(&self, question: Q) -> Result<A, Silence> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.late {
            match line.answers.try_recv() {
                // It woke up; what it said then was true then.
                Ok(_) => line.late = false,
                Err(TryRecvError::Empty) => return Err(Silence::Hangs),
                Err(TryRecvError::Disconnected) => return Err(Silence::Panicked),
            }
        }
        if line.questions.send(question).is_err() {
            return Err(Silence::Panicked);
        }
        match line.answers.recv_timeout(self.limit) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(Silence::Panicked),
            Err(_) => {
                line.late = true;
                Err(Silence::Hangs)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_hangs_is_not_asked_again_before_it_wakes() {
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
        // On a machine that is busy or stopped for a while, any answer may come late: it is asked again.
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
    }
}
