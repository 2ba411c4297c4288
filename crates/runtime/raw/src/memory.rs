//! Memory regions with headers: allocated, shared between processes, or provided by the program.

use std::{
    any::Any,
    fmt,
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};

use crate::{
    copy,
    header::{Header, SHORT},
};

/// Plain data: every bit pattern is a value, so a peer may write any.
pub trait Plain: bytemuck::Pod + Send + Sync {}
impl<T: bytemuck::Pod + Send + Sync> Plain for T {}

/// Size of the header of a shared segment. The bytes start on the next page, unless they fit into the header.
const HEADER: usize = 4096;

/// A copy exceeds the bounds of a memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds {
    /// Offset of the copy.
    pub offset: usize,
    /// Length of the copy.
    pub length: usize,
    /// Size of the region.
    pub size: usize,
}

/// A memory region and its header.
///
/// Any number of threads and processes read and write it by copies, as if by relaxed atomics. Only an exclusive
/// owner that never shared the file can borrow the bytes.
pub struct Memory {
    data: *mut u8,
    size: usize,
    header: *const Header,
    /// The file of a shared segment.
    file: Option<File>,
    /// Whether another process may have mapped the file.
    given: AtomicBool,
    owner: Owner,
}

/// Keeps the bytes at their address. Moving any of these moves no byte.
#[expect(dead_code, reason = "held only to be dropped")]
enum Owner {
    /// Pages of this process.
    Pages { pages: MmapMut, kept: Box<Header> },
    /// A header and bytes, which other processes may map if there is a file.
    Segment { whole: MmapRaw },
    /// A buffer of the program, of any type.
    Buffer { buffer: Box<dyn Any + Send>, kept: Box<Header> },
}

// SAFETY: the bytes and the header keep their address while `owner` lives, which is as long as `self`.
// `&Memory` accesses both only by atomics or by `copy`, which is as if by atomics. `&mut Memory` is exclusive and
// allows ordinary accesses, but never once `given` is set, as another process may have mapped them.
unsafe impl Send for Memory {}
// SAFETY: see above.
unsafe impl Sync for Memory {}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("size", &self.size)
            .field("shared", &self.file.is_some())
            .finish_non_exhaustive()
    }
}

impl Memory {
    /// Allocates zeroed memory on its own pages.
    pub fn zeroed(size: usize) -> io::Result<Self> {
        if size <= SHORT {
            let page = MmapRaw::from(MmapOptions::new().len(HEADER).map_anon()?);
            let memory = Self::within(page, None, size);
            memory.header().size.store(size as u64, SeqCst);
            return Ok(memory);
        }
        let mut data = MmapOptions::new().len(size.max(1)).map_anon()?;
        let header = Box::new(Header::new(size));
        let (data_at, header_at) = (data.as_mut_ptr(), &raw const *header);
        let owner = Owner::Pages { pages: data, kept: header };
        Ok(Self { data: data_at, size, header: header_at, file: None, given: AtomicBool::new(false), owner })
    }

    /// Wraps a buffer of the program, to be returned by [`Memory::into_buffer`].
    pub fn of<T: Plain>(mut buffer: Vec<T>) -> Self {
        let size = size_of_val(buffer.as_slice());
        let header = Box::new(Header::new(size));
        let (data, header_at) = (buffer.as_mut_ptr().cast(), &raw const *header);
        let owner = Owner::Buffer { buffer: Box::new(buffer), kept: header };
        Self { data, size, header: header_at, file: None, given: AtomicBool::new(false), owner }
    }

    /// Returns the wrapped buffer if it has this type, and otherwise the unchanged memory.
    pub fn into_buffer<T: Plain>(self) -> Result<Vec<T>, Self> {
        let Self { data, size, header, file, given, owner } = self;
        match owner {
            Owner::Buffer { buffer, kept } => match buffer.downcast::<Vec<T>>() {
                Ok(buffer) => Ok(*buffer),
                Err(buffer) => {
                    Err(Self { data, size, header, file, given, owner: Owner::Buffer { buffer, kept } })
                }
            },
            owner => Err(Self { data, size, header, file, given, owner }),
        }
    }

    /// Creates a zeroed shared segment: a memfd, sealed against truncation under a reader.
    pub fn segment(size: usize) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("cairn-slot", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let whole = size.checked_add(HEADER).ok_or(io::ErrorKind::OutOfMemory)?;
        rustix::fs::ftruncate(&file, whole as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let memory = Self::map(file.into(), whole)?;
        memory.header().size.store(size as u64, SeqCst);
        Ok(memory)
    }

    /// Maps a segment of another process; fails if it could be truncated or is no segment of this crate.
    pub fn open(file: OwnedFd) -> io::Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        let whole = usize::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or_default();
        if !seals.contains(SealFlags::SHRINK) || whole < HEADER {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let memory = Self::map(file.into(), whole)?;
        if memory.header().size.load(SeqCst) != memory.size as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        memory.given.store(true, SeqCst);
        Ok(memory)
    }

    fn map(file: File, whole: usize) -> io::Result<Self> {
        let all = MmapOptions::new().len(whole).map_raw(&file)?;
        Ok(Self::within(all, Some(file), whole - HEADER))
    }

    /// Wraps a mapping that starts with a header, followed by `size` bytes.
    fn within(all: MmapRaw, file: Option<File>, size: usize) -> Self {
        let base = all.as_mut_ptr();
        let begin = if size <= SHORT { std::mem::offset_of!(Header, short) } else { HEADER };
        // SAFETY: the mapping has `HEADER + size` bytes, or at least `HEADER`, whose field has `SHORT` bytes.
        let data = unsafe { base.add(begin) };
        // All zeroes is a valid header with zero counters, and pages have its alignment.
        #[expect(clippy::cast_ptr_alignment, reason = "mappings are page-aligned")]
        let header = base.cast::<Header>().cast_const();
        let owner = Owner::Segment { whole: all };
        Self { data, size, header, file, given: AtomicBool::new(false), owner }
    }

    /// The size in bytes.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The counters and their waiters.
    #[inline]
    pub fn header(&self) -> &Header {
        // SAFETY: it lives as long as `owner`, and consists of atomics, so peers may write it.
        unsafe { &*self.header }
    }

    /// Prefetches the bytes from `offset` and the receive counter for writing; a hint.
    #[inline]
    pub fn prefetch_bytes(&self, offset: usize) {
        copy::prefetch_line(self.data.wrapping_add(offset));
        self.prefetch_counter();
    }

    /// Prefetches the receive counter for writing; a hint.
    #[inline]
    pub fn prefetch_counter(&self) {
        copy::prefetch_line(self.header.cast());
    }

    /// The file of a shared segment, for other processes. From now on the bytes cannot be borrowed.
    pub fn give(&self) -> Option<BorrowedFd<'_>> {
        self.given.store(true, SeqCst);
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Borrows the bytes; none once another process may have mapped them.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if *self.given.get_mut() {
            return None;
        }
        // SAFETY: `&mut self` is exclusive, and no other process has the file. The bytes are
        // initialised: zeroed pages, or a buffer of plain data, for which every bit pattern is valid.
        Some(unsafe { std::slice::from_raw_parts_mut(self.data, self.size) })
    }

    #[inline]
    fn check(&self, offset: usize, length: usize) -> Result<(), OutOfBounds> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(OutOfBounds { offset, length, size: self.size }),
        }
    }

    /// Copies from this region to `bytes`.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        self.check(offset, bytes.len())?;
        // SAFETY: bounds are checked; `bytes` is borrowed exclusively, so it cannot overlap.
        unsafe { copy::copy(bytes.as_mut_ptr(), self.data.add(offset), bytes.len()) };
        Ok(())
    }

    /// Copies `bytes` to this region.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        self.check(offset, bytes.len())?;
        // SAFETY: bounds are checked; `bytes` is not this memory, which only `bytes_mut` lends,
        // and such a borrow excludes this call.
        unsafe { copy::copy(self.data.add(offset), bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Sets `length` bytes to `byte`.
    pub fn fill(&self, offset: usize, byte: u8, length: usize) -> Result<(), OutOfBounds> {
        self.check(offset, length)?;
        // SAFETY: bounds are checked.
        unsafe { copy::fill(self.data.add(offset), byte, length) };
        Ok(())
    }

    /// Copies `length` bytes from `source`.
    ///
    /// An overlapping copy within one region is an error with the bounds of this one.
    #[inline]
    pub fn copy_from(
        &self,
        offset: usize,
        source: &Self,
        source_offset: usize,
        length: usize,
    ) -> Result<(), OutOfBounds> {
        self.check(offset, length)?;
        source.check(source_offset, length)?;
        let same = self.data == source.data;
        if same && length > 0 && offset < source_offset + length && source_offset < offset + length {
            return Err(OutOfBounds { offset, length, size: self.size });
        }
        // SAFETY: both bounds are checked. Distinct regions do not overlap, except two mappings of one segment, where
        // accesses are as if by relaxed atomics and only interleave bytes.
        unsafe { copy::copy(self.data.add(offset), source.data.add(source_offset), length) };
        Ok(())
    }

    /// Sends bytes of this region through a socket and returns how many the kernel accepted. `waits` allows it to block
    /// for space.
    pub fn send(&self, to: BorrowedFd<'_>, offset: usize, length: usize, waits: bool) -> io::Result<usize> {
        self.check(offset, length).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = libc::MSG_NOSIGNAL | if waits { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: bounds are checked. The kernel reads as another process would, so racing writes only interleave
        // bytes.
        let sent = unsafe { libc::send(to.as_raw_fd(), self.data.add(offset).cast(), length, flags) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives bytes from a socket and returns their number, 0 at the end of the stream. `waits` allows it to block for
    /// the first byte.
    pub fn receive(
        &self,
        from: BorrowedFd<'_>,
        offset: usize,
        length: usize,
        waits: bool,
    ) -> io::Result<usize> {
        self.check(offset, length).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flags = if waits { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: bounds are checked. The kernel writes as another process would, so concurrent readers copy
        // interleaved bytes at worst.
        let received = unsafe { libc::recv(from.as_raw_fd(), self.data.add(offset).cast(), length, flags) };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    pub(crate) fn pages(&self) -> (*mut u8, usize) {
        (self.data, self.size)
    }
}

/// Whether a socket becomes readable within `time`, or ever; the end of the stream counts.
pub fn wait_readable(from: BorrowedFd<'_>, time: Option<Duration>) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: from.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let time = time.map(|time| libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    let until = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both pointers are to locals that outlive the call; no signal mask is given.
    match unsafe { libc::ppoll(&raw mut poll, 1, until, std::ptr::null()) } {
        -1 => Err(io::Error::last_os_error()),
        ready => Ok(ready > 0),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_registered_buffer_is_returned_with_the_copied_bytes() {
        let memory = Memory::of(vec![1_u32, 2, 3]);
        memory.write(4, &9_u32.to_ne_bytes()).unwrap();
        let memory = memory.into_buffer::<u64>().unwrap_err();
        assert_eq!(memory.into_buffer::<u32>().unwrap(), [1, 9, 3]);
    }

    #[test]
    fn peer_writes_to_a_segment_are_visible_and_prevent_lending() {
        // Some bytes within the header, as many as fit, and bytes on their own pages.
        for size in [1, SHORT, SHORT + 1, 4096] {
            let mut ours = Memory::segment(size).unwrap();
            assert_eq!(ours.bytes_mut().unwrap(), vec![0; size]);
            let file = ours.give().unwrap().try_clone_to_owned().unwrap();
            assert!(ours.bytes_mut().is_none());
            let theirs = Memory::open(file).unwrap();
            theirs.write(0, &vec![0xff; size]).unwrap();
            theirs.header().count_received();
            let mut bytes = vec![0; size];
            ours.read(0, &mut bytes).unwrap();
            let header = ours.header();
            let others = [&header.lock, &header.sent.0, &header.secret[0]].map(|word| word.load(SeqCst));
            assert_eq!((bytes, header.received.load(SeqCst), others), (vec![0xff; size], 1, [0; 3]));
            assert_eq!(header.size.load(SeqCst), size as u64);
        }
    }

    #[test]
    fn a_file_that_could_be_truncated_is_rejected() {
        let file = rustix::fs::memfd_create("x", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, 8192).unwrap();
        assert!(Memory::open(file.as_fd().try_clone_to_owned().unwrap()).is_err());
        // A sealed file whose header has another size.
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
        assert!(Memory::open(file).is_err());
    }

    #[test]
    fn socket_transfers_stay_within_the_region() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let (from, to) = (Memory::of(vec![1_u8, 2, 3, 4]), Memory::zeroed(4).unwrap());
        assert_eq!(from.send(ours.as_fd(), 1, 3, true).unwrap(), 3);
        assert!(
            from.send(ours.as_fd(), 2, 3, true).is_err() && to.receive(theirs.as_fd(), 4, 1, true).is_err()
        );
        assert_eq!(to.receive(theirs.as_fd(), 0, 4, true).unwrap(), 3);
        let mut bytes = [0; 4];
        to.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [2, 3, 4, 0]);
        assert!(!wait_readable(theirs.as_fd(), Some(Duration::ZERO)).unwrap());
        assert!(to.receive(theirs.as_fd(), 0, 4, false).is_err());
        drop(ours);
        assert!(wait_readable(theirs.as_fd(), None).unwrap());
        let to = Memory::zeroed(4).unwrap();
        assert_eq!(to.receive(theirs.as_fd(), 0, 4, true).unwrap(), 0);
    }

    #[test]
    fn out_of_bounds_copies_fail() {
        let memory = Memory::zeroed(10).unwrap();
        let other = Memory::zeroed(20).unwrap();
        assert_eq!(memory.write(8, b"abc"), Err(OutOfBounds { offset: 8, length: 3, size: 10 }));
        assert!(memory.read(usize::MAX, &mut [0]).is_err());
        assert!(memory.copy_from(0, &other, 15, 6).is_err() && memory.copy_from(5, &other, 0, 6).is_err());
        assert!(memory.copy_from(0, &memory, 3, 4).is_err() && memory.copy_from(0, &memory, 4, 4).is_ok());
    }

    #[test]
    fn racing_copies_never_tear_an_aligned_word() {
        let shared = Memory::zeroed(8 * 1024).unwrap();
        let patterns = [Memory::of(vec![0_u64; 1024]), Memory::of(vec![u64::MAX; 1024])];
        std::thread::scope(|threads| {
            for pattern in &patterns {
                threads.spawn(|| (0..200).for_each(|_| shared.copy_from(0, pattern, 0, 8 * 1024).unwrap()));
            }
            let mut words = vec![0_u64; 1024];
            for _ in 0..200 {
                shared.read(0, bytemuck::cast_slice_mut(&mut words)).unwrap();
                assert!(words.iter().all(|&word| word == 0 || word == u64::MAX));
            }
        });
    }
}
