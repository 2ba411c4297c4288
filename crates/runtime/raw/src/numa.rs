//! Binds memory to a NUMA domain; the system call has no safe wrapper elsewhere.

use std::io;

use crate::Memory;

/// `MPOL_BIND` of mbind(2).
const BIND: libc::c_int = 2;

/// Allocates the pages of `memory` in NUMA domain `domain`. Call it before the first write.
pub fn bind(memory: &Memory, domain: u32) -> io::Result<()> {
    let (data, size) = memory.pages();
    let page = 4096;
    let begin = data.addr().next_multiple_of(page);
    let end = (data.addr() + size) / page * page;
    if end <= begin {
        return Ok(());
    }
    let mut mask = [0_u64; 16];
    let word = mask.get_mut(domain as usize / 64).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (domain % 64);
    // SAFETY: the range lies within pages owned by `memory`, the mask has the stated number of bits, and mbind
    // changes the placement of pages, not their contents.
    let answer = unsafe {
        libc::syscall(libc::SYS_mbind, begin, end - begin, BIND, mask.as_ptr(), 64 * mask.len(), 0)
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_numa_domain_is_an_error() {
        let memory = Memory::zeroed(1 << 20).unwrap();
        assert!(bind(&memory, 1_000).is_err() && bind(&memory, 100_000).is_err());
    }
}
