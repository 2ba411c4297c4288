//! The header of a slot, shared by every process that maps the slot.

use std::{
    io,
    time::{Duration, Instant},
};

use crate::sync::{AtomicU32, AtomicU64, Ordering::SeqCst, POLLS, Word, sequenced, spin_loop};

/// Counters of a slot and their waiters. All fields are atomic, so a peer may write any value: wrong numbers break
/// waits, never memory safety.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Header {
    /// Number of copies into the slot.
    pub received: AtomicU64,
    /// Changed and woken whenever waiters must check again.
    wake: Word,
    /// Number of waiters.
    waiters: AtomicU32,
    /// The Instance that holds the slot's lock; 0 for none.
    pub lock: AtomicU64,
    /// The bytes of a small slot, on the cache line of the counter that announces them: a poll for a short message
    /// fetches both at once.
    pub short: Short,
    /// Number of copies out of the slot.
    pub sent: Line,
    /// Two random numbers known to the Instances that may reach the slot; 0 once it is destroyed.
    pub secret: [AtomicU64; 2],
    /// The size in bytes.
    pub size: AtomicU64,
}

/// A counter on its own cache line: the slot's owner writes it while peers write the other ones.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Line(pub AtomicU64);

/// Number of bytes within a header.
pub const SHORT: usize = 32;

/// Storage for small slots, aligned for values of any type that fits.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct Short([AtomicU64; SHORT / 8]);

impl Header {
    /// A header for `size` bytes with zero counters.
    pub fn new(size: usize) -> Self {
        Self {
            received: AtomicU64::new(0),
            wake: Word::default(),
            waiters: AtomicU32::new(0),
            lock: AtomicU64::new(0),
            short: Short::default(),
            sent: Line::default(),
            secret: [AtomicU64::new(0), AtomicU64::new(0)],
            size: AtomicU64::new(size as u64),
        }
    }

    /// Counts a completed copy into the slot.
    #[inline]
    pub fn count_received(&self) {
        self.received.fetch_add(1, SeqCst);
        self.notify();
    }

    /// Counts a completed copy out of the slot.
    #[inline]
    pub fn count_sent(&self) {
        self.sent.0.fetch_add(1, SeqCst);
        self.notify();
    }

    /// Wakes all waiters, if there are any.
    #[inline]
    pub fn notify(&self) {
        sequenced();
        if self.waiters.load(SeqCst) != 0 {
            self.kick();
        }
    }

    /// Wakes all waiters.
    #[cold]
    pub fn kick(&self) {
        self.wake.change();
        self.wake.wake();
    }

    /// Waits until `done` returns a value or the deadline has passed. A long wait uses no processor time.
    pub fn wait<T>(&self, deadline: Option<Instant>, mut done: impl FnMut() -> Option<T>) -> Option<T> {
        for _ in 0..POLLS {
            if let Some(value) = done() {
                return Some(value);
            }
            spin_loop();
        }
        self.waiters.fetch_add(1, SeqCst);
        sequenced();
        let value = self.sleep(deadline, done);
        self.waiters.fetch_sub(1, SeqCst);
        value
    }

    fn sleep<T>(&self, deadline: Option<Instant>, mut done: impl FnMut() -> Option<T>) -> Option<T> {
        loop {
            // Read before the check: a later change makes the kernel return at once.
            let seen = self.wake.load();
            if let Some(value) = done() {
                return Some(value);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return None;
            }
            self.wake.wait(seen, left);
        }
    }

    /// Sets and returns a new secret.
    pub fn renew_secret(&self) -> io::Result<[u64; 2]> {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        // Never 0, which means none.
        let secret: [u64; 2] = bytemuck::cast(bytes);
        let secret = secret.map(|half| half | 1);
        self.secret[0].store(secret[0], SeqCst);
        self.secret[1].store(secret[1], SeqCst);
        Ok(secret)
    }

    /// Whether the slot still has this secret.
    pub fn has_secret(&self, secret: [u64; 2]) -> bool {
        secret != [0, 0] && [self.secret[0].load(SeqCst), self.secret[1].load(SeqCst)] == secret
    }

    /// Clears the secret, which revokes access.
    pub fn drop_secret(&self) {
        self.secret[0].store(0, SeqCst);
        self.secret[1].store(0, SeqCst);
    }
}
