//! Commits that overlap with a slow one.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts commits that are so slow that others no longer wait for them.
#[derive(Default)]
pub struct SlowCommits {
    started: AtomicU64,
    finished: AtomicU64,
}

impl SlowCommits {
    /// A commit is slow from now on.
    pub fn begin(&self) {
        self.started.fetch_add(1, Ordering::AcqRel);
    }

    /// A slow commit ended.
    pub fn finish(&self) {
        self.finished.fetch_add(1, Ordering::AcqRel);
    }

    /// Number of slow commits that ended.
    pub fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }

    /// Whether a slow commit was in flight at any moment since this many had ended.
    pub fn any_since(&self, finished: u64) -> bool {
        self.started.load(Ordering::Acquire) > finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `b` a commit is slow, `e` it ended, `w` a write begins, `?` it ends: whether a slow commit overlapped.
    fn beside(text: &str) -> String {
        let (commits, mut finished) = (SlowCommits::default(), 0);
        let mut answers = String::new();
        for letter in text.chars() {
            match letter {
                'b' => commits.begin(),
                'e' => commits.finish(),
                'w' => finished = commits.finished(),
                _ => answers.push(if commits.any_since(finished) { 'y' } else { 'n' }),
            }
        }
        answers
    }

    #[test]
    fn writes_that_overlap_with_a_slow_commit_are_detected() {
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
