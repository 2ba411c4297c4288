//! A stand-in for `libOpenCL.so.1`: the four functions by which devices are listed, and what can be wrong with them.
//!
//! `CAIRN_STUB_OPENCL` has words, or `@FILE` with words: `none` (no platform), `hang` (listing platforms never returns),
//! `crash` (it ends the process), `refuse` (no platform is listed, for want of memory), `mute` (its devices are not listed, for
//! want of memory), `empty` (it has no devices), `garbage` (every text and number is nonsense), `board=ADDRESS` (the card says
//! where it is). Without words there is one platform with a card of type accelerator, and a processor.

#![allow(non_snake_case, reason = "the names are OpenCL's")]
#![allow(
    clippy::missing_safety_doc,
    reason = "they are called as OpenCL says, with pointers that are valid or null"
)]

use std::{ffi::c_void, fs, process, thread};

type Code = i32;
type Handle = usize;

const SUCCESS: Code = 0;
const DEVICE_NOT_FOUND: Code = -1;
const OUT_OF_HOST_MEMORY: Code = -6;
const INVALID_VALUE: Code = -30;
const PLATFORM_NOT_FOUND: Code = -1001;

const TYPE_CPU: u64 = 2;
const TYPE_ACCELERATOR: u64 = 8;

fn word(name: &str) -> Option<String> {
    let words = std::env::var("CAIRN_STUB_OPENCL").unwrap_or_default();
    let words = match words.strip_prefix('@') {
        Some(file) => fs::read_to_string(file).unwrap_or_default(),
        None => words,
    };
    words.split_whitespace().find_map(|word| {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        (key == name).then(|| value.to_owned())
    })
}

/// Lists handles as OpenCL does: so many where there is room, and how many there are.
unsafe fn list(all: &[Handle], room: u32, to: *mut Handle, count: *mut u32) -> Code {
    if !to.is_null() {
        for (at, handle) in all.iter().enumerate().take(room as usize) {
            unsafe { to.add(at).write(*handle) };
        }
    }
    if !count.is_null() {
        unsafe { count.write(u32::try_from(all.len()).unwrap_or(0)) };
    }
    SUCCESS
}

/// Gives a value as OpenCL does: its bytes where there is room, and how many they are.
unsafe fn give(value: &[u8], room: usize, to: *mut c_void, size: *mut usize) -> Code {
    if !to.is_null() {
        if room < value.len() {
            return INVALID_VALUE;
        }
        unsafe { to.cast::<u8>().copy_from_nonoverlapping(value.as_ptr(), value.len()) };
    }
    if !size.is_null() {
        unsafe { size.write(value.len()) };
    }
    SUCCESS
}

/// The one platform.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetPlatformIDs(room: u32, to: *mut Handle, count: *mut u32) -> Code {
    if word("none").is_some() {
        return PLATFORM_NOT_FOUND;
    }
    if word("refuse").is_some() {
        return OUT_OF_HOST_MEMORY;
    }
    if word("crash").is_some() {
        process::abort();
    }
    while word("hang").is_some() {
        thread::park(); // a driver that hangs
    }
    unsafe { list(&[1], room, to, count) }
}

/// Its name and maker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetPlatformInfo(
    _platform: Handle,
    what: u32,
    room: usize,
    to: *mut c_void,
    size: *mut usize,
) -> Code {
    let text: &[u8] = match what {
        _ if word("garbage").is_some() => b"\xff\xfe",
        0x0902 | 0x0903 => b"Xilinx\0",
        _ => return INVALID_VALUE,
    };
    unsafe { give(text, room, to, size) }
}

/// A card and a processor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetDeviceIDs(
    _platform: Handle,
    _types: u64,
    room: u32,
    to: *mut Handle,
    count: *mut u32,
) -> Code {
    if word("mute").is_some() {
        return OUT_OF_HOST_MEMORY;
    }
    if word("empty").is_some() {
        return DEVICE_NOT_FOUND;
    }
    unsafe { list(&[1, 2], room, to, count) }
}

/// What a device is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetDeviceInfo(
    device: Handle,
    what: u32,
    room: usize,
    to: *mut c_void,
    size: *mut usize,
) -> Code {
    let garbage = word("garbage").is_some();
    let value = match what {
        0x1000 => (if device == 1 { TYPE_ACCELERATOR } else { TYPE_CPU }).to_ne_bytes().to_vec(),
        _ if garbage => vec![0xff; 8],
        0x1002 => 1_u32.to_ne_bytes().to_vec(),
        0x101F => (64_u64 << 30).to_ne_bytes().to_vec(),
        0x102B => b"xilinx_u250_gen3x16_xdma_shell_4_1\0".to_vec(),
        0x102C => b"Xilinx\0".to_vec(),
        // The address, as `cl_khr_pci_bus_info` has it.
        0x410F => match word("board").and_then(|address| numbers(&address)) {
            Some(numbers) => numbers.iter().flat_map(|it| it.to_ne_bytes()).collect(),
            None => return INVALID_VALUE,
        },
        _ => return INVALID_VALUE,
    };
    unsafe { give(&value, room, to, size) }
}

/// The four numbers of an address such as `0000:3b:00.0`.
fn numbers(address: &str) -> Option<[u32; 4]> {
    let mut parts = address.split([':', '.']).map(|part| u32::from_str_radix(part, 16).ok());
    Some([parts.next()??, parts.next()??, parts.next()??, parts.next()??])
}
