//! Which decisions were made while another was on its way for long.

use std::sync::atomic::{AtomicU64, Ordering};

/// Decisions that were on their way for so long that others were made meanwhile.
#[derive(Default)]
pub struct SlowCommits {
    started: AtomicU64,
    finished: AtomicU64,
}

impl SlowCommits {
    /// One is late from now on.
    pub fn begin(&self) {
        self.started.fetch_add(1, Ordering::AcqRel);
    }

    /// One that was late is written, or is not.
    pub fn finish(&self) {
        self.finished.fetch_add(1, Ordering::AcqRel);
    }

    /// How many have ended.
    pub fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    /// Whether any was on its way at some moment since so many had ended.
    pub fn any_since(&self, finished: u64) -> bool {
        self.started.load(Ordering::Acquire) > finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `b` one is late, `e` it has ended, `w` a write begins, `?` it ends: whether it was beside a late one.
    fn beside(text: &str) -> String {
        let (late, mut finished) = (SlowCommits::default(), 0);
        let mut said = String::new();
        for letter in text.chars() {
            match letter {
                'b' => late.begin(),
                'e' => late.finish(),
                'w' => finished = late.finished(),
                _ => said.push(if late.any_since(finished) { 'y' } else { 'n' }),
            }
        }
        said
    }

    #[test]
    fn a_write_beside_one_that_is_late_is_told() {
        for (text, expected) in [
            ("w?", "n"),
            ("bw?", "y"),
            ("wb?", "y"),
            ("bwe?", "y"),
            ("wbe?", "y"),
            ("bew?", "n"),
            ("bbew?", "y"),
            ("bbeew?", "n"),
        ] {
            assert_eq!(beside(text), expected, "{text}");
        }
    }
}
