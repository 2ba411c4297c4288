//! Copies between memory regions that peers may write concurrently.
//!
//! In Rust and C, an ordinary load that races with a store is undefined behaviour. Two racing one-sided copies are
//! exactly that, and no program can rule them out for a peer. So no byte is accessed by ordinary loads and stores:
//! short copies use relaxed atomics, and long ones use an instruction (`rep movs`) of the same semantics
//! that is opaque to the compiler.

use std::sync::atomic::{
    AtomicU8, AtomicU64,
    Ordering::{self, Relaxed},
    fence,
};

/// From this many bytes, the processor's instruction is faster than a loop over words.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 256;

const WORD: usize = size_of::<u64>();

/// Copies `length` bytes. If both regions have the same alignment, aligned words never tear.
///
/// Writes before the copy happen before reads that observe a later write: the copy is enclosed in a
/// release and an acquire fence.
///
/// # Safety
/// `from` must be readable and `to` writable for `length` bytes during the call. Other threads and processes may access
/// them by this function or through atomics. The regions must not overlap.
#[inline]
pub unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    fence(Ordering::Release);
    // SAFETY: the caller upholds the contract of this function.
    unsafe { copy_relaxed(to, from, length) };
    fence(Ordering::Acquire);
}

#[inline]
unsafe fn copy_relaxed(to: *mut u8, from: *const u8, length: usize) {
    let aligned_alike = (to.addr() ^ from.addr()).is_multiple_of(WORD);
    let head = if aligned_alike { to.addr().wrapping_neg() % WORD } else { length }.min(length);
    // SAFETY: the three parts are consecutive and end at `length`; the middle one starts at an aligned word in
    // both regions, because their alignment is the same.
    unsafe {
        if !aligned_alike {
            return long_bytes(to, from, length);
        }
        bytes(to, from, head);
        let words = (length - head) / WORD;
        let (to, from) = (to.add(head), from.add(head));
        long_words(to, from, words);
        let done = words * WORD;
        bytes(to.add(done), from.add(done), length - head - done);
    }
}

/// Copies byte by byte.
unsafe fn bytes(to: *mut u8, from: *const u8, length: usize) {
    for at in 0..length {
        // SAFETY: by the caller's contract; an `AtomicU8` has the layout of a byte and no alignment requirement.
        unsafe {
            let byte = AtomicU8::from_ptr(from.add(at).cast_mut()).load(Relaxed);
            AtomicU8::from_ptr(to.add(at)).store(byte, Relaxed);
        }
    }
}

/// Copies word by word; both regions are aligned.
#[expect(clippy::cast_ptr_alignment, reason = "both are aligned by the caller")]
unsafe fn words(to: *mut u8, from: *const u8, count: usize) {
    let (to, from) = (to.cast::<u64>(), from.cast::<u64>());
    for at in 0..count {
        // SAFETY: by the caller's contract, and both are aligned.
        unsafe {
            let word = AtomicU64::from_ptr(from.add(at).cast_mut()).load(Relaxed);
            AtomicU64::from_ptr(to.add(at)).store(word, Relaxed);
        }
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn long_words(to: *mut u8, from: *const u8, count: usize) {
    if count * WORD < LONG {
        // SAFETY: by the caller's contract.
        return unsafe { words(to, from, count) };
    }
    // SAFETY: by the caller's contract. Each step of `rep movsq` moves one aligned word, which the processor does not
    // tear (Intel SDM 3A 9.1.1, AMD APM 2 7.3.2); the direction flag is clear by the ABI.
    unsafe {
        std::arch::asm!(
            "rep movsq",
            inout("rcx") count => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn long_bytes(to: *mut u8, from: *const u8, length: usize) {
    if length < LONG {
        // SAFETY: by the caller's contract.
        return unsafe { bytes(to, from, length) };
    }
    // SAFETY: as in `long_words`, byte by byte.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") length => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
use {bytes as long_bytes, words as long_words};

/// Prefetches the cache line at `place` for writing. A hint: it accesses no memory, whatever `place` is, and cannot
/// fault.
#[inline]
pub fn prefetch_line(place: *const u8) {
    // SAFETY: the instruction has no observable effect and never faults (AMD APM 3, PREFETCHW).
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Sets `length` bytes to `byte`.
///
/// # Safety
/// `to` must be writable for `length` bytes during the call; concurrent access is allowed as for [`copy`].
#[expect(clippy::cast_ptr_alignment, reason = "the first word is aligned above")]
pub unsafe fn fill(to: *mut u8, byte: u8, length: usize) {
    fence(Ordering::Release);
    let head = (to.addr().wrapping_neg() % WORD).min(length);
    let words = (length - head) / WORD;
    // SAFETY: the three parts are consecutive and end at `length`; the middle one is aligned.
    unsafe {
        for at in (0..head).chain(head + words * WORD..length) {
            AtomicU8::from_ptr(to.add(at)).store(byte, Relaxed);
        }
        let first = to.add(head).cast::<u64>();
        for at in 0..words {
            AtomicU64::from_ptr(first.add(at)).store(u64::from_ne_bytes([byte; WORD]), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        /// A copy changes exactly the given bytes, for all offsets and lengths.
        #[test]
        fn a_copy_moves_what_it_names_and_nothing_else(
            from in 0_usize..40, to in 0_usize..40, length in 0_usize..700, byte: u8,
        ) {
            let source: Vec<u8> = (0..800_u32).map(|at| (at * 7 % 251) as u8).collect();
            let mut target = vec![byte; 800];
            let mut expected = target.clone();
            expected[to..to + length].copy_from_slice(&source[from..from + length]);
            // SAFETY: both regions are within their vectors, which are distinct.
            unsafe { super::copy(target.as_mut_ptr().add(to), source.as_ptr().add(from), length) };
            prop_assert_eq!(&target, &expected);
            expected[from..from + length].fill(!byte);
            // SAFETY: the region is within the vector.
            unsafe { super::fill(target.as_mut_ptr().add(from), !byte, length) };
            prop_assert_eq!(&target, &expected);
        }
    }
}
