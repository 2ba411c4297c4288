//! What is kept beside the bytes of a slot, where every process that reaches the slot sees it.

use std::{
    io,
    time::{Duration, Instant},
};

use crate::sync::{AtomicU32, AtomicU64, LOOKS, Ordering::SeqCst, Word, sequenced, spin_loop};

/// The counters of a slot, and what waits for them. All of it is atomic, so that a peer may write what it likes:
/// a wrong number makes waits wrong, never memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Header {
    /// How many copies have brought bytes here.
    pub received: AtomicU64,
    /// Changed, and woken, whenever a waiter must look again.
    wake: Word,
    /// How many wait.
    waiters: AtomicU32,
    /// Which Instance holds the slot's lock; 0 when nobody does.
    pub lock: AtomicU64,
    /// The bytes of a slot that has no more than these, on the line of the count that says that they are there: whoever
    /// looks for a short message gets both from the writer's cache at once.
    pub short: Short,
    /// How many copies have taken bytes from here.
    pub sent: Line,
    /// Two random numbers that who may reach this slot has been given; 0 once it is destroyed.
    pub secret: [AtomicU64; 2],
    /// How many bytes follow.
    pub size: AtomicU64,
}

/// A counter on a cache line of its own: it is written by the slot's owner while peers write the other ones.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Line(pub AtomicU64);

/// How many bytes lie within a header.
pub const SHORT: usize = 32;

/// Room for so many bytes, aligned for values of any type that fits.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub struct Short([AtomicU64; SHORT / 8]);

impl Header {
    /// A header for `size` bytes, with nothing counted.
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

    /// Counts a copy that has brought its bytes.
    #[inline]
    pub fn count_received(&self) {
        self.received.fetch_add(1, SeqCst);
        self.notify();
    }

    /// Counts a copy that has taken its bytes.
    #[inline]
    pub fn count_sent(&self) {
        self.sent.0.fetch_add(1, SeqCst);
        self.notify();
    }

    /// Makes every waiter look again, if there is one.
    #[inline]
    pub fn notify(&self) {
        sequenced();
        if self.waiters.load(SeqCst) != 0 {
            self.kick();
        }
    }

    /// Makes every waiter look again.
    #[cold]
    pub fn kick(&self) {
        self.wake.change();
        self.wake.wake();
    }

    /// Waits until `done` says something, or the deadline has passed. A wait that lasts costs no processor time.
    pub fn wait<T>(&self, deadline: Option<Instant>, mut done: impl FnMut() -> Option<T>) -> Option<T> {
        for _ in 0..LOOKS {
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
            // Read before looking: a change after the look makes the kernel return at once.
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

    /// Gives the slot a new secret and returns it.
    pub fn renew_secret(&self) -> io::Result<[u64; 2]> {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        // Never 0, which says that there is none.
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

    /// Takes the secret away: who was given it reaches the slot no more.
    pub fn drop_secret(&self) {
        self.secret[0].store(0, SeqCst);
        self.secret[1].store(0, SeqCst);
    }
}
